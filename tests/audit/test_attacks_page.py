"""The page of attacks has every item of the checklist, and each test that it names exists."""

import re
from pathlib import Path

from streamgauge.audit.broken import ExperimentNoise, every_twin

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "attacks.md").read_text()
ITEMS = 21
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)


def missing(named: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the (file, test) pairs that do not exist."""
    return [
        (file, test)
        for file, test in named
        if not (ROOT / file).exists() or f"def {test}(" not in (ROOT / file).read_text()
    ]


def test_every_test_that_is_named_exists() -> None:
    assert len(NAMED) == PAGE.count("`tests/") == PAGE.count("::")
    assert missing(NAMED) == []


def test_removed_test_or_file_is_reported_missing() -> None:
    assert missing([("tests/audit/test_attacks_page.py", "test_that_was_renamed")])
    assert missing([("tests/audit/gone.py", "test_that_was_renamed")])


def test_every_item_is_there_in_order_and_has_a_test() -> None:
    heads = [int(number) for number in re.findall(r"^## (\d+)\. ", PAGE, re.MULTILINE)]
    assert heads == list(range(1, ITEMS + 1))
    items = re.split(r"^## \d+\. ", PAGE, flags=re.MULTILINE)[1:]
    assert [number for number, item in enumerate(items, 1) if "::test_" not in item] == []


def test_every_mutant_that_is_named_exists() -> None:
    known = " ".join(twins.name for twins in every_twin(ExperimentNoise.from_label("page")))
    result = [
        name for line in re.findall(r"Mutants? [^.;:]*", PAGE, re.IGNORECASE) for name in re.findall('"([^"]+)"', line)
    ]
    assert len(result) >= 6
    assert [name for name in result if name not in known] == []
