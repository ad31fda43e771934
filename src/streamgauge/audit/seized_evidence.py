"""The best score of what is seen of a seized run: how likely it is in either stream, from the real code's
own law.

Rows are those of `SeizedSubject.views`: what each act showed, and the memory after the act at which it was
seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cached_property
from math import log
from typing import Any

import numpy as np

from streamgauge.audit.kernels import State, Value
from streamgauge.audit.seized_kernels import ESTIMATE, SeizedKernel
from streamgauge.continual.saved import unpack
from streamgauge.noise.numbers import Floats

FAR = 1e6  # what one stream shows and the other cannot

Row = tuple[float, ...]
Weights = dict[Row, Fraction]


@dataclass(frozen=True)
class Seizure:
    """What is done in a run, and after how many acts its memory is seen."""

    acts: tuple[Value, ...]
    peek: int | None


@dataclass(frozen=True)
class Evidence:
    """The log-likelihood ratio of rows; releases are cut off where all beyond say the same."""

    kernel: SeizedKernel
    one: Seizure
    other: Seizure

    def __call__(self, views: Floats) -> Floats:
        least, most = self.kernel.ends if self._noisy else (0, 0)
        cut = views.copy()
        cut[:, self._noisy] = np.clip(cut[:, self._noisy], least, most)
        rows, place = np.unique(cut, axis=0, return_inverse=True)
        return np.array([self._told(tuple(row)) for row in rows.tolist()])[place.ravel()]

    def _told(self, row: Row) -> float:
        one, other = (weights.get(row, Fraction(0)) for weights in self._laws)
        if not one or not other:
            return FAR if one else -FAR
        return log(one / other)

    @cached_property
    def _laws(self) -> tuple[Weights, Weights]:
        return law_of_rows(self.kernel, self.one), law_of_rows(self.kernel, self.other)

    @cached_property
    def _noisy(self) -> list[int]:
        """The columns that are released under noise."""
        claim, at = self.kernel.claim, 0
        found: list[int] = []
        state = next(iter(self.kernel.initial()))
        for done in range(len(self.one.acts) + 1):
            if done:
                (state, output), *_ = self.kernel.step(state, self.one.acts[done - 1])
                width = len(tuple(told(claim, output)))
                found += range(at, at + width) if self.one.acts[done - 1] == ESTIMATE else ()
                at += width
            at += len(tuple(memory(claim, state))) if done == self.one.peek else 0
        return found


def law_of_rows(kernel: SeizedKernel, seizure: Seizure) -> Weights:
    """How likely each row is."""
    found: dict[tuple[State, Row], Fraction] = {
        (state, ()): weight for state, weight in kernel.initial().items()
    }
    for done in range(len(seizure.acts) + 1):
        if done:
            found = gone_on(kernel, found, seizure.acts[done - 1])
        if done == seizure.peek:
            found = {
                (state, (*row, *memory(kernel.claim, state))): each for (state, row), each in found.items()
            }
    rows: Weights = {}
    for (_, row), weight in found.items():
        rows[row] = rows.get(row, Fraction(0)) + weight
    return rows


def gone_on(
    kernel: SeizedKernel, found: dict[tuple[State, Row], Fraction], act: Value
) -> dict[tuple[State, Row], Fraction]:
    later: dict[tuple[State, Row], Fraction] = {}
    for (state, row), weight in found.items():
        for (after, output), chance in kernel.step(state, act).items():
            place = after, (*row, *told(kernel.claim, output))
            later[place] = later.get(place, Fraction(0)) + weight * chance
    return later


def told(claim: Any, seen: Any) -> Iterator[float]:
    """What an act shows: nothing, a release, or a state that was handed over."""
    if isinstance(seen, bytes):
        yield from flat(unpack(seen, "", claim.blank)[2])
    elif seen is not None:
        yield from seen


def memory(claim: Any, saved: Any) -> Iterator[float]:
    """All numbers of a state that was saved."""
    return flat(unpack(saved, claim.identity(), claim.blank)[2])


def flat(state: Any) -> Iterator[float]:
    if is_dataclass(state):
        for each in fields(state):
            yield from flat(getattr(state, each.name))
    else:
        yield from np.ravel(state).tolist()
