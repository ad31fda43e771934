"""Seconds of tests from a junit file: by folder, by marker, and the slowest tests.

`make test-times` writes the file. `python -m tools.test_times FILE` prints the tables.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

SLOWEST_TESTS = 40
NO_MARKER = "(none)"


class TestTime(NamedTuple):
    """Seconds of one test, with its set-up."""

    folder: str
    name: str
    markers: tuple[str, ...]
    seconds: float


def read_times(path: str) -> Iterator[TestTime]:
    """Read all tests of a junit file. `tests/conftest.py` writes markers as properties."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        module = case.get("classname", "")
        folder = "/".join(module.split(".")[:2])
        found = tuple(each.get("value", "") for each in case.iter("property") if each.get("name") == "marker")
        yield TestTime(folder, f"{module}::{case.get('name')}", found, float(case.get("time", 0)))


def print_table(title: str, seconds: dict[str, float], counts: Counter[str]) -> None:
    print(f"\n{title:<40}{'seconds':>10}{'tests':>8}")
    for name, amount in sorted(seconds.items(), key=lambda each: -each[1]):
        print(f"{name:<40}{amount:>10.1f}{counts[name]:>8}")


def main(path: str) -> None:
    by_folder, by_marker = (
        (defaultdict[str, float](float), Counter[str]()),
        (defaultdict[str, float](float), Counter[str]()),
    )
    times = list(read_times(path))
    for each in times:
        keys = [(by_folder, each.folder), *((by_marker, marker) for marker in each.markers or (NO_MARKER,))]
        for (seconds, counts), key in keys:
            seconds[key] += each.seconds
            counts[key] += 1
    print(f"{sum(each.seconds for each in times):,.0f} s in {len(times):,} tests")
    print_table("folder", *by_folder)
    print_table("marker", *by_marker)
    print(f"\nthe slowest {SLOWEST_TESTS}")
    for each in sorted(times, key=lambda each: -each.seconds)[:SLOWEST_TESTS]:
        print(f"{each.seconds:>8.2f}  {each.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
