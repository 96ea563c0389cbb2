"""mitmweb and mitmproxy show what was done to an answer, in a view of its own that comes first there."""

from typing import Any

import pytest
from mitmproxy import contentviews, http
from mitmproxy.test import tflow, tutils

from toolmend import report
from toolmend.mitm import contentview
from toolmend.model import Fault, Outcome, Repair, ToolCall, Turn

SENT = Turn(calls=(ToolCall("call_1", "create_event", {"duration_minutes": "30"}),), finish="tool_calls")
MENDED = Turn(calls=(ToolCall("call_1", "create_event", {"duration_minutes": 30}),), finish="tool_calls")
OUTCOME = Outcome(
    MENDED,
    (Repair("coerce", "/calls/0/arguments/duration_minutes", "30", 30),),
    (Fault("/calls/0/arguments/title", "required", "/calls/0/arguments/title is missing"),),
)
EXPLAINED = """\
toolmend: openai-chat qwen3:8b: broken

as the model sent it
  create_event
    duration_minutes: "30"

as the agent got it
  create_event
    duration_minutes: 30

repairs
  coerce: /duration_minutes "30" -> 30

left broken
  required: /title is missing

questions asked: 1"""


def shown(flow: http.HTTPFlow, message: Any) -> tuple[str, str]:
    """Return the name of the view that mitmproxy chooses, and its text."""
    contentview.add()
    try:
        if contentview.IS_OLD:
            name, lines, _ = contentviews.get_message_content_view("auto", message, flow)
            return name, "\n".join("".join(str(text) for _, text in line) for line in lines)
        metadata = contentviews.Metadata(flow=flow, http_message=message)
        view = contentviews.registry.get_view(message.content, metadata)
        return view.name, view.prettify(message.content, metadata)
    finally:
        contentview.remove()


def repaired_flow() -> http.HTTPFlow:
    flow = tflow.tflow(resp=tutils.tresp(content=b'{"choices": []}'))
    contentview.keep(flow, report.entry("openai-chat", "qwen3:8b", SENT, OUTCOME, 1))
    return flow


def test_a_repaired_answer_is_shown_with_what_was_done_to_it() -> None:
    flow = repaired_flow()
    name, text = shown(flow, flow.response)
    assert name == "toolmend"
    assert text == f'{EXPLAINED}\n\nthe body\n{{\n  "choices": []\n}}'


@pytest.mark.parametrize("part", ["request", "untouched"])
def test_other_messages_are_shown_as_ever(part: str) -> None:
    flow = repaired_flow() if part == "request" else tflow.tflow(resp=True)
    name, _ = shown(flow, flow.request if part == "request" else flow.response)
    assert name != "toolmend"


def test_an_untouched_flow_has_no_explanation() -> None:
    assert contentview.explained(tflow.tflow(resp=True)) is None
    assert contentview.explained(None) is None


def test_the_view_may_be_added_twice() -> None:
    contentview.add()
    flow = repaired_flow()
    assert shown(flow, flow.response)[0] == "toolmend"
