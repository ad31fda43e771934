"""Local-model claims: every report is enumerated and every estimate is computed."""

from fractions import Fraction
from math import inf, tanh
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import catalogue
from streamgauge.audit.broken import ExperimentNoise, local
from streamgauge.audit.catalogue import AuditRequest, list_entries
from streamgauge.audit.exact.kernels import IMPOSSIBLE_SCORE
from streamgauge.audit.pipeline.audit import audit_column, audit_columns, compute_charge, drop_reports
from streamgauge.audit.report import audit
from streamgauge.audit.subjects import local as local_claims
from streamgauge.audit.subjects.local import LocalSubject, ReportEvidence, compute_law, expected_count, find_worst_ratio
from streamgauge.localdp import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    LocalHashing,
    RandomisedResponse,
    UnaryEncoding,
)
from streamgauge.localdp.oracle import Spread
from streamgauge.noise.bernoulli import flip_probability
from tests.support.oracle_catalogue import oracles_shown

ONE = sg.Pure(1)
ITEMS = ("a", "b", "c")
SUBJECTS = {
    entry.title: entry.subject
    for name in (*local_claims.find_oracles(), local_claims.DEVICE_NAME)
    for entry in list_entries(name)
}
CHANCE = ExperimentNoise.from_label("local")
TWINS = {twins.name: twins for twins in (*local.build_report_twins(CHANCE), *local.build_device_twins(CHANCE))}


def test_every_oracle_of_the_package_is_in_the_catalogue() -> None:
    assert set(local_claims.find_oracles().values()) == set(oracles_shown())
    assert {title.partition("(")[0] for title in SUBJECTS} == {*local_claims.find_oracles(), "Device"}
    assert set(local_claims.find_oracles()) <= set(catalogue.list_names())


def test_oracle_without_settings_in_the_catalogue_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setitem(local_claims.CLASS_SETTINGS, "UnaryEncoding", ({},))
    with pytest.raises(TypeError, match=r"^settings of UnaryEncoding must be in the catalogue, got none of"):
        list(list_entries("UnaryEncoding"))


def test_reports_are_attacked_in_their_own_unit_and_currency_alone() -> None:
    assert list(list_entries("LocalHashing", AuditRequest(losses=(ONE,), unit=sg.Event(replace=True))))
    assert not list(list_entries("LocalHashing", AuditRequest(unit=sg.WEvent(3))))
    assert not list(list_entries("Device", AuditRequest(losses=(sg.Zcdp(1),))))


@pytest.mark.parametrize("title", SUBJECTS)
def test_reports_hold_their_claim_and_estimates_match_their_statement(title: str) -> None:
    verdict = audit(SUBJECTS[title], 0)
    assert not verdict.is_condemned, verdict.reasons
    assert verdict.is_proved
    assert verdict.exact is not None
    assert verdict.exact > 0.9999 * verdict.claimed  # the claim is tight
    assert "in fractions" in verdict.computed_from


@pytest.mark.parametrize("name", [name for name, twins in TWINS.items() if not twins.has_wrong_estimates])
def test_reports_that_lose_too_much_are_condemned_by_computation(name: str) -> None:
    twins = TWINS[name]
    broken, honest = audit(twins.broken, 0), audit(twins.honest, 0)
    assert broken.exact is not None
    assert 1.5 < broken.exact <= twins.truth
    assert broken.is_condemned
    assert honest.is_proved
    assert not honest.is_condemned


@pytest.mark.parametrize("name", [name for name, twins in TWINS.items() if twins.has_wrong_estimates])
def test_wrong_estimates_are_condemned_though_reports_are_private(name: str) -> None:
    verdict = audit(TWINS[name].broken, 0)
    assert verdict.is_proved
    assert verdict.is_condemned
    assert verdict.reasons[0].startswith("biased: a report of ")


def test_survey_constants_waste_half_the_loss_and_are_biased() -> None:
    """Closed form: signs are drawn with tanh(epsilon/4) and debiased with tanh(epsilon/2)."""
    verdict = audit(TWINS["Hadamard count mean sketch, the flips of a survey"].broken, 0)
    assert verdict.exact == pytest.approx(0.5)
    right = 4 / 3 * (tanh(1 / 4) / tanh(1 / 2) - 1 / 4)
    said = f"biased: a report of 'a' counts {right:.4g} for 'a' on average, must be 1"
    assert verdict.reasons[0] == said
    assert audit(TWINS["Hadamard count mean sketch, not debiased"].broken, 0).exact == pytest.approx(0.5)


def test_separate_memo_for_each_item_loses_everything() -> None:
    verdict = audit(TWINS["Device, a memo for each item"].broken, 0)
    assert verdict.exact == inf
    assert audit(TWINS["Device, a memo for each item"].honest, 0).exact == pytest.approx(1)


class Understated(HadamardCountMeanSketch):
    @property
    def spread(self) -> Spread:
        return Spread(1.0, 1.0)


class FartherThanSaid(HadamardCountMeanSketch):
    @property
    def influence(self) -> float:
        return 1.0


class NotASum(RandomisedResponse):
    def counts(self, table: Any, reports: int, items: Any) -> Any:
        return super().counts(table, reports, items) * (1 if reports < 2 else 0.9)


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (Understated(ONE, hashes=2, width=4), "variance of a report of 'a' is 6.547, stated 1"),
        (FartherThanSaid(ONE, hashes=2, width=4), "one report moves an estimate by 3.219, stated 1"),
        (NotASum(ONE, items=ITEMS), "two reports count something else than both one by one"),
    ],
    ids=["spread", "reach", "sums"],
)
def test_estimates_are_compared_with_the_stated_ones(claim: Any, said: str) -> None:
    assert LocalSubject(claim, ITEMS).worst().faults == (said,)


def test_expected_count_of_other_items_follows_from_hashes() -> None:
    claim = LocalHashing(ONE, hashes=4, width=3)
    met = [claim.family.column(row, "a") == claim.family.column(row, "b") for row in range(4)]
    assert expected_count(claim, "a", "b") == Fraction(3, 2) * (Fraction(sum(met), 4) - Fraction(1, 3))
    assert expected_count(claim, "a", "a") == 1
    assert expected_count(RandomisedResponse(ONE, items=ITEMS), "a", "b") == 0


def test_enumerated_laws_sum_and_disjoint_outputs_are_infinite() -> None:
    laws: dict[Any, Any] = {
        item: compute_law(lambda chance, item=item: bytes([item + int(chance.coins(Fraction(1, 3), 1)[0])]))
        for item in (0, 1)
    }
    assert laws[0] == {b"\0": Fraction(2, 3), b"\1": Fraction(1, 3)}
    assert find_worst_ratio(laws).ratio == inf
    scores = ReportEvidence(laws[0], laws[1])(np.array([[0.0], [1.0], [2.0]]))
    assert scores == pytest.approx([IMPOSSIBLE_SCORE, np.log(1 / 2), -IMPOSSIBLE_SCORE])


def test_real_reports_show_most_of_the_claim() -> None:
    measured = audit(TWINS["Hadamard count mean sketch, loss doubled"].honest, 20_000, 1 - 1e-9).measurement
    assert measured is not None
    assert 0.6 < measured.amount <= 1


def poll(tmp_path: Path, protocol: str = "HadamardCountMeanSketch", values: str = "a") -> Any:
    """Build a file with a report column and a plain column, and one sink for each release."""
    stream = {
        "name": "poll",
        "source": "reports",
        "allow_reports_from": "anyone",
        "unit": "report",
        "tick": "1h",
        "start": "2026-11-01T00:00:00Z",
        "budget": {"epsilon": 3},
        "columns": {
            "emoji": {
                "report": protocol,
                "epsilon": 2,
                "values": [*values],
                "on_repeat": "repeat",
                "reports_per_user": 1,
            },
            "age": {"values": ["young", "old"]},
        },
    }
    releases = [
        {"name": "favourites", "sql": "SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"},
        {"name": "ages", "sql": "SELECT age, COUNT(*) FROM poll GROUP BY age", "epsilon": 1},
    ]
    sinks = [{"to": f"{each['name']}.jsonl", "releases": [each["name"]]} for each in releases]
    tables = {"stream": stream, "release": releases, "sink": sinks}
    return sg.Pipeline.from_tables(tables, tmp_path / "poll.toml").file


@pytest.mark.parametrize(
    ("protocol", "values", "computed"),
    [
        ("HadamardCountMeanSketch", "a", "2 (2 x 4)"),
        ("CountMeanSketch", "a", "2 (2 x 4)"),
        ("UnaryEncoding", "abcdefgh", "2 (4 values)"),
        ("UnaryEncoding", "ab", "2"),
    ],
)
def test_report_column_is_enumerated_and_its_releases_are_dropped(
    tmp_path: Path, protocol: str, values: str, computed: str
) -> None:
    """Releases of reports are post-processing of private reports."""
    file = poll(tmp_path, protocol, values)
    (verdict,) = audit_columns(file)
    assert verdict.subject == "poll.toml: column emoji, a report"
    assert verdict.is_proved
    assert verdict.computed_text == computed
    rest = drop_reports(file)
    assert [release.name for release in rest.releases] == ["ages"]
    assert [sink.to for sink in rest.sinks] == ["ages.jsonl"]
    assert compute_charge(rest, tmp_path) == ONE
    assert drop_reports(rest) is rest


def test_column_with_coins_of_another_loss_is_condemned() -> None:
    claim = local.DoubledLossSketch(ONE, hashes=512, width=512)
    assert audit_column("poll.toml", "emoji", claim).reasons[0].startswith("computed 2 (2 x 4) > 1 for")


class WholeSigns(CountMeanSketch):
    """Each sign loses all of epsilon: two items differ in two of them."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(self.loss.epsilon)}


class LouderOwn(UnaryEncoding):
    """The bit of the own item is as likely to be right as other bits."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"own": 1 - flip_probability(self.loss.epsilon), "flip": flip_probability(self.loss.epsilon)}


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (WholeSigns(ONE, hashes=512, width=512), "computed 2 (2 x 4) > 1 for"),
        (LouderOwn(ONE, items=tuple(map(str, range(99)))), "computed 2 (4 values) > 1 for"),
    ],
)
def test_vector_column_with_coins_that_lose_more_is_condemned(claim: Any, said: str) -> None:
    assert audit_column("poll.toml", "emoji", claim).reasons[0].startswith(said)
