"""`make test` keeps one case of everything: each law of each mechanism, each broken twin, each crash point.

In a run over all tests, the tests that this process collected are looked at. Otherwise they are collected again.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from streamgauge.audit.broken import every_twin
from tests.support import ROOT, adaptive_catalogue, catalogue, panprivate_catalogue, statistics_catalogue
from tests.support.crash_twins import TWINS
from tests.support.markers import (
    COLLECTED_TESTS,
    FOLDER_MARKERS,
    LONG_FIRST,
    LONG_MODULES,
    LONGEST_MODULE,
    MODULE_MARKERS,
    TESTS,
    find_missing_parts,
)

COLLECTED = ("tests/laws", "tests/crash", "tests/audit", "tests/neighbour", "tests/runtime", "tests/store")
CRASH_POINT = re.compile(r'\b(?:step|reach|at_step|_step)\("([a-z_]+)"\)')


@cache
def collect(expression: str) -> frozenset[str]:
    """Return the names of the tests that an expression of markers selects."""
    if all(any(name.startswith(f"{folder}/") for name in COLLECTED_TESTS) for folder in COLLECTED):
        return frozenset(name for name, slow in COLLECTED_TESTS.items() if slow == (expression == "slow"))
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-n0", "-q", "--collect-only"]
    command += ["-o", "addopts=--strict-markers", "-m", expression, *COLLECTED]
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, "CI": ""}, capture_output=True, text=True, check=True)
    return frozenset(line for line in result.stdout.splitlines() if "::" in line)


def list_functions(names: frozenset[str]) -> set[str]:
    return {name.partition("[")[0] for name in names}


def find_kinds(names: frozenset[str], kinds: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each test function with each mechanism or statistic whose case it has."""
    for name in names:
        function, _, case = name.partition("[")
        yield from ((function, kind) for kind in kinds & set(re.findall(r"\w+", case)))


def test_every_law_has_a_case_of_every_mechanism_or_statistic() -> None:
    every_class = {
        *catalogue.exported(),
        *statistics_catalogue.statistics_found(),
        *panprivate_catalogue.estimators_found(),
        *(case.cls for case in adaptive_catalogue.cases()),
    }
    kinds = {cls.__name__ for cls in every_class}
    fast, slow = ({name for name in collect(which) if "tests/laws" in name} for which in ("not slow", "slow"))
    assert slow
    assert set(find_kinds(frozenset(slow), kinds)) <= set(find_kinds(frozenset(fast), kinds)) | EVERY_HORIZON
    assert {kind for _, kind in find_kinds(frozenset(fast), kinds)} >= {cls.__name__ for cls in catalogue.exported()}


EVERY_HORIZON = {
    ("tests/laws/test_privacy.py::test_worst_loss_equals_the_claim_at_horizons_to_300", cls.__name__)
    for cls in catalogue.exported()  # the same law over few horizons is in `make test`
}


def test_every_broken_twin_has_a_case() -> None:
    fast = collect("not slow")
    condemned = "test_attack_condemns_broken_twin_and_acquits_honest_twin"
    assert len([name for name in fast if condemned in name]) == len({twins.name for twins in every_twin(None)})
    for twin in TWINS:
        assert any("tests/crash" in name and twin in name for name in fast), twin
    lost = {name for name in list_functions(collect("slow")) - list_functions(fast) if re.search(TWIN, name)}
    assert not lost


TWIN = "twin|condemned|is_caught|are_caught"


def test_every_crash_point_has_a_case() -> None:
    """The crash law dies at every step of an unbroken run, of a batch and of a followed file."""
    fast, slow = collect("not slow"), collect("slow")
    law = "tests/crash/test_crash_law_steps.py::test_a_run_that_dies_at_every_step_is_one_run"
    assert {f"{law}[batch-fault-False]", f"{law}[followed-kill-False]"} <= fast
    points = {point for path in (ROOT / "src").rglob("*.py") for point in CRASH_POINT.findall(path.read_text())}
    named = {point for point in points for name in slow if re.search(rf"\b{point}\b", name.partition("[")[2])}
    kept = {point for point in points for name in fast if re.search(rf"\b{point}\b", name.partition("[")[2])}
    assert points
    assert named <= kept


def test_every_partly_slow_test_has_a_fast_case() -> None:
    """A function may be slow as a whole only if it has the marker itself."""
    lost = list_functions(collect("slow")) - list_functions(collect("not slow"))
    for name in lost:
        path, _, function = name.partition("::")
        source = (ROOT / path).read_text()
        decorators = source[: source.index(f"def {function}(")].rpartition("\n\n\n")[2]
        assert "@pytest.mark.slow" in decorators, name


def test_marked_folders_and_modules_exist() -> None:
    assert all((TESTS / name).is_dir() for name in (*FOLDER_MARKERS, *LONG_MODULES))
    assert all(path.is_file() for path in (*MODULE_MARKERS, LONGEST_MODULE))
    assert {*FOLDER_MARKERS.values(), *MODULE_MARKERS.values()} <= set(LONG_FIRST)


def test_ci_without_parts_is_refused_and_names_the_packages(tmp_path: Path) -> None:
    assert find_missing_parts(lambda name: f"/usr/bin/{name}") == []
    refusals = find_missing_parts(lambda name: None)
    assert [each.rpartition(" ")[2] for each in refusals] == ["chromium", "bubblewrap"]
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-n0", "tests/test_readme.py"]
    surroundings = {**os.environ, "CI": "true", "PATH": str(tmp_path)}
    result = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert all(refusal in result.stdout + result.stderr for refusal in refusals)
