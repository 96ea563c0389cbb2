"""Run the engine's tests only when they are asked for (`pytest -m engine`), and say why when they cannot run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import Proxy, running_proxy
from engine.llama_server import TOOLS_TEMPLATE, LlamaServer, missing

TEMPLATES = {"own template": None, "tools template": TOOLS_TEMPLATE}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the engine's tests: where nobody asked for them, and where the packages are not installed."""
    asked = "engine" in (config.option.markexpr or "")
    reason = missing() if asked else "a real engine: run with -m engine"
    if reason is not None:
        for item in items:
            if item.get_closest_marker("engine"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", params=TEMPLATES)
def engine(request: pytest.FixtureRequest) -> Iterator[LlamaServer]:
    """Run llama.cpp: once with a template that drops the tools, once with one that shows them to the model."""
    with LlamaServer(TEMPLATES[request.param]) as server:
        yield server


@pytest.fixture(scope="session")
def toolmend(engine: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Run mitmdump with the addon in front of the engine."""
    options = ("flow_detail=0", "toolmend_max_tokens=512", "toolmend_timeout=300")
    with running_proxy(engine.url, tmp_path_factory.mktemp("mitmproxy"), *options) as proxy:
        yield proxy
