"""Read and write the four API surfaces."""

from __future__ import annotations

from typing import Final

from toolmend.surfaces.anthropic_messages import AnthropicMessages
from toolmend.surfaces.ollama_chat import OllamaChat
from toolmend.surfaces.openai_chat import OpenAIChat
from toolmend.surfaces.openai_responses import OpenAIResponses
from toolmend.surfaces.surface import Surface

_ALL: Final[tuple[Surface, ...]] = (OllamaChat(), OpenAIChat(), OpenAIResponses(), AnthropicMessages())
SURFACES: Final[dict[str, Surface]] = {surface.path: surface for surface in _ALL}
