"""Hold the direction of imports: the core knows neither mitmproxy nor the network."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "addon" / "toolmend"
MODULES = sorted(PACKAGE.rglob("*.py"))
SHELL = ("mitm", "cli", "commands")
LAYERS = [
    {"model", "fingerprint", "lenient_json", "shapes", "settings"},
    {"framing", "surfaces", "limits"},
    {"dialects"},
    {"repair"},
    {
        "tool_choice",
        "follow_up",
        "upstreams",
        "ollama_messages",
        "grammar_schema",
        "envelopes",
        "question_bodies",
        "wanted",
    },
    {"exchange", "report"},
    {"recordings", "har", "redaction", "private_values", "body_texts", "request_shape", "checking", "extracting"}
    | {"minimizing", "html_report", "pytest_plugin"},
]
JSONSCHEMA_USERS = {"repair/schema.py"}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def area_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Name every module that a file imports, at its top or inside."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


CORE = [path for path in MODULES if area_of(path) not in SHELL and area_of(path) != "__init__"]


def test_the_core_imports_without_mitmproxy() -> None:
    names = [module_of(path) for path in CORE if area_of(path) != "pytest_plugin"]
    code = f"import sys; sys.modules['mitmproxy'] = None; import importlib; [importlib.import_module(n) for n in {names!r}]"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(PACKAGE.parent)})


@pytest.mark.parametrize("path", CORE, ids=module_of)
def test_imports_go_one_way(path: Path) -> None:
    level = {area: rank for rank, areas in enumerate(LAYERS) for area in areas}
    own = level[area_of(path)]
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "toolmend" and len(parts) > 1 and parts[1] in level:
            assert level[parts[1]] <= own, f"{module_of(path)} imports {name}"
        assert parts[:2] not in (["toolmend", area] for area in SHELL), f"{module_of(path)} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=module_of)
def test_one_module_alone_uses_jsonschema(path: Path) -> None:
    uses = any(name.split(".")[0] in ("jsonschema", "referencing") for name in imported(path))
    assert not uses or path.relative_to(PACKAGE).as_posix() in JSONSCHEMA_USERS


@pytest.mark.parametrize("path", CORE, ids=module_of)
def test_the_core_catches_nothing_wholesale(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None
            assert ast.unparse(node.type) not in ("Exception", "BaseException")
