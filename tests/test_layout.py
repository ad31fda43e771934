"""Layout of the package: every folder lists its modules."""

import ast
import re
from pathlib import Path

import pytest

import streamgauge

ROOT = Path(streamgauge.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))
LISTED = re.compile(r"^ *(\w+)/? {2,}\S", re.MULTILINE)


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(ROOT.parent)))
def test_a_package_lists_its_modules(folder: Path) -> None:
    described = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert modules | packages <= set(LISTED.findall(described))


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(ROOT.parent)))
def test_a_package_has_at_most_twenty_modules(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) - 1 <= 20
