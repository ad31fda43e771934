"""The whole package is on the list, and a report of it is judged by its controls."""

import json
from collections import Counter
from typing import Any

import pytest
from adaptive_catalogue import adapting
from catalogue import exported
from statistics_catalogue import statistics_found

import streamgauge as sg
from streamgauge.audit import catalogue, report
from streamgauge.audit.catalogue import Asked, Entry, entries, names, twins
from streamgauge.audit.mechanisms import MechanismSubject
from streamgauge.audit.report import Finding, Report, plain, report_on, runs_of, share
from streamgauge.audit.verdict import Measured, Verdict
from streamgauge.continual import Binary, SimpleII

QUICK = 2000
SURE = 1 - 1e-9


def test_every_mechanism_and_every_statistic_of_the_package_is_on_the_list() -> None:
    assert set(catalogue.mechanisms().values()) == set(exported())
    assert set(catalogue.adapting().values()) == set(adapting())
    assert set(catalogue.statistics_of_all().values()) == set(statistics_found())
    titles = {entry.title.partition("(")[0].partition(",")[0] for entry in entries()}
    assert titles == set(names())


def test_every_mechanism_is_attacked_in_all_its_losses_and_with_its_memory() -> None:
    kinds = Counter(entry.kind for entry in entries())
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
    }
    for name, cls in catalogue.mechanisms().items():
        found = {entry.subject.loss.currency for entry in entries(name)} - {"approximate"}
        assert found == {loss(1).currency for loss in cls.LOSSES if loss is not sg.Approx}


def test_every_mechanism_is_attacked_in_all_units_that_it_takes() -> None:
    for name, cls in catalogue.mechanisms().items():
        found = {entry.subject.mechanism.unit for entry in entries(name) if entry.kind == "unit"}
        refused = {unit for unit in catalogue.UNITS if not list(entries(name, Asked(unit=unit)))}
        assert found == set(catalogue.UNITS) - refused, cls


def test_some_are_attacked_as_they_are_stated() -> None:
    stated = [entry for entry in entries() if entry.subject.loss.currency == "approximate"]
    assert {entry.title for entry in stated} >= {f"{name}, as stated" for name in catalogue.STATED_BY}


def test_a_class_with_a_setting_that_is_not_known_is_an_error(monkeypatch: Any) -> None:
    monkeypatch.setitem(catalogue.MECHANISMS, "WindowSum", ({},))
    with pytest.raises(TypeError, match=r"^settings of WindowSum must be in the catalogue, got none of"):
        list(entries("WindowSum"))
    monkeypatch.delitem(catalogue.STATISTICS, "Mean")
    with pytest.raises(TypeError, match=r"^settings of Mean must be in the catalogue, got none$"):
        list(entries("Mean"))


def test_what_is_asked_for_is_what_is_attacked() -> None:
    asked = Asked(4, (sg.Pure("1/3"),), sg.User(2, 3))
    found = [entry for entry in entries("Binary", asked) if isinstance(entry.subject, MechanismSubject)]
    assert found
    for entry in found:
        assert isinstance(entry.subject, MechanismSubject)
        assert entry.subject.mechanism.unit == sg.User(2, 3)
        assert (entry.subject.ticks, entry.subject.loss) == (4, sg.Pure("1/3"))


@pytest.mark.parametrize("name", ["SimpleII", "Segments", "Mean"])
def test_a_small_report_is_clean(name: str, monkeypatch: Any) -> None:
    for setting, few in (("SAVED_RUNS", 500), ("BESIDE_RUNS", 100)):
        monkeypatch.setattr(catalogue, setting, few)
    found = report_on(entries(name), QUICK, confidence=SURE)
    assert found.clean, [finding.verdict.reasons for finding in found.findings]
    assert found.summary.startswith(f"{len(found.findings)} claims hold, 0 condemned; ")


def test_controls_turn_the_verdict() -> None:
    """A broken twin that is found out is as it must be; called honest, it spoils the report."""
    broken, honest = list(twins())[:2]
    assert report_on([broken, honest], QUICK, confidence=SURE).clean
    innocent = Entry(broken.kind, broken.title, broken.subject, guilty=False, runs=broken.runs)
    spoilt = report_on([innocent, honest], QUICK, confidence=SURE)
    assert not spoilt.clean
    assert spoilt.findings[0].words == "condemned"
    accused = Entry("twin", "an honest one", honest.subject, guilty=True, runs=honest.runs)
    missed = report_on([accused], QUICK, confidence=SURE)
    assert not missed.clean
    assert missed.findings[0].words == "missed"


def test_the_doubt_of_a_report_is_shared_by_its_verdicts() -> None:
    entry = Entry("counter", "a", MechanismSubject(SimpleII(sg.Pure(1)), 1))
    found = report_on([entry] * 4, 100, confidence=0.99)
    assert {each.verdict.measured.confidence for each in found.findings if each.verdict.measured} == {
        share(0.99, 4)
    }
    assert 1 - share(0.99, 4) == pytest.approx(0.0025)


def test_twins_know_how_many_runs_they_need_and_what_is_told_has_fewer() -> None:
    entry = next(iter(twins()))
    assert runs_of(entry, 10) == entry.runs
    published = next(entry for entry in entries("Mean") if entry.kind == "published")
    assert runs_of(published, 10**6) == 10**5
    assert runs_of(published, 10) == report.FEWEST_PUBLISHED


def test_who_waits_is_told_of_every_subject() -> None:
    told: list[tuple[int, int, str]] = []
    entry = Entry("counter", "a", MechanismSubject(SimpleII(sg.Pure(1)), 1))
    report_on(
        [entry, entry], 200, watch=lambda number, count, title, done, of: told.append((number, count, title))
    )
    assert set(told) == {(1, 2, "a"), (2, 2, "a")}


def test_json_of_a_report_is_json() -> None:
    measured = Measured("p", "s", 10, 0.9, float("inf"), 1.0, 0.0, 0.0, 0.1)
    verdict = Verdict("b", sg.Pure(1), exact=float("inf"), exact_pair="q", measured=measured)
    found = Report((Finding("twin", "t", verdict, guilty=True, why="because"),), 0.9, 1.0)
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert told["clean"] is True
    assert told["findings"][0]["exact"] == "infinite"
    assert told["findings"][0]["measured"]["amount"] == "infinite"
    assert plain(float("nan")) == "infinite"
    assert Binary.__name__ in names()
