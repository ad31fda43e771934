"""The pace of a device: the declared number of reports, at most one a tick, from its collection."""

import copy
import pickle
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import pytest

from streamgauge import Pure
from streamgauge.localdp import (
    BudgetExhaustedError,
    ChargeEachReport,
    CountMeanSketch,
    DailyBudget,
    Device,
    RandomisedResponse,
    Repeat,
    ReportPaceError,
    build_device,
    wire,
)
from streamgauge.localdp.wire import CollectionError
from streamgauge.noise import EntropyError
from tests.support.every_draw import power
from tests.support.every_report import law, worst_ratio

CLAIM = CountMeanSketch(Pure(2), width=64)  # no two of its reports are alike by chance
COIN = RandomisedResponse(Pure(1), items=("A", "B"))
START, TICK = 1_000_000, 10
RULES = pytest.mark.parametrize("again", [Repeat(), ChargeEachReport(Pure(6))], ids=lambda again: type(again).__name__)


def collection(again="repeat", most=1, **changes):
    column = {"on_repeat": again, "reports_per_user": most, "settings": wire.to_settings(CLAIM)}
    return {"name": "poll", "start": START, "tick": TICK, "columns": {"emoji": column | changes}}


class Phone:
    """A device whose power fails after every report, and a clock."""

    def __init__(self, told):
        self.told, self.kept, self.at = told, [], START

    @property
    def device(self):
        kept = {"memory": self.kept[-1] if self.kept else None, "persist": self.kept.append}
        return build_device(self.told, "emoji", max_loss=Pure(99), now=lambda: self.at, **kept)

    def answers(self, moments):
        """Return distinct reports as 0, 1, ..., and refusals by name."""
        known, said = [], []
        for self.at in moments:
            try:
                report = self.device.report(f"a{self.at}")
                known += [report] * (report not in known)
                said.append(known.index(report))
            except ReportPaceError as refused:
                said.append("none left" if refused.code == "report_limit" else refused.wait_seconds)
        return said


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (collection(), [0, *["none left"] * 4]),
        (collection(most=3), [0, 0, 0, *["none left"] * 2]),
        (collection("charge", 3), [0, 1, 2, *["none left"] * 2]),
    ],
)
def test_device_makes_at_most_the_declared_number_of_reports(told, said):
    phone = Phone(told)
    assert phone.answers([START + TICK * n for n in range(5)]) == said
    assert phone.device.remaining_reports == 0


def test_reports_are_one_tick_apart_even_after_clock_change():
    moments = [START + at for at in (-3, 5, 5, 14, 0, 15, 16, 5, 25)]
    assert Phone(collection(most=9)).answers(moments) == [3, 0, 10, 1, 15, 0, 9, 20, 0]


def test_reports_are_in_distinct_ticks_with_any_clock_offset():
    for off in range(TICK):
        phone = Phone(collection(most=99))
        moments = range(START + off, START + 20 * TICK, 3)
        sent = [at for at, said in zip(moments, phone.answers(moments), strict=True) if said == 0]
        for beyond in range(TICK):
            ticks = [(at + beyond) // TICK for at in sent]
            assert len(set(ticks)) == len(ticks) > 10


def test_report_to_earlier_poll_is_repeated_without_new_loss():
    phone = Phone(collection())
    assert phone.answers([START]) == [0]
    first, key = phone.device.last_report, phone.device.key
    phone.told["start"] = START + 1000
    assert phone.device.remaining_reports == 1
    assert phone.answers([START + 999, START + 1000, START + 2000]) == [1, 0, "none left"]
    assert (phone.device.last_report, phone.device.spent) == (first, Pure(2))
    assert phone.device.key != key


@RULES
def test_last_report_is_stored_with_its_key(again):
    kept = []
    device = Device(CLAIM, again, max_reports=2, persist=kept.append)
    assert (device.last_report, device.key, device.remaining_reports) == (None, None, 2)
    sent = []
    for left in (1, 0):
        sent.append((device.report("a"), device.key))
        loaded = Device.load(CLAIM, kept[-1], again, max_reports=2)
        assert (device.remaining_reports, loaded.remaining_reports) == (left, left)
        assert (loaded.last_report, loaded.key) == (device.last_report, device.key) == sent[-1]
    assert len({key for _, key in sent}) == 2
    assert all(len(key) == 32 for _, key in sent)


@RULES
def test_unstored_report_is_not_counted_and_refusal_changes_nothing(again):
    kept = []

    def keep(memory):
        kept.append(memory)
        if len(kept) == 2:
            raise OSError

    device = Device(CLAIM, again, max_reports=2, persist=keep)
    device.report("a")
    with suppress(OSError):
        device.report("a")
    device = Device.load(CLAIM, kept[0], again, max_reports=2, persist=keep)
    device.report("a")
    for item in ("a", object()):
        with pytest.raises(ReportPaceError, match="reports must be at most 2, got one more"):
            device.report(item)
    assert (len(kept), device.remaining_reports) == (3, 0)


@pytest.mark.parametrize(("total", "most", "left"), [(6, None, 3), ("7.99", None, 3), (2, 5, 1), (6, 5, 3), (99, 2, 2)])
def test_remaining_reports_follow_pace_and_budget(total, most, left):
    device = Device(CLAIM, ChargeEachReport(Pure(total)), max_reports=most)
    for still in range(left, 0, -1):
        assert device.remaining_reports == still
        device.report("a")
    assert device.remaining_reports == 0
    with pytest.raises((BudgetExhaustedError, ReportPaceError)):
        device.report("a")


def test_remaining_reports_are_computed_exactly():
    third = RandomisedResponse(Pure("1/3"), items=("A", "B"))
    for total, left in ((Pure("1"), 3), (Pure("999999999999999999/1000000000000000000"), 2)):
        assert Device(third, ChargeEachReport(total)).remaining_reports == left


def test_only_pace_limits_repeated_or_daily_reports():
    for again in (Repeat(), DailyBudget(Pure(2))):
        device = Device(CLAIM, again)
        assert device.remaining_reports is None
        device.report("a")
        assert device.remaining_reports is None
        assert Device(CLAIM, again, max_reports=3).remaining_reports == 3


def test_report_without_entropy_for_its_key_is_refused(monkeypatch):
    def failed(size):
        raise OSError

    device = Device(CLAIM, max_reports=1)
    monkeypatch.setattr("os.urandom", failed)
    with pytest.raises(EntropyError):
        device.report("a")
    assert device.remaining_reports == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        *(
            ({"max_reports": most}, "max_reports must be a whole number from 1 on, or None")
            for most in (0, 1.5, True, "1")
        ),
        *(
            ({"interval_seconds": every}, "interval_seconds must be a number of seconds above 0")
            for every in (0, -1, "1", float("nan"))
        ),
        ({"start": "now"}, "start must be seconds since 1970, or None, got 'now'"),
        ({"now": 5}, "now must be a function that returns seconds since 1970, got 5"),
    ],
)
def test_invalid_pace_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        Device(CLAIM, **settings)


@pytest.mark.parametrize("moment", [None, "5", float("nan"), True])
def test_invalid_clock_is_refused_before_a_draw(moment):
    device = Device(CLAIM, max_reports=1, now=lambda: moment)
    with pytest.raises(ValueError, match="now must return seconds since 1970"):
        device.report("a")
    assert (device.remaining_reports, device.spent) == (1, Pure.zero())


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (None, "collection must be as /api/collection returns it, got another"),
        ({}, "collection must be as /api/collection returns it, got another"),
        ({"columns": {"cat": {}}}, "column must be one of cat, got 'emoji'"),
        (collection("daily"), "on_repeat must be repeat or charge, got 'daily'"),
        *((collection(most=most), "reports_per_user must be a whole number") for most in (0, True, "1", None)),
    ],
)
def test_malformed_collection_is_refused(told, words):
    with pytest.raises(wire.CollectionError, match=words):
        build_device(told, "emoji", max_loss=Pure(99))


def test_collection_with_larger_loss_than_agreed_is_refused():
    for told, asks in ((collection(most=9), 2), (collection("charge", 3), 6)):
        assert build_device(told, "emoji", max_loss=Pure(asks)).loss == Pure(asks)
        with pytest.raises(CollectionError, match=rf"max_loss must be at least Pure\(epsilon={asks}\), which"):
            build_device(told, "emoji", max_loss=Pure(asks - 1))
    with pytest.raises(ValueError, match="max_loss must be Pure, got 2"):
        build_device(collection(), "emoji", max_loss=2)


def test_refusals_can_be_pickled_and_copied():
    for refused in (ReportPaceError("too many"), ReportPaceError("too soon", "too_soon", 1.5)):
        for told in (pickle.loads(pickle.dumps(refused)), copy.copy(refused)):
            assert (str(told), vars(told)) == (str(refused), vars(refused))


@dataclass
class Paced:
    """The view of a device, with its refusals, for a history of items."""

    again: object
    claim: object = COIN

    def privatise(self, items, chance):
        moments = iter([0, 1, 2, 3])  # one a tick of two
        device = Device(COIN, self.again, max_reports=2, interval_seconds=2, now=lambda: next(moments), noise=chance)
        return b"".join(seen(device, item) for item in items)


def seen(device, item):
    try:
        return device.report(item)
    except ReportPaceError as refused:
        return str(refused).encode()


@pytest.mark.parametrize(("again", "reports"), [(Repeat(), 1), (ChargeEachReport(Pure(2)), 2)])
def test_refusals_reveal_nothing_of_the_history(again, reports):
    laws = [law(Paced(again), "".join(items)) for items in product("AB", repeat=4)]
    assert float(worst_ratio(laws)) == pytest.approx(float(power(reports)), rel=1e-8)
