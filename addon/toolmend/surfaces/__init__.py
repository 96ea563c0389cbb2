"""Read and write the four API surfaces."""

from __future__ import annotations

from typing import Final

from toolmend.surfaces.ollama_chat import OllamaChat
from toolmend.surfaces.openai_chat import OpenAIChat
from toolmend.surfaces.surface import Surface

SURFACES: Final[dict[str, Surface]] = {surface.path: surface for surface in (OllamaChat(), OpenAIChat())}
