"""What a device does when it is asked again: it repeats itself, or it pays.

    Repeat()                 sends its first report again, whatever the item becomes
    Charge(total)            draws every report anew, and pays for each, while the total lasts
    DailyWithoutTotal(per)   draws anew and pays, and has its budget back every day: no promise in total

Privacy
    Neighbours: any two histories of a device, however they differ. How often it reports, and when, is not
    protected. Promise: that of `ever`, for all reports of a device together.
    Repeat: epsilon, for ever. All reports are copies of the first, which is drawn from the first item alone.
    Charge: n reports are n independent draws, and their epsilons add; none is drawn that has no room. What
    was spent under another rule or claim is spent: it is within the total too.
    DailyWithoutTotal: the same day by day, so that n days lose n times as much, and nothing bounds n.

    A report that is remembered *for each item* loses everything once the item changes: of the histories AAAA
    and ABAB the first always sends four equal reports, the second two and two, so that a single pair of
    different reports tells them apart for certain. Hence Repeat never looks at an item again; that an item
    has changed is seen by nobody.

Reference
    Erlingsson, Pihur, Korolova: RAPPOR, CCS 2014, remember a report for each item, for items that never
    change. Tang et al.: Privacy loss in Apple's implementation of differential privacy, 2017, found a budget
    that is renewed daily, of up to 16 a day, without any total.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from streamgauge.localdp.memory import Memory
from streamgauge.privacy import PrivacyError, Pure


class NoBudgetLeft(PrivacyError):  # noqa: N818 - named for what happened
    """A report that its device cannot pay for any more; nothing was drawn. Depends on how often it was asked
    alone."""

    def __init__(self, asked: Pure, spent: Pure, allowed: Pure) -> None:
        self.asked, self.spent, self.allowed = asked, spent, allowed
        super().__init__(f"report must be within {allowed}, got {asked} on top of {spent}")

    def __reduce__(self) -> tuple[type["NoBudgetLeft"], tuple[Pure, ...]]:
        return type(self), (self.asked, self.spent, self.allowed)


class Again(Protocol):
    """A rule for reports after the first."""

    @property
    def repeats(self) -> bool:
        """Whether the first report is all there ever is."""
        ...

    def check(self, memory: Memory, loss: Pure, day: int) -> None:
        """Refuses a report that there is no budget for."""
        ...

    def left(self, memory: Memory, loss: Pure) -> int | None:
        """For how many reports of `loss` each there will ever be budget; None if it bounds none."""
        ...

    def ever(self, memory: Memory, loss: Pure) -> Pure | None:
        """What all reports can cost, those that are remembered too; None if nothing bounds it."""
        ...

    def within(self, loss: Pure, days: int) -> Pure:
        """What those of so many days can cost, if all are of `loss` each."""
        ...


@dataclass(frozen=True)
class Repeat:
    """The first report for ever; see the module's claim."""

    repeats: ClassVar[bool] = True

    def check(self, memory: Memory, loss: Pure, day: int) -> None:
        """There is always budget for what was sent already."""

    def left(self, memory: Memory, loss: Pure) -> int | None:
        return None

    def ever(self, memory: Memory, loss: Pure) -> Pure | None:
        return memory.loss if memory.reported else loss

    def within(self, loss: Pure, days: int) -> Pure:
        return loss


@dataclass(frozen=True)
class Charge:
    """A new report each time, within a total; see the module's claim."""

    repeats: ClassVar[bool] = False
    total: Pure

    def __post_init__(self) -> None:
        if not isinstance(self.total, Pure):
            why = "a budget that is given back daily is DailyWithoutTotal"
            raise ValueError(f"total must be Pure ({why}), got {self.total!r}")

    def check(self, memory: Memory, loss: Pure, day: int) -> None:
        _check_room(loss, memory.loss, self.total)

    def left(self, memory: Memory, loss: Pure) -> int | None:
        return max(0, int((self.total.epsilon - memory.loss.epsilon) // loss.epsilon))

    def ever(self, memory: Memory, loss: Pure) -> Pure | None:
        times = self.left(memory, loss)
        return memory.loss + loss.group(times) if times else memory.loss

    def within(self, loss: Pure, days: int) -> Pure:
        return _affordable(loss, self.total)


@dataclass(frozen=True)
class DailyWithoutTotal:
    """A new report each time, within a budget that comes back every day. It protects a day, and nobody who
    has the same item for longer; see the module's claim."""

    repeats: ClassVar[bool] = False
    per_day: Pure

    def __post_init__(self) -> None:
        if not isinstance(self.per_day, Pure):
            raise ValueError(f"per_day must be Pure, got {self.per_day!r}")

    def check(self, memory: Memory, loss: Pure, day: int) -> None:
        _check_room(loss, memory.used(day), self.per_day)

    def left(self, memory: Memory, loss: Pure) -> int | None:
        return None

    def ever(self, memory: Memory, loss: Pure) -> Pure | None:
        return None

    def within(self, loss: Pure, days: int) -> Pure:
        return _affordable(loss, self.per_day).group(days)


def _affordable(loss: Pure, allowed: Pure) -> Pure:
    """What as many reports as there is room for cost."""
    times = int(allowed.epsilon // loss.epsilon)
    if times < 1:
        raise ValueError(f"budget must have room for a report of {loss}, got {allowed}")
    return loss.group(times)


def _check_room(loss: Pure, spent: Pure, allowed: Pure) -> None:
    if spent + loss > allowed:
        raise NoBudgetLeft(loss, spent, allowed)


def check_rule(again: Any) -> None:
    rule = all(hasattr(again, name) for name in ("repeats", "check", "left", "ever", "within"))
    if isinstance(again, type) or not rule:
        rules = "Repeat(), Charge(total) or DailyWithoutTotal(per_day)"
        raise ValueError(f"again must be {rules}, got {again!r}")
