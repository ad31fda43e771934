"""The catalogue covers the whole package, and controls decide if its report is clean."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import streamgauge as sg
from streamgauge.audit import catalogue, report
from streamgauge.audit.catalogue import AuditRequest, CatalogueEntry, list_entries, list_names, list_twins
from streamgauge.audit.exact.worst_case import WorstCase
from streamgauge.audit.report import AuditReport, Finding, audit_entries, choose_runs, split_confidence, to_plain_json
from streamgauge.audit.subjects.mechanisms import MechanismSubject
from streamgauge.audit.verdict import Measurement, Verdict
from streamgauge.continual import Binary, SimpleII
from tests.support.adaptive_catalogue import adapting
from tests.support.catalogue import exported
from tests.support.statistics_catalogue import statistics_found

QUICK = 2000
SURE = 1 - 1e-9


def test_every_mechanism_and_statistic_is_in_the_catalogue() -> None:
    assert set(catalogue.find_mechanisms().values()) == set(exported())
    assert set(catalogue.find_adaptive().values()) == set(adapting())
    assert set(catalogue.find_statistics().values()) == set(statistics_found())
    titles = {entry.title.partition("(")[0].partition(",")[0] for entry in list_entries()}
    assert titles == set(list_names())


def test_every_mechanism_is_attacked_in_all_its_losses() -> None:
    kinds = Counter(entry.kind for entry in list_entries())
    assert set(kinds) == {
        "counter",
        "unit",
        "way",
        "memory",
        "adversary",
        "adapting",
        "vectors",
        "published",
        "seized",
        "local",
        "sketch",
    }
    for name, cls in catalogue.find_mechanisms().items():
        found = {entry.subject.loss.currency for entry in list_entries(name)} - {"approximate"}
        assert found == {loss(1).currency for loss in cls.LOSSES if loss is not sg.Approx}


def test_every_mechanism_is_attacked_in_all_units_that_it_takes() -> None:
    for name, cls in catalogue.find_mechanisms().items():
        found = {entry.subject.claim.unit for entry in list_entries(name) if entry.kind == "unit"}
        refused = {unit for unit in catalogue.UNITS if not list(list_entries(name, AuditRequest(unit=unit)))}
        assert found == set(catalogue.UNITS) - refused, cls


def test_approx_mechanisms_are_attacked_under_their_stated_claim() -> None:
    stated = [entry for entry in list_entries() if entry.subject.loss.currency == "approximate"]
    assert {entry.title for entry in stated} >= {f"{name}, as stated" for name in catalogue.APPROX_MECHANISMS}


def test_class_without_settings_in_the_catalogue_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setitem(catalogue.MECHANISM_SETTINGS, "WindowSum", ({},))
    with pytest.raises(TypeError, match=r"^settings of WindowSum must be in the catalogue, got none of"):
        list(list_entries("WindowSum"))
    monkeypatch.delitem(catalogue.STATISTIC_CASES, "Mean")
    with pytest.raises(TypeError, match=r"^settings of Mean must be in the catalogue, got none$"):
        list(list_entries("Mean"))


def test_requested_claim_is_attacked() -> None:
    requested = AuditRequest(4, (sg.Pure("1/3"),), sg.User(2, 3))
    found = [entry for entry in list_entries("Binary", requested) if isinstance(entry.subject, MechanismSubject)]
    assert found
    for entry in found:
        assert isinstance(entry.subject, MechanismSubject)
        assert entry.subject.claim.unit == sg.User(2, 3)
        assert (entry.subject.ticks, entry.subject.loss) == (4, sg.Pure("1/3"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SimpleII", "Segments", "Mean"])
def test_a_small_report_is_clean(name: str) -> None:
    entries = [replace(entry, runs=entry.runs and max(100, entry.runs // 10)) for entry in list_entries(name)]
    found = audit_entries(entries, QUICK, confidence=SURE)
    assert found.is_clean, [finding.verdict.reasons for finding in found.findings]
    assert found.summary.startswith(f"{len(found.findings)} claims hold, 0 condemned; ")


def test_controls_change_the_verdict() -> None:
    """A condemned broken twin leaves the report clean; marked as honest it does not."""
    broken, honest = list(list_twins())[:2]
    assert audit_entries([broken, honest], QUICK, confidence=SURE).is_clean
    innocent = CatalogueEntry(broken.kind, broken.title, broken.subject, is_broken=False, runs=broken.runs)
    spoilt = audit_entries([innocent, honest], QUICK, confidence=SURE)
    assert not spoilt.is_clean
    assert spoilt.findings[0].summary == "condemned"
    accused = CatalogueEntry("twin", "an honest one", honest.subject, is_broken=True, runs=honest.runs)
    missed = audit_entries([accused], QUICK, confidence=SURE)
    assert not missed.is_clean
    assert missed.findings[0].summary == "missed"


def test_report_splits_its_confidence_among_verdicts() -> None:
    entry = CatalogueEntry("counter", "a", MechanismSubject(SimpleII(sg.Pure(1)), 1))
    found = audit_entries([entry] * 4, 100, confidence=0.99)
    assert {each.verdict.measurement.confidence for each in found.findings if each.verdict.measurement} == {
        split_confidence(0.99, 4)
    }
    assert 1 - split_confidence(0.99, 4) == pytest.approx(0.0025)


def test_twins_use_their_own_runs_and_published_subjects_fewer() -> None:
    entry = next(iter(list_twins()))
    assert choose_runs(entry, 10) == entry.runs
    published = next(entry for entry in list_entries("Mean") if entry.kind == "published")
    assert choose_runs(published, 10**6) == 10**5
    assert choose_runs(published, 10) == report.MIN_PUBLISHED_RUNS


def test_progress_reports_every_subject() -> None:
    result: list[tuple[int, int, str]] = []
    entry = CatalogueEntry("counter", "a", MechanismSubject(SimpleII(sg.Pure(1)), 1))
    audit_entries([entry, entry], 200, watch=lambda number, count, title, *_: result.append((number, count, title)))
    assert set(result) == {(1, 2, "a"), (2, 2, "a")}


def test_json_of_a_report_is_json() -> None:
    measured = Measurement("p", "s", 10, 0.9, float("inf"), 1.0, 0.0, 0.0, 0.1)
    verdict = Verdict("b", sg.Pure(1), WorstCase((), float("inf"), "q"), measured)
    found = AuditReport((Finding("twin", "t", verdict, is_broken=True, reason="because"),), 0.9, 1.0)
    result = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert result["is_clean"] is True
    assert result["findings"][0]["exact_loss"] == "infinite"
    assert result["findings"][0]["measurement"]["amount"] == "infinite"
    assert to_plain_json(float("nan")) == "infinite"
    assert Binary.__name__ in list_names()
