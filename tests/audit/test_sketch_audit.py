"""Private sketches under audit: exact losses, and complete lists."""

from typing import Any

import pytest

import streamgauge as sg
from streamgauge.audit import catalogue
from streamgauge.audit.catalogue import AuditRequest, list_entries
from streamgauge.audit.subjects import sketches as sketch_claims
from streamgauge.audit.subjects.sketches import CellSketchSubject, FlipMergeSubject, MisraGriesSubject
from streamgauge.sketches import CountSketch, FlipMerge, MisraGries


def test_every_private_sketch_is_in_the_catalogue() -> None:
    found = sketch_claims.find_sketches()
    assert (
        set(found) == set(sketch_claims.SUBJECTS) == {"CountSketch", "HeavyKeys", "MisraGries", "FlipMerge", "CountMin"}
    )
    assert set(found) <= set(catalogue.list_names())
    assert not list(list_entries("CountMin", AuditRequest(unit=sg.WEvent(3))))


def test_a_sketch_without_a_subject_is_refused() -> None:
    class Unlisted(CountSketch):
        pass

    with pytest.raises(TypeError, match="subject of Unlisted must be in the catalogue, got none"):
        list(sketch_claims.build_sketch_subjects(Unlisted))


@pytest.mark.parametrize(
    "name", ["CountSketch", "HeavyKeys", "CountMin", pytest.param("FlipMerge", marks=pytest.mark.slow)]
)
def test_computed_losses_reach_the_claim_and_do_not_exceed_it(name: str) -> None:
    for entry in list_entries(name):
        worst: Any = entry.subject.worst()  # type: ignore[attr-defined]
        reached = 0.8 if "pan_private" in entry.title and name == "FlipMerge" else 1 - 1e-6
        assert reached <= float(worst.amount / entry.subject.loss.amount) <= 1 + 1e-9, entry.title
        assert not worst.faults


def test_misra_gries_loses_nearly_its_epsilon_at_delta() -> None:
    for epsilon in (1, 2):
        worst = MisraGriesSubject(MisraGries(sg.Approx(epsilon, "1/1000"), counters=2)).worst()
        assert worst is not None
        assert 0.9 * epsilon < worst.amount <= epsilon


def test_looks_and_releases_are_tried_in_every_order() -> None:
    claim = FlipMerge(sg.Pure(1), buckets=1, levels=2, pan_private=True, releases=2)
    assert len(FlipMergeSubject(claim).plans) == 3
    assert FlipMergeSubject(FlipMerge(sg.Pure(1), buckets=1, levels=2)).plans == [("release",)]


def test_two_items_of_an_event_are_worst_in_one_cell() -> None:
    subject = CellSketchSubject(CountSketch(sg.Zcdp(1), horizon=1, rows=3, columns=2, items_per_event=2))
    (pair,) = subject.pairs()
    assert subject.worst().amount == pytest.approx(1)
    assert pair.one[1].items != pair.other[1].items
