"""Spending of a device lasts through all later requests, and never exceeds the agreement."""

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.continual.state_io import InvalidSaveError, pack
from streamgauge.localdp import (
    BudgetExhaustedError,
    ChargeEachReport,
    DailyBudget,
    Device,
    HadamardCountMeanSketch,
    RandomisedResponse,
    Repeat,
    ReportPaceError,
    build_device,
    wire,
)
from streamgauge.localdp.device.memory import DeviceMemory
from streamgauge.localdp.wire import CollectionError
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_draw import power
from tests.support.every_report import law, worst_ratio

COIN = RandomisedResponse(Pure(1), items=("A", "B"))
HALF = RandomisedResponse(Pure("1/2"), items=("A", "B"))
SKETCH = HadamardCountMeanSketch(Pure(1), hashes=1, width=2, seed=4)
START, TICK = 1_000_000, 10
REFUSED = (BudgetExhaustedError, ReportPaceError, wire.CollectionError)


def asks(again="charge", most=2, claim=COIN, start=START):
    column = {"on_repeat": again, "reports_per_user": most, "settings": wire.to_settings(claim)}
    return {"name": "poll", "start": start, "tick": TICK, "columns": {"emoji": column}}


class Phone:
    """A device whose power fails after every act, and whose collection changes each time."""

    def __init__(self, agreed, noise=None):
        self.agreed, self.noise, self.kept, self.at = Pure(agreed), noise, [], START

    def device(self, told):
        kept = {"memory": self.kept[-1] if self.kept else None, "persist": self.kept.append}
        return build_device(told, "emoji", max_loss=self.agreed, now=lambda: self.at, noise=self.noise, **kept)

    def report(self, told, item="A"):
        self.at += TICK
        return self.device(told).report(item)


@pytest.mark.parametrize(
    ("then", "left", "loss"),
    [
        (asks(most=2), 1, 2),
        (asks(most=3), 2, 3),
        (asks(most=1), 0, 1),
        (asks("repeat", 3), 2, 1),
        (asks(most=9, claim=HALF), 7, "9/2"),
        (asks(most=2, claim=HALF), 0, 1),
        (asks(most=2, claim=SKETCH), 1, 2),
        (asks("repeat", 3, HALF), 0, 1),
        (asks(most=2, start=START + 1000), 1, 2),
    ],
)
def test_device_keeps_its_spending_when_its_collection_changes(then, left, loss):
    phone = Phone(99)
    first = phone.report(asks())
    phone.at += 1000
    device = phone.device(then)
    assert (device.spent, device.remaining_reports, device.loss) == (Pure(1), left, Pure(loss))
    assert device.last_report == (first if device.mechanism == COIN else None)
    assert (device.key is None) == (device.last_report is None)
    for _ in range(left):
        phone.report(then)
    with pytest.raises(REFUSED):
        phone.report(then)
    assert phone.device(then).spent == phone.device(then).loss == Pure(loss)


def test_repeat_policy_resends_last_charged_report():
    phone = Phone(4)
    sent = [phone.report(asks(most=2)), phone.report(asks(most=2))]
    assert [phone.report(asks("repeat", 9), item) for item in "AB"] == [sent[-1]] * 2
    assert phone.device(asks("repeat", 9)).spent == Pure(2)


def test_repeating_device_refuses_another_collection():
    phone = Phone(99)
    phone.report(asks("repeat", 9))
    told = f"collection must be the one that was reported to, {wire.compute_fingerprint(COIN).hex()}, got "
    for claim in (HALF, SKETCH, replace(COIN, items=("B", "A"))):
        with pytest.raises(wire.CollectionError, match=told + wire.compute_fingerprint(claim).hex()):
            phone.report(asks("repeat", 9, claim))
        device = phone.device(asks("repeat", 9, claim))
        assert (device.remaining_reports, device.last_report, device.key, device.spent) == (0, None, None, Pure(1))
    assert phone.device(asks("repeat", 9)).remaining_reports == 8


def test_losses_of_several_claims_add_up_exactly():
    phone = Phone(99)
    parts = [RandomisedResponse(Pure(part), items=("A", "B")) for part in ("1/3", "1/7", "0.1")]
    for claim in parts:
        phone.report(asks(most=99, claim=claim))
    assert phone.device(asks()).spent == Pure("121/210")
    almost = ChargeEachReport(Pure("121/210") + Pure("1/3"))
    assert Device.load(parts[0], phone.kept[-1], almost).remaining_reports == 1
    less = ChargeEachReport(Pure.from_amount(almost.total.epsilon - Pure("1e-30").epsilon))
    assert Device.load(parts[0], phone.kept[-1], less).remaining_reports == 0


EVERY = [
    *(asks(again, most) for again, most in (("charge", 1), ("charge", 2), ("repeat", 3))),
    *(asks(again, most, HALF) for again, most in (("charge", 2), ("charge", 4), ("charge", 9), ("repeat", 1))),
    *(asks(again, most, SKETCH) for again, most in (("charge", 2), ("repeat", 3))),
]


@pytest.mark.slow
def test_no_order_of_collections_exceeds_the_agreed_loss(monkeypatch):
    drawn = []
    for kind in (RandomisedResponse, HadamardCountMeanSketch):
        plain = kind.privatise_many
        monkeypatch.setattr(kind, "privatise_many", noted(plain, drawn))
    reached = list(every_order(Phone(2, InsecureNoise(1)), 3, drawn))
    assert len(reached) == len(EVERY) ** 3
    assert max(reached) == Pure(2)


def every_order(phone, more, drawn):
    """Yield the spending after each order of collections. Common prefixes run once."""
    if more == 0:
        yield spent_by(phone, drawn)
        return
    before = list(phone.kept), phone.at, list(drawn)
    for told in EVERY:
        phone.kept, phone.at, drawn[:] = list(before[0]), before[1], before[2]
        for _ in range(2):
            with suppress(CollectionError):
                asked_of(phone, told)
        yield from every_order(phone, more - 1, drawn)


def spent_by(phone, drawn):
    spent = Pure.from_amount(sum(loss.epsilon for loss in drawn))
    assert spent <= phone.agreed
    assert not phone.kept or phone.device(asks("repeat", 1)).spent == spent
    return spent


def noted(plain, drawn):
    def privatise_many(claim, items, noise=None):
        drawn.append(claim.loss)
        return plain(claim, items, noise)

    return privatise_many


def asked_of(phone, told):
    device = phone.device(told)
    left, bound = device.remaining_reports, device.loss
    try:
        phone.report(told)
        left -= 1
    except REFUSED:
        assert left == 0
    device = phone.device(told)
    assert (device.remaining_reports, device.loss) == (left, bound)
    assert device.spent <= bound


@dataclass
class Asked:
    """The view of a device with changing collections, for a history of items."""

    order: tuple

    def privatise(self, items, chance):
        phone = Phone(2, chance)
        return b"".join(seen(phone, told, item) for told, item in zip(self.order, items, strict=True))


def seen(phone, told, item):
    try:
        return phone.report(told, item)
    except REFUSED as refused:
        return type(refused).__name__.encode()


@pytest.mark.parametrize(
    ("order", "lost"),
    [
        ((asks(most=2), asks(most=1), asks(most=2)), 2),
        ((asks(most=2), asks("repeat", 3), asks("repeat", 3)), 1),
        ((asks("repeat", 1), asks("charge", 2), asks("charge", 2)), 2),
        ((asks("repeat", 1), asks("repeat", 3, SKETCH), asks("charge", 4, HALF)), "3/2"),
        ((asks("charge", 4, HALF), asks("charge", 2, SKETCH), asks("charge", 2)), "3/2"),
    ],
)
def test_reports_to_changing_collections_lose_exactly_the_spending(order, lost):
    laws = [law(Asked(order), items) for items in product("AB", repeat=3)]
    ratio = worst_ratio(laws)
    assert ratio <= power(Pure(lost).epsilon)
    assert float(ratio) == pytest.approx(float(power(Pure(lost).epsilon)), rel=1e-8)


def test_daily_budget_counts_all_mechanisms_of_the_day():
    kept, day = [], [7]
    daily, settings = DailyBudget(Pure("3/2")), {"persist": kept.append, "today": lambda: day[0]}
    Device(COIN, ChargeEachReport(Pure(9)), **settings).report("A")
    with pytest.raises(BudgetExhaustedError, match="on top of"):
        Device.load(COIN, kept[-1], daily, **settings).report("A")
    Device.load(HALF, kept[-1], daily, **settings).report("A")
    with pytest.raises(BudgetExhaustedError):
        Device.load(HALF, kept[-1], daily, **settings).report("A")
    day[0] = 8
    Device.load(COIN, kept[-1], daily, **settings).report("A")
    loaded = Device.load(COIN, kept[-1], daily, **settings)
    assert (loaded.spent, loaded.loss, loaded.loss_over_days(2)) == (Pure("5/2"), None, Pure(2))


def sound(**changes):
    """A memory of one report of COIN."""
    device = Device(COIN)
    device.report("A")
    with device._locked() as memory:
        return replace(memory, **changes)


def test_memory_has_no_item_and_refuses_altered_bytes():
    device = Device(SKETCH, ChargeEachReport(Pure(2)), noise=InsecureNoise(1))
    device.report("the item")
    saved = device.save()
    assert b"the item" not in saved
    with pytest.raises(InvalidSaveError, match="truncated or altered"):
        Device.load(SKETCH, saved[:-1] + bytes([saved[-1] ^ 1]), ChargeEachReport(Pure(2)))
    assert Device.load(COIN, pack("Device", 1, {}, sound())).spent == Pure(1)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"spent_epsilon": text} for text in ("0", "-1", "2/2", "01", "1.0", "1e9", "1/0", " 1", "", "9" * 5000, 1)),
        *({"spent_today": text} for text in ("2", "-1", "x", 0)),
        *({"reports_sent": sent} for sent in (-1, 0, True, 1.0)),
        *({"last_sent_at": at} for at in (float("nan"), float("inf"), 1)),
        {"day": "7"},
        {"collection": ""},
        {"collection": None},
        {"last_report": np.empty((0, 1), np.uint8)},
        {"last_report": np.zeros((2, 1), np.uint8)},
        {"last_report": np.zeros((1, 2), np.uint8)},
        {"last_report": np.zeros((1, 1), np.float64)},
        {"key": np.zeros(3, np.uint8)},
        {"key": np.zeros(0, np.uint8)},
        {"key": np.zeros(16, np.float64)},
        *({"is_accepted": taken} for taken in (None, 0, "yes")),
        *({"open_attempts": attempts} for attempts in (-1, 1.0, True, None)),
        *({"first_attempt_at": tried} for tried in (float("nan"), float("-inf"), 0, None)),
    ],
)
@pytest.mark.parametrize("again", [Repeat(), ChargeEachReport(Pure(9))], ids=lambda again: type(again).__name__)
def test_memory_with_impossible_values_is_refused(wrong, again):
    with pytest.raises(InvalidSaveError):
        Device.load(COIN, pack("Device", 1, {}, sound(**wrong)), again)


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"spent_epsilon": "1"},
            {"reports_sent": 1},
            {"reports_sent": -1},
            {"collection": "00"},
            {"spent_today": "1"},
        ),
        *({"is_accepted": True}, {"open_attempts": 1}, {"open_attempts": -1}, {"key": np.zeros(16, np.uint8)}),
    ],
)
def test_empty_memory_with_values_is_refused(wrong):
    with pytest.raises(InvalidSaveError):
        Device.load(COIN, pack("Device", 1, {}, DeviceMemory(**wrong)))


def test_save_of_another_kind_is_refused():
    for saved in (COIN.build_collector().save(), pack("Device of another kind", 1, {}, sound()), b"", None):
        with pytest.raises(InvalidSaveError):
            Device.load(COIN, saved)
