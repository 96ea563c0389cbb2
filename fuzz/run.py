"""Fuzz for a while: change what a real server sent, keep what reaches new lines, stop at the first broken promise.

    python fuzz/run.py --minutes 10                 # all targets, one after the other, so long each
    python fuzz/run.py --minutes 2 --target dialects
    python fuzz/run.py --target dialects --input fuzz/found/dialects-1f2e3d4c

What breaks a promise is written to fuzz/found/ and printed. Coverage guides it, by `sys.monitoring`: Python 3.11 has
none, and goes without.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
import traceback
from pathlib import Path
from types import CodeType

from targets import TARGETS, seeds, timed

FOUND = Path(__file__).parent / "found"
LONGEST = 20_000
WORDS = [
    *(b"<tool_call>", b"</tool_call>", b"```json\n", b"```", b'{"name": "', b'"arguments": ', b"[TOOL_CALLS]"),
    *(b"read_file", b"x(", b"path"),
    *(b"<function=read_file>", b"<parameter=path>", b"<|channel|>commentary", b"<think>", b"</think>", b"functions."),
    *(b"\\u0000", b"\\ud800", b"\xff", b"\x00", b"\r\n", b"\n\n", b"data: ", b"event: ", b"[DONE]"),
    *(b"1e999", b"9" * 400, b"{" * 40, b"[" * 200, b'"' * 9, b"null", b"NaN", b"True", b"-0"),
    *(b"\\", b"}", b"]", b",", b":"),
]


class Coverage:
    """Count the lines of toolmend that were reached for the first time."""

    def __init__(self) -> None:
        self.new = 0
        if sys.version_info < (3, 12):
            return
        monitoring, tool = sys.monitoring, sys.monitoring.COVERAGE_ID
        monitoring.use_tool_id(tool, "toolmend-fuzz")
        monitoring.register_callback(tool, monitoring.events.LINE, self._line)
        monitoring.set_events(tool, monitoring.events.LINE)

    def _line(self, code: CodeType, line: int) -> object:
        if "toolmend" in code.co_filename and "fuzz" not in code.co_filename:
            self.new += 1
        return sys.monitoring.DISABLE


def changed(data: bytes, others: list[bytes], dice: random.Random) -> bytes:
    """Change an input in a few places."""
    made = bytearray(data)
    for _ in range(1 + int(dice.expovariate(0.5))):
        at = dice.randrange(len(made) + 1)
        end = min(len(made), at + int(dice.expovariate(0.1)))
        match dice.randrange(7):
            case 0:
                made[at:end] = b""
            case 1:
                made[at:at] = dice.choice(WORDS)
            case 2:
                made[at:at] = made[at:end] * dice.randrange(1, 20)
            case 3 if made:
                made[at % len(made)] = dice.randrange(256)
            case 4:
                made[at:end] = dice.choice(WORDS)
            case 5:
                other = dice.choice(others)
                made[at:end] = other[dice.randrange(len(other) + 1) :][: dice.randrange(300)]
            case 6:
                del made[at:]
    return bytes(made[:LONGEST])


def fuzz(target: str, seconds: float, seed: int, coverage: Coverage) -> tuple[int, bytes | None]:
    """Fuzz one target; return how many inputs it took, and one that broke a promise."""
    dice, corpus = random.Random(seed), list(seeds(target))
    end, tried = time.monotonic() + seconds, 0
    for data in corpus:
        timed(target, data)
    while time.monotonic() < end:
        data, before = changed(dice.choice(corpus), corpus, dice), coverage.new
        tried += 1
        try:
            timed(target, data)
        except Exception:
            traceback.print_exc()
            return tried, data
        if coverage.new > before:
            corpus.append(data)
    return tried, None


def main() -> int:
    """Fuzz, and return 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="minutes for each target (default: 10)")
    parser.add_argument("--target", action="append", choices=TARGETS, help="this one only")
    parser.add_argument("--seed", type=int, default=None, help="the dice (default: the time)")
    parser.add_argument("--input", type=Path, metavar="FILE", help="try this one input again")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    broken, coverage = 0, Coverage()
    for target in options.target or TARGETS:
        if options.input is not None:
            timed(target, options.input.read_bytes())
            continue
        tried, data = fuzz(target, options.minutes * 60, seed, coverage)
        print(f"{target}: {tried} inputs, seed {seed}: {'clean' if data is None else 'BROKEN'}", flush=True)
        if data is not None:
            FOUND.mkdir(exist_ok=True)
            file = FOUND / f"{target}-{hashlib.sha256(data).hexdigest()[:8]}"
            file.write_bytes(data)
            print(f"  {file}", flush=True)
            broken = 1
    return broken


if __name__ == "__main__":
    sys.exit(main())
