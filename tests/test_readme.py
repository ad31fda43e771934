"""The README's code, commands and links work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_ten_lines_of_python_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 2
    assert len(blocks[0].splitlines()) <= 13
    exec(compile("".join(blocks), "README.md", "exec"), {})


def test_the_commands_are_targets_that_make_help_lists() -> None:
    told = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"make [a-z]+", README):
        if command != "make and":
            assert command in told


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(p.relative_to(ROOT) for p in ROOT.glob("docs/*.md"))], ids=str
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target


def test_importing_the_package_pulls_in_nothing_heavy() -> None:
    code = "import sys, streamgauge; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"scipy", "dp_accounting", "opendp", "matplotlib", "pandas", "jax", "mpmath", "hypothesis", "pytest"}
    assert not heavy & {name.partition(".")[0] for name in loaded}
