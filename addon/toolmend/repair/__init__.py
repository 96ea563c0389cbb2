"""Repair a turn, surest rung first."""
