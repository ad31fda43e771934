"""docs/architecture.md lists the files that a record passes, and names that exist."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TRACE = ROOT / "benchmarks" / "trace.py"
MAX_FILES = 65


def test_documented_path_of_a_record_matches_the_code():
    printed = subprocess.run(
        [sys.executable, "-P", TRACE, "--table"], capture_output=True, text=True, check=True
    ).stdout
    walk = PAGE.split("<!-- walk -->\n")[1].split("<!-- end of walk -->")[0]
    assert set(walk.splitlines()[2:]) == set(printed.splitlines()[2:]), "run: python -P benchmarks/trace.py --table"
    assert walk.count("\n") - 2 <= MAX_FILES


def test_each_named_definition_is_in_its_stated_file():
    named = re.findall(r"`([A-Za-z_.]+)` \(([a-z_/]+\.py)\)", PAGE)
    assert len(named) >= 5
    for name, file in named:
        text = (ROOT / "src" / "streamgauge" / file).read_text()
        assert all(re.search(rf"\b(class|def) {part}\b", text) for part in name.split(".")), (name, file)


def test_each_folder_of_the_package_is_described():
    folders = {path.name for path in (ROOT / "src" / "streamgauge").iterdir() if (path / "__init__.py").exists()}
    assert [name for name in sorted(folders) if f"`{name}/`" not in PAGE] == []
