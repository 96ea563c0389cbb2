"""What the docs say is so: every command runs, every link leads somewhere, every option and message is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias, TypeGuard

import pytest
from ruamel.yaml import YAML

import namespace
from toolmend.commands import demo_server
from toolmend.mitm.options import OPTIONS, PREFIX

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PATIENCE = 150
FENCE = re.compile(r"^```(\w*) *(\([^\n]*\))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"", "console", "json", "ini", "xml"}
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that there is none
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTHONPATH": sysconfig.get_path("purelib"),
    # In place of all tests, which this is one of.
    "PYTEST_ADDOPTS": "tests/test_cli.py -k ollama_host_is_read -p no:cacheprovider",
    "NO_COLOR": "1",
}

Done: TypeAlias = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Block:
    """A block of commands: where it stands, the commands, and what they need that is not here."""

    page: str
    line: int
    commands: tuple[str, ...]
    needs: str

    def why_not(self) -> str | None:
        """Say why it is not run; None when it is."""
        if self.needs:
            return self.needs
        if "pip install" in " ".join(self.commands) and not (find_spec("hatchling") and find_spec("editables")):
            return "needs hatchling and editables"
        return namespace.refusal()


def blocks() -> list[Block]:
    """Read all blocks of commands, each kind once."""
    found: dict[tuple[str, ...], Block] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for fence in FENCE.finditer(text):
            language, needs, body = fence.groups()
            if language != "console":
                continue
            commands = tuple(line[2:] for line in body.splitlines() if line.startswith("$ "))
            line = text.count("\n", 0, fence.start()) + 1
            found.setdefault(commands, Block(page.name, line, commands, (needs or "").strip("()")))
    return list(found.values())


def copy_checkout(folder: Path) -> Path:
    """Copy the checkout, and make a folder of programs: this environment's, and the fake in Ollama's place."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("addon", "benchmarks", "docs", "recordings", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    programs = folder / "bin"
    programs.mkdir()
    here = Path(sys.executable).parent
    _program(programs / "python3", f'exec "{sys.executable}" "$@"')
    _program(programs / "toolmend", f'exec "{sys.executable}" -m toolmend.cli "$@"')
    _program(programs / "mitmdump", f'exec "{here / "mitmdump"}" "$@"')
    _program(programs / "ollama", f'exec "{sys.executable}" "{TESTS / "fake_ollama.py"}" --port "${{OLLAMA_HOST##*:}}"')
    return folder


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[Block, Future[Done]]]:
    """Run the blocks of the tests that are asked for: those of one page in their order, the pages side by side.

    Each page has a copy of its own: more than one of them makes a `.venv`.
    """
    chosen = [item.callspec.params["block"] for item in request.session.items if _is_of_commands(item)]
    done = {block: Future[Done]() for block in chosen}
    with ThreadPoolExecutor(max_workers=2) as pages:
        for page in dict.fromkeys(block.page for block in chosen):
            folder = copy_checkout(tmp_path_factory.mktemp("docs"))
            pages.submit(_run_all, {block: done[block] for block in chosen if block.page == page}, folder)
        yield done


def _is_of_commands(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.function is test_the_commands_run


def _run_all(blocks_of_page: dict[Block, Future[Done]], folder: Path) -> None:
    for block, future in blocks_of_page.items():
        if block.why_not() is None:
            try:
                future.set_result(_run(block, folder))
            except (OSError, subprocess.SubprocessError) as error:
                future.set_exception(error)


def _run(block: Block, folder: Path) -> Done:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        namespace.command(sys.executable, str(TESTS / "docs_runner.py"), *block.commands),
        cwd=folder,
        env={**os.environ, **OFFLINE, "HOME": str(folder), "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("block", blocks(), ids=lambda block: f"{block.page}:{block.line}")
def test_the_commands_run(block: Block, results: dict[Block, Future[Done]]) -> None:
    if reason := block.why_not():
        pytest.skip(reason)
    done = results[block].result(len(results) * PATIENCE)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout, done.stdout


def test_only_known_kinds_of_blocks_stand_in_the_docs() -> None:
    """A block of another kind would not be run."""
    kinds = {fence[1] for page in PAGES for fence in FENCE.finditer(page.read_text(encoding="utf-8"))}
    assert kinds <= LANGUAGES
    for page in PAGES:
        assert page.read_text(encoding="utf-8").count("```") % 2 == 0


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_links_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            if target.startswith("https://"):
                continue
            goal = (page.parent / file).resolve() if file else page
            headings = re.findall(r"^#+ (.+)$", goal.read_text(encoding="utf-8"), re.MULTILINE) if goal.exists() else []
            if not goal.exists() or (anchor and anchor not in map(_anchor, headings)):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def options_table() -> str:
    rows = [
        f"| `{PREFIX}{each.name}` | {f'`{each.default}`' if each.default else ''} | {each.help} |" for each in OPTIONS
    ]
    return "\n".join(["| option | default | what it does |", "|---|---|---|", *rows])


def test_the_table_of_options_is_the_addons_own() -> None:
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert options_table() in text, f"the table should be:\n{options_table()}"


def test_every_option_that_is_named_is_there() -> None:
    known = {PREFIX + option.name for option in OPTIONS} | {"toolmend_addon"}
    files = [*PAGES, ROOT / "docs" / "config.yaml", ROOT / "compose.yaml", ROOT / "Dockerfile"]
    named = {name for file in files for name in re.findall(r"toolmend_[a-z_]+", file.read_text(encoding="utf-8"))}
    assert named <= known


def test_the_configuration_file_is_what_toolmend_sets() -> None:
    """It is loaded in a block of docs/options.md; here, that it is as safe."""
    document = YAML(typ="safe").load((ROOT / "docs" / "config.yaml").read_text(encoding="utf-8"))
    assert document["listen_host"] == "127.0.0.1"
    assert document["keep_host_header"] is True
    assert document["mode"] == ["reverse:http://127.0.0.1:11435"]


def test_the_words_of_toolmend_in_the_troubleshooting_are_its_own() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    section = text.partition("## toolmend's own words")[2].partition("\n## ")[0]
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "addon").rglob("*.py"))
    flat = re.sub(r'"\s*\n\s*f?"', "", source)
    for words in re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)[:-1]:
        for part in re.split(r"…|\b11434\b|127\.0\.0\.1|jsonschema", words):
            assert part.strip() in flat, f"{part.strip()!r} stands nowhere in the source"


def test_the_numbers_of_the_readme_are_the_demos() -> None:
    count = len(demo_server.load())
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (
        f"replays {count} recorded answers of a real Ollama server: 1 is usable as it came, {count} are through toolmend"
        in text
    )
