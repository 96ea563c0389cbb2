"""Write files that are whole or not there: under a temporary name in their folder first, then under their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def _written(path: Path, data: bytes) -> Iterator[str]:
    """Write the data beside a path, and give the temporary name; what still has that name afterwards is removed."""
    handle, name = tempfile.mkstemp(prefix=".toolmend-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        yield name
    finally:
        Path(name).unlink(missing_ok=True)


def write_over(path: Path, data: bytes) -> None:
    """Write a file in the place of one that may be there: it is the old one or the new one, never half of it."""
    with _written(path, data) as name:
        os.replace(name, path)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is whole or not there. A file that has come meanwhile stays as it is."""
    with _written(path, data) as name:
        try:
            os.link(name, path)
        except FileExistsError:
            return
        except OSError:
            # A file system without hard links: the name was free a moment ago.
            if not path.exists():
                os.replace(name, path)
