"""Laws of every mechanism of the local model, without an opt-out."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from streamgauge import Pure, Zcdp
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.localdp import wire
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_draw import EveryWay, following
from tests.support.every_report import keeps, law, mean_squares, moments, moved, worst_ratio
from tests.support.oracle_catalogue import every_oracle, oracles_shown, oracles_written, tiny
from tests.support.saved_states import read_state

KNOWN = ["a", "b", "c"]
ANYTHING = [*KNOWN, "not listed", 7, "", "\ud800", None, 2.5, 7.0, float("nan"), 10**30, ["a"], True]
COUNTS = Counter({"a": 2, "b": 1, "c": 0})


class Remembered(EveryWay):
    """A path of draws that records its draws in order."""

    def __init__(self, path):
        super().__init__(path)
        self.drawn = []

    def coins(self, chance, size):
        return self._kept(super().coins(chance, size))

    def uniform(self, sides, size):
        return self._kept(super().uniform(sides, size))

    def _kept(self, drawn):
        self.drawn.append(drawn.tolist() if len(drawn) > 1 else int(drawn[0]))
        return drawn


@dataclass
class Filled:
    """A collector of 90 reports, and the reports."""

    claim: object
    reports: np.ndarray = field(init=False)
    collector: object = field(init=False)

    def __post_init__(self):
        self.reports = self.claim.privatise_many(30 * KNOWN, InsecureNoise(1))
        self.collector = collected(self.claim, self.reports)


def collected(claim, *parts):
    collector = claim.build_collector()
    for reports in parts:
        assert collector.add(reports) == len(reports)
    return collector


def same(one, two):
    return one.reports == two.reports and (read_state(one).table == read_state(two).table).all()


def every_payload(size):
    """All payloads of one or two bytes."""
    return np.arange(256**size, dtype="<u2").view(np.uint8).reshape(-1, 2)[:, :size].copy()


def test_every_written_oracle_is_exported_and_can_be_sent():
    assert set(oracles_shown()) == oracles_written() == set(wire.PROTOCOLS.values())
    assert len(oracles_shown()) >= 6


@every_oracle
@pytest.mark.parametrize("epsilon", ["1/10", 1, 40])
def test_likelihood_ratio_of_reports_is_bounded_by_the_loss(cls, epsilon):
    claim = tiny(cls, loss=Pure(epsilon))
    laws = [law(claim, item) for item in ANYTHING]
    assert all(sum(each.values()) == 1 for each in laws)
    assert keeps(claim, laws)


@every_oracle
def test_loss_bound_is_tight(cls):
    assert float(worst_ratio([law(tiny(cls), item) for item in ANYTHING])) == pytest.approx(np.e, rel=1e-8)


@every_oracle
def test_estimates_are_unbiased_and_their_variance_is_exact(cls, monkeypatch):
    claim, total = tiny(cls), COUNTS.total()
    found = moments(claim, COUNTS, monkeypatch)
    squares = sum(count**2 for count in COUNTS.values())
    assert found.mean == pytest.approx(list(COUNTS.values()))
    assert found.variance == pytest.approx(
        [claim.variance(count, total, squares - count**2) for count in COUNTS.values()]
    )


@every_oracle
def test_sum_of_squares_is_unbiased_or_zero_without_shared_cells(cls, monkeypatch):
    claim = tiny(cls)
    for counts, squares in (({"a": 2, "b": 0, "c": 0}, 4), ({"a": 1, "b": 1, "c": 0}, 2)):
        found = mean_squares(claim, Counter(counts), monkeypatch)
        assert found == pytest.approx(squares if claim.spread.shared else 0)
    assert (claim.spread.shared > 0) == hasattr(claim, "family")


@every_oracle
def test_sent_report_is_the_encoding_of_its_draws(cls):
    claim = tiny(cls)
    for item in ANYTHING:
        path = []
        while path is not None:
            chance = Remembered(path)
            assert claim.privatise(item, chance) == claim.encode(item, *chance.drawn)
            path = following(chance.left)


@every_oracle
def test_reports_of_many_devices_follow_the_exact_law(cls):
    claim, times = tiny(cls), 8_000
    for item in ("a", "not listed"):
        expected = law(claim, item)
        sent = Counter(map(bytes, claim.privatise_many([item] * times, InsecureNoise(4))))
        errors = [
            (sent[report] - times * chance) ** 2 / (times * chance * (1 - chance))
            for report, chance in expected.items()
        ]
        assert set(sent) <= set(expected)
        assert max(errors) < 45  # beyond that once in 10^10


@every_oracle
def test_honest_payloads_alone_are_accepted_with_bounded_influence(cls):
    claim = tiny(cls)
    payloads = every_payload(claim.report_size)
    taken = {bytes(row) for row in payloads[claim.well_formed(payloads)]}
    collector = claim.build_collector()
    assert taken == set(law(claim, "a"))
    assert collector.add(payloads) == len(taken)
    assert collector.dropped_reports == len(payloads) - len(taken)
    assert max(np.abs(moved(claim, each, KNOWN)).max() for each in taken) <= claim.influence * (1 + 1e-12)


@every_oracle
def test_influence_bound_is_tight(cls):
    claim = tiny(cls)
    farthest = max(np.abs(moved(claim, report, KNOWN)).max() for report in law(claim, "a"))
    assert farthest == pytest.approx(claim.influence)


@every_oracle
def test_collectors_merge_to_their_sum_and_removal_is_exact(cls):
    filled = Filled(tiny(cls))
    first, rest = filled.reports[:20], filled.reports[20:]
    assert same(collected(filled.claim, first) + collected(filled.claim, rest), filled.collector)
    assert filled.collector.remove(first) == 20
    assert same(filled.collector, collected(filled.claim, rest))
    with pytest.raises(ValueError, match="other must be a collector of"):
        filled.collector.merge(replace(filled.claim, loss=Pure(2)).build_collector())


@every_oracle
def test_saved_collector_continues_only_with_its_mechanism(cls):
    filled = Filled(tiny(cls))
    loaded = filled.claim.load(filled.collector.save())
    assert same(loaded, filled.collector)
    assert (loaded.estimate(KNOWN).count == filled.collector.estimate(KNOWN).count).all()
    with pytest.raises(InvalidSaveError, match="saved must be a run of"):
        replace(filled.claim, loss=Pure(2)).load(filled.collector.save())


@every_oracle
def test_settings_and_reports_survive_the_wire_format(cls):
    filled = Filled(tiny(cls))
    told = json.loads(json.dumps(wire.to_settings(filled.claim)))
    sent = wire.pack_message(filled.claim, filled.reports)
    assert wire.parse_mechanism(told) == filled.claim
    assert (wire.unpack_message(wire.parse_mechanism(told), sent) == filled.reports).all()


@every_oracle
def test_reports_have_minimal_bits_in_whole_bytes(cls):
    claim = tiny(cls)
    reports = claim.privatise_many(KNOWN)
    assert reports.shape == (3, claim.report_size)
    assert len(law(claim, "a")) <= 2**claim.report_bits < 2 * len(law(claim, "a"))
    assert 8 * claim.report_size >= claim.report_bits


@every_oracle
@pytest.mark.parametrize("item", [1.0, np.float64(7), True, None, b"a", 2.5, ["a"]], ids=repr)
def test_estimated_items_must_be_texts_or_whole_numbers(cls, item):
    collector = tiny(cls).build_collector()
    for name, ask in (("items", collector.estimate), ("candidates", lambda asked: collector.top(asked, 1))):
        with pytest.raises(ValueError, match=f"{name} must be texts or whole numbers, got ") as refused:
            ask(["a", item])
        assert str(refused.value).endswith(repr(item))
        with pytest.raises(ValueError, match=rf"{name} must be whole numbers below 2\*\*63, got 9223"):
            ask([2**63])
        for word in ("fire", b"fire", 7):
            with pytest.raises(ValueError, match=f"{name} must be a list of texts and whole numbers, got "):
                ask(word)
    with pytest.raises(ValueError, match="copies must be a whole number of at least 1, got 0"):
        collector.estimate(["a"], 0)


@every_oracle
def test_no_device_and_no_report_make_no_difference(cls):
    claim = tiny(cls)
    assert claim.privatise_many([]).shape == (0, claim.report_size)
    found = claim.build_collector().estimate(KNOWN)
    assert not found.count.any()
    assert not found.stddev.any()


@every_oracle
def test_loss_that_is_impure_or_too_small_is_refused(cls):
    with pytest.raises(ValueError, match=f"loss must be Pure for {cls.__name__}, got"):
        tiny(cls, loss=Zcdp(1))
    with pytest.raises(ValueError, match="loss must be large enough for a chance of"):
        tiny(cls, loss=Pure("1/100000000000"))
