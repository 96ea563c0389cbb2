"""Draw docs/demo.svg: what `toolmend demo` shows for four of its exchanges, by running them.

python docs/make_picture.py
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from toolmend.commands import demo, demo_server

NUMBERS = (1, 4, 8, 11)
WIDTH = 112
PICTURE = Path(__file__).with_name("demo.svg")
DARK, LIGHT = (22, 24, 29), (220, 223, 228)
COLOURS = ((224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194))
THEME = TerminalTheme(DARK, LIGHT, [(40, 44, 52), *COLOURS, LIGHT], [(92, 99, 112), *COLOURS, (255, 255, 255)])
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
CLASSES = re.compile(r"terminal-\d+-")


def draw(shown: Sequence[demo.Shown]) -> str:
    """Draw all exchanges of the demo that are chosen. The picture loads nothing: its fonts are those of who looks."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print("[bold]$ toolmend demo[/]")
    for number in NUMBERS:
        console.print(demo.picture(number, shown[number - 1]))
    svg = console.export_svg(title="toolmend", theme=THEME)
    return CLASSES.sub("terminal-", FONT_FACE.sub("", svg))


if __name__ == "__main__":
    PICTURE.write_text(draw(list(demo.exchanges(demo_server.load()))), encoding="utf-8")
