"""Finite mechanisms, exactly: the worst likelihood ratio over all neighbours of short streams.

A kernel is a mechanism with finitely many states and outputs: randomised response, tables of noisy bits,
counters modulo k. What is computed is the largest of P(seen | x) / P(seen | x') over all streams x of a few
ticks, all their neighbours x', and all that can be seen: every output, and the state after one tick of the
intruder's choice, unannounced; with `asked`, also what an announced intruder is handed after that tick. Where
both come after the same tick, either may be first.

By dynamic programming over beliefs: after each tick, what has been seen leaves each state with a weight in
either world; two histories with weights in the same proportions have the same future, and are one.

Promise
    With probabilities as Fractions the ratio is exact; nothing is sampled, and nothing is left out.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, product
from math import inf, log
from typing import Any, Protocol, runtime_checkable

Value = Hashable
State = Hashable
Output = Hashable
Chance = Fraction | float
Stream = tuple[Value, ...]
Weights = dict[State, tuple[Chance, Chance]]  # of each state, in either world
Belief = frozenset[tuple[State, Chance, Chance]]
Neighbours = Callable[[Stream, Sequence[Value]], Iterable[Stream]]
NOTHING: Value = None  # what a tick has in which nothing happened


class Kernel(Protocol):
    """A mechanism with finitely many states; each law says how likely what is."""

    def initial(self) -> Mapping[State, Chance]: ...

    def step(self, state: State, value: Value) -> Mapping[tuple[State, Output], Chance]: ...


@runtime_checkable
class Answering(Protocol):
    """A kernel that answers announced intrusions: what it hands over, and the state that it goes on with."""

    def intrude(self, state: State) -> Mapping[tuple[State, Output], Chance]: ...


@dataclass(frozen=True)
class WorstRatio:
    """The largest ratio, and where it is."""

    ratio: Fraction | float
    one: Stream
    other: Stream
    peek: int | None = None
    asked: int | None = None

    @property
    def epsilon(self) -> float:
        return inf if self.ratio == inf else log(self.ratio)


def one_event(stream: Stream, values: Sequence[Value]) -> Iterator[Stream]:
    """Neighbours that differ in what one tick has."""
    for tick, value in product(range(len(stream)), values):
        if value != stream[tick]:
            yield *stream[:tick], value, *stream[tick + 1 :]


def one_person(stream: Stream, values: Sequence[Value]) -> Iterator[Stream]:
    """Neighbours that lack some or all of what one person did."""
    for person in {value for value in stream if value != NOTHING}:
        places = [tick for tick, value in enumerate(stream) if value == person]
        for gone in product((False, True), repeat=len(places)):
            if any(gone):
                left = {tick for tick, absent in zip(places, gone, strict=True) if absent}
                yield tuple(NOTHING if tick in left else value for tick, value in enumerate(stream))


def worst_ratio(
    kernel: Kernel,
    values: Sequence[Value],
    ticks: int,
    neighbours: Neighbours = one_event,
    *,
    peeks: bool = True,
    asked: int | None = None,
) -> WorstRatio:
    """Over all streams of so many ticks, and all ticks after which an intruder may look (0: at the start).

    Neighbours are taken in both directions.
    """
    when: list[int | None] = [None, *range(ticks + 1)] if peeks else [None]
    found = (
        WorstRatio(ratio_of(kernel, *pair, peek, asked), *pair, peek, asked)
        for stream in product(values, repeat=ticks)
        for neighbour in neighbours(stream, values)
        for pair in ((stream, neighbour), (neighbour, stream))
        for peek in when
    )
    return max(found, key=lambda worst: worst.ratio)


def ratio_of(
    kernel: Kernel, one: Stream, other: Stream, peek: int | None = None, asked: int | None = None
) -> Fraction | float:
    """The largest ratio of the weights of anything that can be seen of these two streams."""
    beliefs = {normal({state: (chance, chance) for state, chance in kernel.initial().items()})}
    for tick in range(len(one) + 1):
        if tick:
            values = one[tick - 1], other[tick - 1]
            beliefs = set(moved(beliefs, lambda state, world: kernel.step(state, values[world])))  # noqa: B023 - used at once
        beliefs = set(intruded(kernel, beliefs, looks=tick == peek, asks=tick == asked))
    return max(quotient(belief) for belief in beliefs)


def intruded(kernel: Kernel, beliefs: Iterable[Belief], *, looks: bool, asks: bool) -> Iterable[Belief]:
    """What is believed after one who looks, one who asks, or both, in either order."""
    if looks and asks:
        return chain(seen(handed(kernel, beliefs)), handed(kernel, seen(beliefs)))
    if asks:
        return handed(kernel, beliefs)
    return seen(beliefs) if looks else beliefs


def handed(kernel: Kernel, beliefs: Iterable[Belief]) -> Iterator[Belief]:
    return moved(beliefs, lambda state, world: answered(kernel, state))


def answered(kernel: Any, state: State) -> Mapping[tuple[State, Output], Chance]:
    if not isinstance(kernel, Answering):
        raise TypeError(f"kernel must answer announced intrusions, got {type(kernel).__name__}")
    return kernel.intrude(state)


def moved(
    beliefs: Iterable[Belief], step: Callable[[State, int], Mapping[tuple[State, Output], Chance]]
) -> Iterator[Belief]:
    """What is believed after one more output, for every output that there may be."""
    for belief in beliefs:
        yield from (normal(told) for told in outcomes(belief, step) if any(map(any, told.values())))


def outcomes(
    belief: Belief, step: Callable[[State, int], Mapping[tuple[State, Output], Chance]]
) -> Iterable[Weights]:
    """What one more output leaves of the weights, for every output that there may be."""
    after: dict[Output, Weights] = {}
    for state, *weights in belief:
        for world, weight in enumerate(weights):
            for (later, output), chance in step(state, world).items():
                told = after.setdefault(output, {})
                told[later] = added(told.get(later, (0, 0)), world, weight * chance)
    return after.values()


def added(weights: tuple[Chance, Chance], world: int, more: Chance) -> tuple[Chance, Chance]:
    return (weights[0] + more, weights[1]) if world == 0 else (weights[0], weights[1] + more)


def seen(beliefs: Iterable[Belief]) -> Iterator[Belief]:
    """What is believed by one who has looked at the state."""
    for belief in beliefs:
        yield from (normal({state: (one, other)}) for state, one, other in belief if one or other)


def normal(weights: Weights) -> Belief:
    """The same proportions, in one form."""
    total = sum(one + other for one, other in weights.values())
    return frozenset((state, one / total, other / total) for state, (one, other) in weights.items())


def quotient(belief: Belief) -> Fraction | float:
    """How much likelier it is in the first world."""
    one = sum(weight for _, weight, _ in belief)
    other = sum(weight for _, _, weight in belief)
    return one / other if other else inf
