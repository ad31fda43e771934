"""Packages that only some people need: what is said of one that is missing, and of no other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamgauge.optional import MissingPackageError, require_package

SERVER = r"starlette and uvicorn must be installed for this: pip install 'streamgauge\[server\]'"


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "uvicorn.config"])
def test_a_package_that_is_not_there_is_told_with_how_to_have_it(missing: str) -> None:
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
def test_what_is_broken_otherwise_is_seen_as_it_is(error: ImportError) -> None:
    with pytest.raises(ImportError) as seen, require_package("starlette and uvicorn", "streamgauge[server]"):
        raise error
    assert seen.value is error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "said"), [("uvicorn", SERVER), ("streamgauge.server.runner", "streamgauge.server.runner")]
)
def test_a_live_demo_tells_what_is_missing(tmp_path: Path, hidden: str, said: str) -> None:
    """In a process of its own, in which nothing was imported yet."""
    words = (
        f"import sys, pathlib; sys.modules[{hidden!r}] = None; from streamgauge.cli.demo import serve_live; "
        f"serve_live(pathlib.Path({str(tmp_path)!r}), 0, 0, local=False)"
    )
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert re.search(said, ended.stderr.splitlines()[-1])
