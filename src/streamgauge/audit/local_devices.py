"""A device over time under audit: all that it sends, for any two histories of its item.

Exactly: the real device is asked again and again, along every way that its coins and dice may fall, for all
histories of a few items, and all pairs of histories are compared. A refusal is seen like a report. What is
claimed is what the device says that all its reports can ever cost, or those of some days where nothing
bounds the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any, Protocol

import numpy as np

from streamgauge.audit.exact import Worst
from streamgauge.audit.local_laws import Evidence, Input, Law, Told, law_of, worst_of
from streamgauge.audit.seized import OneKey
from streamgauge.audit.subject import Pair
from streamgauge.localdp import Charge, DailyWithoutTotal, Device, NoBudgetLeft, Repeat
from streamgauge.noise import Chance
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Pure

ASKED = 3  # times, in a history
REFUSED = b"\0"
SENT = b"\1"

History = tuple[str, ...]


class Reporting(Protocol):
    """Whatever can be asked for a report."""

    def report(self, item: str) -> bytes: ...


@dataclass(frozen=True)
class DeviceSubject:
    """A device, made anew for each run; see the module. With `attacked` these two histories are what
    experiments compare."""

    name: str
    loss: Pure
    made: Callable[[Any], Reporting] = field(repr=False)
    items: tuple[str, ...]
    asked: int = ASKED
    attacked: tuple[History, History] | None = None
    noise: Chance | None = field(default=None, repr=False)

    @cached_property
    def laws(self) -> dict[Input, Law]:
        histories = product(self.items, repeat=self.asked)
        return {history: law_of(partial(self._sent, history)) for history in histories}

    @cached_property
    def told(self) -> Told:
        return worst_of(self.laws)

    def worst(self) -> Worst:
        told = self.told
        how = f"all that is sent in {len(self.laws)} histories of {self.asked} items, in fractions"
        return Worst((), told.epsilon, described(told.one, told.other), how=how)

    def pairs(self) -> Sequence[Pair]:
        one, other = self.attacked or (self.told.one, self.told.other)
        return [Pair(described(one, other), one, other, Evidence(self.laws[one], self.laws[other]))]

    def views(self, data: History, runs: int) -> Floats:
        source = self.noise or OneKey()
        sent = b"".join(self._sent(data, source) for _ in range(runs))
        return np.frombuffer(sent, np.uint8).reshape(runs, -1).astype(np.float64)

    def _sent(self, history: History, chance: Any) -> bytes:
        device = self.made(chance)
        return b"".join(answer(device, item) for item in history)


def answer(device: Reporting, item: str) -> bytes:
    """A report, or a refusal, which depends on how often a device was asked alone."""
    try:
        return SENT + device.report(item)
    except NoBudgetLeft:
        return REFUSED


def described(one: Any, other: Any) -> str:
    return f"a device with {', '.join(one)} or {', '.join(other)}"


def policies(claim: Any, items: tuple[str, ...]) -> Sequence[tuple[str, DeviceSubject]]:
    """Every rule for a device that is asked again, under a claim: its words, and the subject."""
    double = claim.loss.group(2)
    return [
        ("repeated", _subject(claim, items, Repeat())),
        ("charged", _subject(claim, items, Charge(double))),
        ("two days, daily budget", _subject(claim, items, DailyWithoutTotal(claim.loss), days=2)),
    ]


def _subject(claim: Any, items: tuple[str, ...], again: Any, days: int | None = None) -> DeviceSubject:
    device = Device(claim, again)
    loss = device.loss if days is None else device.loss_within(days)
    name = f"Device({claim!r}, {again!r})"
    return DeviceSubject(name, loss or claim.loss, partial(in_days, claim, again, days or 1), items)


def in_days(claim: Any, again: Any, days: int, chance: Any) -> Device:
    """A device whose days pass from one ask to the next, until the last."""
    passed = iter([*range(days), *[days - 1] * ASKED])
    return Device(claim, again, today=lambda: next(passed), noise=chance)
