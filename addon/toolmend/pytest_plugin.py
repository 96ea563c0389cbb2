"""Run a folder of recordings as tests in any project: `pytest --toolmend-recordings DIR`.

Each `*.har` file in the folder becomes as many tests as there are checks (see `toolmend.checking`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolmend.checking import Check

OPTION = "--toolmend-recordings"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.getgroup("toolmend").addoption(
        OPTION, metavar="DIR", help="run every recording in this folder as tests (toolmend)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the folder besides what else is asked for."""
    folder = config.getoption(OPTION)
    if folder is None:
        return
    if not Path(folder).is_dir():
        raise pytest.UsageError(f"{OPTION}: {folder} is no folder")
    config.args.append(str(Path(folder).resolve()))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the recordings in the folder, and no other HAR files."""
    folder = parent.config.getoption(OPTION)
    if folder is None or file_path.suffix != ".har" or not file_path.is_relative_to(Path(folder).resolve()):
        return None
    file: RecordingFile = RecordingFile.from_parent(parent, path=file_path)
    return file


class RecordingFile(pytest.File):
    """Collect the checks of one recording."""

    def collect(self) -> Iterator[RecordingItem]:
        """Give one test a check."""
        from toolmend.checking import CHECKS  # the option alone does not load the package

        for name, check in CHECKS.items():
            yield RecordingItem.from_parent(self, name=name, check=check)


class RecordingItem(pytest.Item):
    """Hold a recording to one check."""

    def __init__(self, *, check: Check, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]  # pytest hands its own arguments through
        self.check = check

    def runtest(self) -> None:
        """Replay the recording and check it. Raises ProblemFound when something is wrong."""
        from toolmend import recordings

        recording = recordings.load(self.path.read_bytes())
        problem = self.check(recording, recordings.replay(recording))
        if problem is not None:
            raise ProblemFound(problem)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """Show what is wrong, without a traceback: it lies in the recording."""
        return f"{self.path.name}: {excinfo.value}"

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the test by its file and check."""
        return self.path, None, f"{self.path.name}: {self.name}"


class ProblemFound(Exception):  # noqa: N818 - a finding of a check, no error of the program
    """Raised to fail a test with what a check found."""
