"""Tell what a model on Ollama can do with tools, and by which path its calls are read.

Source: ollama/server/routes.go, `chatModeForModel`, `shouldUseHarmony`, `GetModelInfo`; ollama/internal/modelref.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from toolmend.commands.http_client import get_json
from toolmend.commands.ollama_host import Address

SECONDS: Final = 10.0
PARSER_LINE: Final = re.compile(r"^PARSER\s+(\S+)", re.MULTILINE)
WINDOW_LINE: Final = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Model:
    """Hold what is known of a model. `window` is the context it is loaded with, or would be by its own parameters, in
    tokens (None: the server's default); `trained` is the largest it was made for; `loaded` tells whether it is now."""

    name: str
    calls_tools: bool
    path: str
    window: int | None = None
    trained: int | None = None
    loaded: bool = False


def parser_path(name: str, shown: Mapping[str, Any]) -> str:
    """Tell by which path a model's calls are read, from what /api/show says of it.

    Args:
        name: The model's name with its tag.
        shown: The answer of /api/show; what it lacks is not used.
    """
    template = str(shown.get("template") or "")
    details = shown.get("details") or {}
    if shown.get("remote_host") or name.endswith((":cloud", "-cloud")):
        return "cloud: read on the far side"
    if details.get("format") == "safetensors":
        return "MLX: no schema can hold it"
    if found := PARSER_LINE.search(str(shown.get("modelfile") or "")):
        return f"Ollama's parser {found[1]}"
    if details.get("family") in ("gptoss", "gpt-oss") and "<|start|>" in template and "<|end|>" in template:
        return "Ollama's parser harmony"
    if "{%" in template:
        return "llama.cpp's own parser"
    return "Ollama's generic parser" if "{{" in template else "unknown"


def all_models(server: Address) -> list[Model]:
    """List the models that a server has, in its order."""
    listed = get_json(server, "/api/tags", SECONDS)
    running = get_json(server, "/api/ps", SECONDS)
    windows = {_name(each): each.get("context_length") for each in _models(running)}
    return [_model(server, _name(each), windows) for each in _models(listed) if _name(each)]


def _models(document: object) -> list[dict[str, Any]]:
    models = document.get("models") if isinstance(document, dict) else None
    return [each for each in models if isinstance(each, dict)] if isinstance(models, list) else []


def _name(model: Mapping[str, Any]) -> str:
    return str(model.get("name") or model.get("model") or "")


def _model(server: Address, name: str, windows: Mapping[str, Any]) -> Model:
    shown = get_json(server, "/api/show", SECONDS, {"model": name})
    if not isinstance(shown, dict):
        return Model(name, calls_tools=False, path="unknown (/api/show gave no answer)")
    said = WINDOW_LINE.search(str(shown.get("parameters") or ""))
    loaded = windows.get(name)
    capabilities = shown.get("capabilities")
    return Model(
        name=name,
        calls_tools=isinstance(capabilities, list) and "tools" in capabilities,
        path=parser_path(name, shown),
        window=loaded if isinstance(loaded, int) else int(said[1]) if said else None,
        trained=_trained(shown.get("model_info")),
        loaded=name in windows,
    )


def _trained(info: object) -> int | None:
    values = [value for key, value in info.items() if key.endswith(".context_length")] if isinstance(info, dict) else []
    return values[0] if values and isinstance(values[0], int) else None
