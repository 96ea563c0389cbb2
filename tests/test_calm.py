"""mitmproxy's lines about connections are left out where nobody asked for its flows."""

import logging

from mitmproxy.addons import dumper

from mitmproxy_context import addon_context
from toolmend.mitm.calm import TALKERS, Calm


def levels() -> set[int]:
    return {logging.getLogger(name).level for name in TALKERS}


def test_the_lines_about_connections_follow_flow_detail() -> None:
    calm = Calm()
    with addon_context(dumper.Dumper(), calm) as context:
        context.configure(calm, flow_detail=0)
        assert levels() == {logging.WARNING}
        context.configure(calm, flow_detail=2)
        assert levels() == {logging.NOTSET}
        context.configure(calm, flow_detail=0)
    calm.done()
    assert levels() == {logging.NOTSET}


def test_a_program_without_flow_detail_is_left_alone() -> None:
    calm = Calm()
    with addon_context(calm) as context:
        context.configure(calm, listen_host="127.0.0.1")
    assert levels() == {logging.NOTSET}
