"""Optional packages: the message for a missing one, and for no other error."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamgauge.optional import MissingPackageError, require_package

SERVER = r"starlette and uvicorn must be installed for this: pip install 'streamgauge\[server\]'"


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "uvicorn.config"])
def test_missing_package_is_reported_with_its_install_command(missing: str) -> None:
    with (
        pytest.raises(MissingPackageError, match=SERVER),
        require_package("starlette and uvicorn", "streamgauge[server]"),
    ):
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)


@pytest.mark.parametrize(
    "error",
    [
        ImportError("cannot import name 'gone' from 'starlette'", name="starlette"),
        ModuleNotFoundError("No module named 'anyio'", name="anyio"),
        ModuleNotFoundError("No module named 'streamgauge.gone'", name="streamgauge.gone"),
        ModuleNotFoundError("of no name"),
    ],
    ids=str,
)
def test_other_import_errors_are_raised_unchanged(error: ImportError) -> None:
    with pytest.raises(ImportError) as seen, require_package("starlette and uvicorn", "streamgauge[server]"):
        raise error
    assert seen.value is error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "said"), [("uvicorn", SERVER), ("streamgauge.server.runner", "streamgauge.server.runner")]
)
def test_live_demo_names_the_missing_package(tmp_path: Path, hidden: str, said: str) -> None:
    """The demo runs in a new process, which has imported nothing."""
    words = (
        f"import sys, pathlib; sys.modules[{hidden!r}] = None; from streamgauge.cli.demo import serve_live; "
        f"serve_live(pathlib.Path({str(tmp_path)!r}), 0, 0, local=False)"
    )
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert re.search(said, ended.stderr.splitlines()[-1])
