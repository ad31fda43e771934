"""Codes of declared labels: equal for groups that are looked up and groups that are calculated."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamgauge.engines.duckdb import rows as typed
from streamgauge.sql.query import GroupColumn
from tests.support.declared import BY_REGION, REGIONS, TICKS, engine, json_line, part, stream, sums

SEEN = (*REGIONS, *REGIONS[:2], "else", None, 7)
RECORDS = [{"hours": i % 24, "region": region} for i in range(50) for region in SEEN]


def answered(path: Path, group: GroupColumn, **columns: Any) -> Any:
    requested = replace(BY_REGION, groups=(group,))
    declared = stream()
    declared = replace(declared, columns={**declared.columns, **columns})
    with engine(declared, [requested]) as tested:
        return sums(tested.scan_ranges([part(path)], 1, TICKS))


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.jsonl"
    path.write_text("".join(json_line(record) + "\n" for record in RECORDS))
    return path


def test_group_code_is_equal_looked_up_or_calculated(visits: Path) -> None:
    (worked_out,) = BY_REGION.groups
    assert answered(visits, replace(worked_out, text='"region"')) == answered(visits, worked_out) != {}


def test_other_labels_or_order_are_calculated(visits: Path) -> None:
    """A query may know of fewer labels than were declared, or of more."""
    (group,) = BY_REGION.groups
    turned = replace(group, labels=REGIONS[::-1], code=f"3 - ({group.code})")
    assert answered(visits, replace(turned, text='"region"')) == answered(visits, turned)
    column = replace(stream().columns["region"], other=True)
    more = replace(group, labels=(*REGIONS, "other"), code=f"COALESCE({group.code}, 4)")
    found = answered(visits, replace(more, text='"region"'), region=column)
    assert {place for _, place, _ in found} == {0, 1, 2, 3, 4}


def test_twin_with_reversed_labels_has_other_tallies(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin numbers labels from the wrong end."""
    (worked_out,) = BY_REGION.groups
    exact = answered(visits, worked_out)
    monkeypatch.setattr(typed.TypedColumn, "labels", property(lambda self: REGIONS[::-1]))
    monkeypatch.setattr(typed.TypedColumn, "has_same_labels", lambda self, group: self.is_labelled)
    assert answered(visits, worked_out) != exact
