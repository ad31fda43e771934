"""Every example runs, says something and is short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_is_under_60_lines(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60
    arguments = ["--picture", "out.png"] if path.name == "side_by_side.py" else []
    told = {**os.environ, "MPLCONFIGDIR": str(tmp_path)}
    command = [sys.executable, str(path), *arguments]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=told, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout or path.name == "pictures.py"
    for made in tmp_path.glob("*.png"):
        assert made.stat().st_size > 20_000
