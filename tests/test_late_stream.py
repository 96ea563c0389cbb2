"""A streamed answer's end waits for the addon, on every mitmproxy that is supported."""

from collections.abc import Iterator

import pytest
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.options import Options
from mitmproxy.proxy.layers import http as http_layer

from mitmproxy_context import addon_context
from toolmend.mitm import late_stream


@pytest.fixture
def options() -> Iterator[Options]:
    with addon_context(Proxyserver()) as context:
        yield context.options
    late_stream.remove()


def test_text_goes_first_then_the_hook_then_what_was_held(options: Options) -> None:
    assert late_stream.install(options)
    assert late_stream._drive(options) == ["text", "hook", "mended", "end"]


def test_without_the_late_stream_there_is_no_hook(options: Options) -> None:
    assert late_stream._drive(options) == ["text", "mended", "end"]
    assert not late_stream.self_test(options)


def test_mitmproxy_gets_its_own_stream_back(options: Options) -> None:
    late_stream.install(options)
    late_stream.remove()
    assert http_layer.HttpStream is late_stream.PLAIN


def test_when_the_internals_have_moved_nothing_is_installed(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(late_stream.LateHttpStream, "_filter")
    assert not late_stream.install(options)
    assert http_layer.HttpStream is late_stream.PLAIN
