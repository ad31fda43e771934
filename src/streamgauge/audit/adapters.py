"""Anything that can be called is a subject: somebody else's measurement, a function, a service behind a door.

    Callable("theirs", measurement, Pure(1), one=0, other=1)

`run(data)` gives what readers see of one run: a number, text, nothing, or these in lists or arrays of one
shape. With `vectorised=True`, `run(data, runs)` gives one row for each run, which is as much faster.
Whatever comes out is evidence (see `streamgauge.audit.outputs`). An exception is none, and ends the audit.

    Callable("theirs", measurement, Pure(1), *first, others=list(neighbours(inputs, differ_by_one)))

Where nobody knows the worst neighbours, give many: all are tried on the runs of the scan, which are shared
out among them, and the worst of them is counted on runs of its own.
"""

from collections import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from streamgauge.audit.outputs import Shape, boxed, encoded, rows_of, stacked
from streamgauge.audit.subject import Pair, Score
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss

BATCH = 10_000  # outputs that are held as they came
SHOWN = 40  # characters of an input

Both = tuple[Any, Any]  # inputs that differ in one unit


def neighbours(inputs: Iterable[Any], differ: abc.Callable[[Any, Any], bool]) -> Iterator[Both]:
    """All pairs of these inputs that differ in one unit, as you say.

    >>> list(neighbours([(), (1,), (1, 2)], lambda one, other: abs(len(one) - len(other)) == 1))
    [((), (1,)), ((1,), (1, 2))]
    """
    return (both for both in combinations(inputs, 2) if differ(*both))


@dataclass(frozen=True)
class Callable:
    """A subject out of a callable; see the module.

    >>> from streamgauge import Pure
    >>> constant = Callable("a constant", lambda data: ["same", 7, None], Pure(1), one=0, other=1)
    >>> constant.views(0, 2).shape
    (2, 5)
    """

    name: str
    run: abc.Callable[..., Any] = field(repr=False)
    loss: Loss
    one: Any = field(repr=False)
    other: Any = field(repr=False)
    vectorised: bool = False
    _: KW_ONLY
    pair: str = "the two that were given"
    evidence: Score | None = field(default=None, repr=False)  # of views as they are encoded
    others: Sequence[Both] = field(default=(), repr=False)  # more neighbours, to look for the worst among

    def pairs(self) -> Sequence[Pair]:
        first = Pair(self.pair, self.one, self.other, self.evidence)
        return [first, *(Pair(told(one, other), one, other) for one, other in self.others)]

    def views(self, data: Any, runs: int) -> Floats:
        shape = self.shape
        if self.vectorised:
            return encoded(rows_of(self.run(data, runs), runs), shape)
        sizes = [min(BATCH, runs - done) for done in range(0, runs, BATCH)]
        batches = (stacked([self.run(data) for _ in range(size)]) for size in sizes)
        return np.concatenate([encoded(batch, shape) for batch in batches])

    @cached_property
    def shape(self) -> Shape:
        """That of one output, which all others must have: one run says it."""
        if self.vectorised:
            return rows_of(self.run(self.one, 1), 1).shape[1:]
        return boxed(self.run(self.one)).shape


def told(one: Any, other: Any) -> str:
    """Who was found: inputs of an audit are made up, and may be shown."""
    return f"{shortened(repr(one))} and {shortened(repr(other))}"


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}.."
