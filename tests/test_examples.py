"""Every example runs, prints something and is short.

Each example runs in its own process, forked from one that has imported their common modules.
"""

import os
import runpy
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDED = ["pytest", "streamgauge.runtime.options", "streamgauge.audit", "matplotlib.pyplot", "duckdb"]
TOLD, COMPLAINED = "told.txt", "complained.txt"


def run(folder: Path, *words: str) -> None:
    """Run the words in a forked process as if typed in the folder."""
    os.chdir(folder)
    for number, name in ((1, TOLD), (2, COMPLAINED)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv, sys.path[0] = list(words), str(Path(words[0]).parent)
    runpy.run_path(words[0], run_name="__main__")


LONG_EXAMPLES = ("side_by_side.py", "clinic_statistics.py")
EVERY_EXAMPLE = [
    pytest.param(path, marks=pytest.mark.slow) if path.name in LONG_EXAMPLES else path for path in EXAMPLES
]


@pytest.mark.parametrize("path", EVERY_EXAMPLE, ids=lambda path: path.name)
def test_an_example_runs_and_is_under_60_lines(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60
    arguments = ["--picture", "out.png"] if path.name == "side_by_side.py" else []
    forking = get_context("forkserver")
    forking.set_forkserver_preload(NEEDED)
    child = forking.Process(target=run, args=(tmp_path, str(path), *arguments))
    child.start()
    child.join()
    assert child.exitcode == 0, (tmp_path / COMPLAINED).read_text()
    assert (tmp_path / TOLD).read_text() or path.name == "pictures.py"
    for made in tmp_path.glob("*.png"):
        assert made.stat().st_size > 20_000
