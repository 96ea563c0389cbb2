"""Make the tool calls of local models usable, on the wire between an agent and Ollama."""

__version__ = "0.1.0"
