"""The worst that a seized memory can show, over all streams at once: dynamic programming over beliefs.

A story is a list of acts, some of which are free: at those, what happens in either world is one of some
pairs. At every moment, before the first act and after each, an intruder may look, unannounced and once. All
pairs of streams, all that can be seen and all moments of the look are gone through together: two histories
that leave states in the same proportions in both worlds have the same future, and are one.

Promise
    The largest ratio of likelihoods in either direction, exactly, of all streams that the free acts allow.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from streamgauge.audit.kernels import Belief, Kernel, Value, moved, normal, quotient, seen

FREE = "free"  # an act that may be another in either world
Pairs = Sequence[tuple[Value, Value]]


@dataclass(frozen=True)
class Streams:
    """How a belief came about: the acts of both worlds, and after how many of them somebody looked."""

    one: tuple[Value, ...] = ()
    other: tuple[Value, ...] = ()
    peek: int | None = None

    def then(self, one: Value, other: Value) -> "Streams":
        return replace(self, one=(*self.one, one), other=(*self.other, other))


Found = dict[Belief, Streams]


def worst_seizure(
    kernel: Kernel, story: Sequence[Value], pairs: Pairs, *, looks: int = 1
) -> tuple[Fraction | float, Streams]:
    """The largest ratio, and the streams that it is of; `looks` is how many may be unannounced."""
    start = normal({state: (chance, chance) for state, chance in kernel.initial().items()})
    found: list[Found] = [{start: Streams()}, *({} for _ in range(looks))]  # by how many looks there were
    for done in range(len(story) + 1):
        if done:
            choices = pairs if story[done - 1] == FREE else [(story[done - 1], story[done - 1])]
            found = [gone_on(kernel, each, choices) for each in found]
        for number in range(looks):
            found[number + 1] = {**looked(found[number], done), **found[number + 1]}
    ratios = ((larger(belief), streams) for each in found for belief, streams in each.items())
    return max(ratios, key=lambda known: known[0])


def gone_on(kernel: Kernel, found: Found, choices: Pairs) -> Found:
    """One more act, in all ways that it may be."""
    later: Found = {}
    half = halves(choices)
    for belief, streams in found.items():
        for values in half if alike(belief) else choices:
            for after in moved([belief], partial(law_of, kernel, values)):
                later.setdefault(after, streams.then(*values))
    return later


def alike(belief: Belief) -> bool:
    """Whether nothing has happened yet that tells the worlds apart."""
    return all(one == other for _, one, other in belief)


def halves(choices: Pairs) -> Pairs:
    """One of each two pairs that are mirrors of each other; all of them, unless each has its mirror. Where
    worlds are alike, mirrors lead to the same ratios the other way round."""
    if {(other, one) for one, other in choices} != set(choices):
        return choices
    return [pair for place, pair in enumerate(choices) if pair[::-1] not in choices[:place]]


def law_of(kernel: Kernel, values: tuple[Value, Value], state: Value, world: int) -> Any:
    return kernel.step(state, values[world])


def looked(found: Found, peek: int) -> Found:
    """What is believed by one who looks now."""
    return {
        after: replace(streams, peek=peek) for belief, streams in found.items() for after in seen([belief])
    }


def larger(belief: Belief) -> Fraction | float:
    """The ratio in the direction in which it is above 1."""
    forth = quotient(belief)
    return max(forth, 1 / forth) if forth else float("inf")


def product_of(one: Iterable[Value]) -> Pairs:
    """All pairs of these."""
    values = list(one)
    return [(first, second) for first in values for second in values]
