"""Devices: the exact loss of all reports together for any two histories, and power failures."""

import copy
import pickle
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from queue import Queue
from threading import Event, Thread

import numpy as np
import pytest

from streamgauge import Pure, Zcdp
from streamgauge.continual import RunFailedError
from streamgauge.localdp import (
    BudgetExhaustedError,
    ChargeEachReport,
    DailyBudget,
    Device,
    HadamardCountMeanSketch,
    RandomisedResponse,
    Repeat,
)
from streamgauge.noise import EntropyError
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_draw import power
from tests.support.every_report import keeps, law, worst_ratio

COIN = RandomisedResponse(Pure(1), items=("A", "B"))
SKETCH = HadamardCountMeanSketch(Pure(1), hashes=1, width=2, seed=4)
TWICE = ChargeEachReport(Pure(2))


class PerItem(Device):
    """A twin that remembers a report for each item."""

    def report(self, item):
        known = self.__dict__.setdefault("known", {})
        known[item] = known.get(item) or self.mechanism.privatise(item, self._noise)
        return known[item]


class Unpaid(Device):
    """A twin that stores each charge at the next request."""

    def persist_memory(self, memory):
        if memory.reports_sent > 1:
            super().persist_memory(memory)


class SentAnyway(Device):
    """A twin that returns a report although it could not store the charge."""

    def persist_memory(self, memory):
        with suppress(OSError):
            super().persist_memory(memory)


@dataclass
class Histories:
    """All reports of a device for a history of items. Days pass in any order."""

    again: object = None
    kind: type = Device
    claim: object = COIN
    days: str = "0000"

    @property
    def loss(self):
        return self.kind(self.claim, self.again).loss

    def privatise(self, items, chance):
        days = iter(self.days)
        device = self.kind(self.claim, self.again, noise=chance, today=lambda: int(next(days)))
        return b"".join(device.report(item) for item in items)

    def laws(self, length):
        return [law(self, "".join(items)) for items in product("AB", repeat=length)]


@pytest.mark.parametrize("claim", [COIN, SKETCH], ids=lambda claim: type(claim).__name__)
def test_repeated_reports_together_lose_as_much_as_one(claim):
    histories = Histories(Repeat(), claim=claim)
    assert histories.loss == claim.loss
    laws = histories.laws(4)
    assert keeps(histories, laws)
    assert float(worst_ratio(laws)) == pytest.approx(float(power(1)), rel=1e-8)


def test_twin_with_one_report_per_item_reveals_the_history():
    histories = Histories(Repeat(), PerItem)
    assert keeps(histories, [law(histories, "AAAA"), law(histories, "BBBB")])
    with pytest.raises(AssertionError, match="some item never sends what another does"):
        worst_ratio([law(histories, "AAAA"), law(histories, "ABAB")])


def test_repeated_report_stays_the_first_for_other_items():
    device = Device(COIN)
    assert device.last_report is None
    first = device.report("A")
    assert {device.report(item) for item in ("B", "A", None, 7) * 20} == {first}
    assert device.last_report == first
    assert device.spent == device.loss == device.loss_over_days(365) == Pure(1)


def test_charged_reports_lose_exactly_the_total():
    histories = Histories(TWICE)
    assert histories.loss == Pure(2)
    laws = histories.laws(2)
    assert keeps(histories, laws)
    assert float(worst_ratio(laws)) == pytest.approx(float(power(2)), rel=1e-8)


def test_unaffordable_report_is_refused_without_a_draw():
    device = Device(COIN, ChargeEachReport(Pure("5/2")), noise=InsecureNoise(1))
    assert device.loss == device.loss_over_days(9) == Pure(2)
    assert device.spent == Pure.zero()
    device.report("A")
    last = device.report("B")
    for item in "ABC":
        with pytest.raises(
            BudgetExhaustedError,
            match=r"report must be within .*5/2\), got Pure\(epsilon=1\) on top of Pure\(epsilon=2\)",
        ) as refused:
            device.report(item)
    told = pickle.loads(pickle.dumps(refused.value))
    assert (told.requested, told.spent, told.allowed) == (Pure(1), Pure(2), Pure("5/2"))
    assert (device.spent, device.last_report) == (Pure(2), last)


def test_daily_budget_has_no_total_and_adds_up_by_day():
    device = Device(COIN, DailyBudget(Pure(2)))
    assert device.loss is None
    assert (device.loss_over_days(1), device.loss_over_days(365)) == (Pure(2), Pure(730))
    ratio = worst_ratio(Histories(DailyBudget(Pure(1)), days="012").laws(3))
    assert power(2) < ratio <= power(3)


def test_daily_budget_lasts_one_day_and_no_day_returns():
    day = [7]
    device = Device(COIN, DailyBudget(Pure(2)), today=lambda: day[0])
    asked = {}
    for day[0] in (7, 8, 7, 8, 3, 9):
        asked.setdefault(day[0], 0)
        for _ in range(3):
            try:
                device.report("A")
                asked[day[0]] += 1
            except BudgetExhaustedError:
                pass
    assert asked == {7: 2, 8: 2, 3: 0, 9: 2}
    assert device.spent == Pure(6)


@pytest.mark.parametrize("clock", [np.int64, np.int8, np.float64, float, lambda day: day + 0.75])
def test_day_may_be_any_number_and_memory_is_stored(clock):
    kept, day = [], [7]
    settings = {"persist": kept.append, "today": lambda: clock(day[0])}
    device = Device(COIN, DailyBudget(Pure(1)), **settings)
    device.report("A")
    with pytest.raises(BudgetExhaustedError):
        device.report("A")
    loaded = Device.load(COIN, kept[-1], DailyBudget(Pure(1)), **settings)
    with pytest.raises(BudgetExhaustedError):
        loaded.report("A")
    day[0] = 8
    loaded.report("A")
    assert loaded.spent == Pure(2)


@pytest.mark.parametrize("day", [None, "19000", float("nan"), float("inf"), True])
def test_invalid_day_is_refused_before_a_charge(day):
    days = iter([7, day, 8])
    device = Device(COIN, TWICE, today=lambda: next(days))
    device.report("A")
    with pytest.raises(ValueError, match=f"today must return a number of days, got {day!r}"):
        device.report("A")
    assert device.spent == Pure(1)
    device.report("A")
    assert device.spent == Pure(2)


def sent_by(kind, again, asks=5, full=False):
    """Return the reports of a device that restarts from its stored memory before each request."""
    store, sent = [], []

    def keep(memory):
        if full:
            raise OSError
        store.append(memory)

    for _ in range(asks):
        device = kind.load(COIN, store[-1], again, persist=keep) if store else kind(COIN, again, persist=keep)
        with suppress(BudgetExhaustedError, OSError):
            sent.append(device.report("A"))
    return sent


def test_device_with_power_failures_sends_only_charged_reports():
    assert len(sent_by(Device, TWICE)) == 2
    assert len(set(sent_by(Device, Repeat(), 40))) == 1
    assert not sent_by(Device, TWICE, full=True)


def test_twins_that_store_too_late_send_uncharged_reports():
    assert len(sent_by(Unpaid, TWICE)) == len(sent_by(SentAnyway, TWICE, full=True)) == 5
    assert len(set(sent_by(Unpaid, Repeat(), 100))) == 2


class Broken:
    """A full store and a failing noise source."""

    def keep(self, memory):
        raise OSError

    def coins(self, chance, size):
        raise EntropyError

    uniform = coins


@pytest.mark.parametrize("again", [Repeat(), TWICE], ids=lambda again: type(again).__name__)
def test_device_with_failed_memory_or_noise_cannot_be_used(again):
    for settings in ({"persist": Broken().keep}, {"noise": Broken()}):
        device = Device(COIN, again, **settings)
        with pytest.raises((OSError, EntropyError)):
            device.report("A")
        for act in (lambda device=device: device.report("A"), device.save):
            with pytest.raises(RunFailedError):
                act()


def test_saved_device_continues_only_in_its_loaded_copy():
    device = Device(COIN, TWICE)
    device.report("A")
    loaded = Device.load(COIN, device.save(), TWICE)
    for act in (lambda: device.report("A"), device.save):
        with pytest.raises(RunFailedError, match="device must be gone on with where it was loaded"):
            act()
    assert (loaded.spent, loaded.last_report) == (Pure(1), device.last_report)
    loaded.report("A")
    with pytest.raises(BudgetExhaustedError):
        loaded.report("A")
    first = Device(SKETCH)
    report = first.report("A")
    assert Device.load(SKETCH, first.save()).report("B") == report


def test_old_memory_restores_its_old_budget():
    kept = []
    device = Device(COIN, TWICE, persist=kept.append)
    device.report("A")
    device.report("A")
    assert [Device.load(COIN, each, TWICE).spent for each in kept] == [Pure(1), Pure(2)]


ASKED = {
    "key": lambda device: device.key,
    "last": lambda device: device.last_report,
    "left": lambda device: device.remaining_reports,
    "spent": lambda device: device.spent,
    "loss": lambda device: device.loss,
    "report": lambda device: device.report("B"),
    "due": lambda device: device.prepare_report("B"),
    "acknowledge": lambda device: device.acknowledge("0" * 32),
    "save": lambda device: device.save(),
    "forget": lambda device: device.wipe(),
}
PATIENCE = 20  # seconds until a deadlock fails the test


@pytest.mark.parametrize("asked", ASKED)
def test_persist_that_calls_its_device_is_refused_at_once(asked):
    refused, sent = in_time(lambda: reported(asked, suppressed=False))
    assert refused.code == "reentrant"
    assert str(refused) == "run must be used when its step is over, got a call from inside the step"
    assert sent == []


@pytest.mark.parametrize("asked", ASKED)
def test_persist_that_suppresses_the_refusal_gets_one_report(asked):
    refused, sent = in_time(lambda: reported(asked, suppressed=True))
    assert refused is None
    assert len(sent) == 1


def reported(asked, suppressed):
    """Return the error of a device whose `persist` calls it, and its reports."""
    sent, kept = [], []

    def keep(memory):
        kept.append(memory)
        with suppress(RunFailedError if suppressed else ()):
            ASKED[asked](device)

    device = Device(COIN, TWICE, persist=keep)
    try:
        sent.append(device.report("A"))
    except RunFailedError as refused:
        return refused, sent
    assert (len(kept), device.spent, device.remaining_reports, device.last_report) == (1, Pure(1), 1, sent[0])
    return None, sent


def in_time(act):
    answers = Queue()
    Thread(target=lambda: answers.put(act()), daemon=True).start()
    return answers.get(timeout=PATIENCE)


def test_threads_wait_while_memory_is_stored():
    seen, inside, go_on = [], Event(), Event()

    def keep(memory):
        inside.set()
        go_on.wait(PATIENCE)

    device = Device(COIN, TWICE, persist=keep)
    makes = Thread(target=device.report, args=("A",))
    makes.start()
    assert inside.wait(PATIENCE)
    looks = Thread(target=lambda: seen.append((device.remaining_reports, device.last_report is None)))
    looks.start()
    assert seen == []
    go_on.set()
    for each in (makes, looks):
        each.join(PATIENCE)
    assert seen == [(1, False)]


def test_device_cannot_be_copied_pickled_or_forked(monkeypatch):
    device = Device(COIN)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a run must not be"):
            act(device)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RunFailedError, match="got a forked child"):
        device.report("A")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: ChargeEachReport(None), r"total must be Pure \(a budget that is given back daily is DailyBudget\)"),
        (lambda: ChargeEachReport(Zcdp(1)), "total must be Pure"),
        (lambda: DailyBudget(4), "per_day must be Pure, got 4"),
        (
            lambda: Device(COIN, ChargeEachReport(Pure("1/2"))),
            r"budget must cover a report of Pure\(epsilon=1\), got Pure\(epsilon=1/2\)",
        ),
        (lambda: Device(COIN, DailyBudget(Pure("1/2"))), "budget must cover a report"),
        *(
            (
                lambda again=again: Device(COIN, again),
                rf"policy must be Repeat\(\), ChargeEachReport\(total\) or .*, got {words}",
            )
            for again, words in (("repeat", "'repeat'"), (Repeat, "<class"), (None, "None"), (Pure(2), "Pure"))
        ),
        (
            lambda: Device(COIN, persist=5),
            "persist must be a MemoryFile, a function that keeps a memory, or None, got 5",
        ),
        (lambda: Device(COIN, today=19000), "today must be a function that returns the day, got 19000"),
        (lambda: Device(COIN, today=None), "today must be a function that returns the day, got None"),
    ],
)
def test_invalid_device_settings_are_refused(made, words):
    with pytest.raises(ValueError, match=words):
        made()
