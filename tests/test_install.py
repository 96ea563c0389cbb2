"""Installed in each way, the command and the script are there and work.

The installs here need no network: the packages that toolmend needs are taken from the environment that runs the tests.
Pip into a virtual environment is the README's first command, which tests/test_docs.py runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that there is none
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "NO_COLOR": "1",
}
needs_hatchling = pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed")


def run(*command: str | Path, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its output is in the failure."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **OFFLINE, **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of what a checkout has, so that building leaves nothing behind in this one."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "addon", folder / "addon", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", folder, source)
    return next(folder.glob("toolmend-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder into which the wheel is installed, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", folder, wheel)
    return folder


@needs_hatchling
def test_the_wheel_carries_package_script_and_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "toolmend/cli.py",
        "toolmend/py.typed",
        "toolmend/mitm/addon.py",
        "toolmend/mitm/toolmend_addon.py",
        "toolmend/commands/demo_exchanges.json",
    } <= names
    assert not [name for name in names if name.startswith(("tests", "recordings", "docs"))]


@needs_hatchling
def test_the_installed_script_is_found_and_loads(installed: Path, tmp_path: Path) -> None:
    """From a wheel the script lies inside the package; what runs is the installed package, not this checkout."""
    environ = {"PYTHONPATH": str(installed)}
    said = run(sys.executable, "-m", "toolmend.cli", "--path", cwd=tmp_path, **environ).stdout.strip()
    assert Path(said) == installed / "toolmend" / "mitm" / "toolmend_addon.py"
    assert _options(Path(said), tmp_path, **environ)


@needs_hatchling
def test_the_demo_runs_from_an_installed_wheel(installed: Path, tmp_path: Path) -> None:
    done = run(
        sys.executable, "-m", "toolmend.cli", "demo", "--only", "1", "--json", cwd=tmp_path, PYTHONPATH=str(installed)
    )
    assert '"right": true' in done.stdout


def test_the_script_loads_from_a_plain_checkout(source: Path, tmp_path: Path) -> None:
    """Nothing is installed: the package lies beside the script."""
    assert _options(source / "addon" / "toolmend_addon.py", tmp_path)


def test_a_mitmproxy_without_jsonschema_says_so_and_passes_everything(tmp_path: Path) -> None:
    """As the standalone binaries do."""
    hide = tmp_path / "hidden"
    hide.mkdir()
    (hide / "jsonschema.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'jsonschema'\", name='jsonschema')\n"
    )
    done = run(*_mitmdump(ROOT / "addon" / "toolmend_addon.py", tmp_path), "-n", "-r", os.devnull, PYTHONPATH=str(hide))
    assert "this mitmproxy has no jsonschema, so every flow passes untouched" in done.stdout
    assert "uv tool install --with jsonschema mitmproxy" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("mitmproxy.version.VERSION = '10.4.2'", "this is mitmproxy 10.4.2, and toolmend needs 11.0.2 or newer"),
        ("sys.version_info = (3, 10, 4)", "and toolmend needs 3.11 or newer, so every flow passes untouched"),
    ],
)
def test_what_is_too_old_is_told_and_passes_everything(change: str, said: str) -> None:
    script = ROOT / "addon" / "toolmend_addon.py"
    code = f"import sys, runpy, mitmproxy.version; {change}; print(runpy.run_path({str(script)!r})['addons'])"
    done = run(sys.executable, "-c", code)
    assert done.stdout == "[]\n"
    assert said in done.stderr


@pytest.mark.parametrize("tool", ["uv", "pipx"])
@needs_hatchling
def test_the_tool_installers_make_the_command(tool: str, source: Path, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    if os.environ.get("TOOLMEND_TEST_INSTALL") != "1":
        pytest.skip("needs the network for a minute: TOOLMEND_TEST_INSTALL=1")
    environ = {"HOME": str(tmp_path), "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    environ |= {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "PIP_NO_INDEX": "0"}
    del_isolation = {"PIP_NO_BUILD_ISOLATION": "1"}
    command = ["uv", "tool", "install"] if tool == "uv" else ["pipx", "install"]
    run(*command, source, **environ, **del_isolation)
    assert run(tmp_path / "bin" / "toolmend", "--version").stdout.startswith("toolmend ")


def test_the_compose_file_publishes_to_this_machine_alone() -> None:
    services = YAML(typ="safe").load((ROOT / "compose.yaml").read_text())["services"]
    assert services["toolmend"]["ports"] == ["127.0.0.1:11434:11434"]
    assert "ports" not in services["ollama"]
    assert services["toolmend"]["command"] == ["--mode", "reverse:http://ollama:11434"]


def test_the_docker_image_copies_what_the_build_needs() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert copied == {"pyproject.toml", "README.md", "LICENSE", "addon"}
    assert all((ROOT / name).exists() for name in copied)


def _mitmdump(script: Path, confdir: Path) -> list[str | Path]:
    code = "from mitmproxy.tools.main import mitmdump; mitmdump()"
    return [sys.executable, "-c", code, "--set", f"confdir={confdir}", "-s", script]


def _options(script: Path, folder: Path, **environ: str) -> bool:
    """Tell whether mitmdump, started elsewhere, loads the script: a wrong value of its option is refused by it."""
    done = subprocess.run(
        [str(word) for word in [*_mitmdump(script, folder), "--set", "toolmend_tap=maybe", "-n", "-r", os.devnull]],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return "toolmend_tap: 'maybe' is not allowed" in done.stdout + done.stderr
