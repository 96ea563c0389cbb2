"""Serve a tiny model with llama.cpp until standard input ends: `python serve.py MODEL.gguf`. Run by `llama_server.py`."""

import argparse
import os
import sys
from pathlib import Path

import xllamacpp

CONTEXT = 8192
THREADS = 1
"""One thread: several wait for each other in busy loops, and on a machine with other work to do that costs far more
than it brings (seen: 80 tokens a second alone, 0.4 beside another process on the second core)."""


def main() -> None:
    """Start the server, say where it listens, and end with standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--template", type=Path, help="a Jinja chat template in place of the model's own")
    parser.add_argument("--max-tokens", type=int, help="tokens to generate where the request sets no limit", default=-1)
    options = parser.parse_args()
    server = xllamacpp.Server(parameters(options))
    print(f"listening at {server.listening_address}", flush=True)
    sys.stdin.read()
    # The server's threads may be in the middle of an answer that nobody waits for.
    os._exit(0)


def parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    """Say how the server runs: one slot, on the CPU, on a free port of this machine."""
    chosen = xllamacpp.CommonParams()
    chosen.model.path = str(options.model)
    chosen.model_alias = {"smollm2:135m"}
    chosen.port = 0
    chosen.ui = False
    chosen.n_ctx = CONTEXT
    chosen.n_parallel = 1
    chosen.n_predict = options.max_tokens
    chosen.cpuparams.n_threads = THREADS
    chosen.cpuparams_batch.n_threads = THREADS
    if options.template is not None:
        chosen.chat_template = options.template.read_text(encoding="utf-8")
    return chosen


if __name__ == "__main__":
    main()
