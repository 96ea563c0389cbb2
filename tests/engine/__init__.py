"""Tests against a real llama.cpp server with a tiny model: `pytest -m engine`, with the packages of the extra `engine`."""
