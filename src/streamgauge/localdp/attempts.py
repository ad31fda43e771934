"""Whether the last report is sent again: while nobody took it, and once more of it would not count twice.

    an attempt is *open* until its answer has come: that the report was taken or, for certain, not

    taken                     never again
    no attempt is open        it was refused each time and did not count: again, whenever it is asked for
    some are open             it may have arrived: again for AGAIN seconds from the first of them on

A server counts a report once while it remembers its key, which is ten minutes. Of those AGAIN leaves one to
the road: later it might count twice, and is lost. An answer to one attempt says nothing of the others, and a
clock that is set back to before the first of them tells no time: nothing is sent that might count twice. One
that is set back by less is believed.

Privacy
    What is sent again was sent before, and costs nothing. Whether it is depends on the clock and on answers,
    never on an item.
"""

import json
from dataclasses import dataclass, field
from math import inf

from streamgauge.localdp.memory import Memory

AGAIN = 540.0  # seconds


@dataclass(frozen=True)
class Due:
    """What is to be sent now."""

    report: bytes = field(repr=False)  # noisy
    key: str = field(repr=False)  # public once it is sent: the Batch-Key, under which it is counted once

    @classmethod
    def of(cls, memory: Memory) -> "Due":
        return cls(memory.last.tobytes(), memory.key.tobytes().hex())


def begin(memory: Memory, now: float) -> None:
    """The first attempt to send a new report."""
    memory.taken, memory.open, memory.tried = False, 1, now


def begin_again(memory: Memory, now: float) -> None:
    """One more attempt to send the same; it may be the one that arrives, so the pace goes on from it."""
    memory.at = max(memory.at, now)
    memory.tried = memory.tried if memory.open else now
    memory.open += 1


def lasting(memory: Memory, now: float) -> float:
    """For how many seconds the last report may be sent again."""
    if memory.taken:
        return 0.0
    if not memory.open:
        return inf
    waited = now - memory.tried
    return max(0.0, AGAIN - waited) if waited >= 0 else 0.0


def taken_by(status: int, body: bytes) -> bool | None:
    """Whether a server took what was sent, by its answer: True; False for certain; None if it may have."""
    if 200 <= status < 300:
        return True
    if 400 <= status < 500:
        return False
    try:
        return False if json.loads(body)["error"]["taken"] is False else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def answer(memory: Memory, taken: bool) -> None:
    """One of the attempts was answered."""
    if taken:
        memory.taken = True
    else:
        memory.open = max(0, memory.open - 1)
