"""Thinned schemas are never an error: the real converter and the real grammar take each of them."""

from __future__ import annotations

import pytest

from engine.clients import post
from engine.llama_server import LlamaServer
from test_grammar_schema import TABLE
from toolmend.grammar_schema import thin
from toolmend.model import Json

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("schema", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_engine_takes_it(engine: LlamaServer, schema: Json) -> None:
    post(engine.url + "/completion", {"prompt": "Hi", "n_predict": 1, "json_schema": thin(schema)})
