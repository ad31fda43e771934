"""A counter over made-up people, its memory read with pan-privacy and without.

    ticks          1 ........ 8   9  10  11 | 12 .. 16       Robin came in tick 9, or did not;
    the memory is seen after tick 11        ^                the intruder knows everybody else

Without pan-privacy the memory holds the exact total, and one subtraction tells. With it, every number that
Robin is in has noise of its own: a block that was released, or the register of one that is still open. What
the intruder may then think is worked out exactly: the log odds are the sum, over these blocks, of

    log P(noise = seen - others - 1) - log P(noise = seen - others)

and every one is at most 1/scale, of at most as many blocks as there are levels. A register has one draw of
noise in it, a block that was released from a register two.

Two looks, the first of which was before tick 9, are no match for it: a register that was open at both has the
same draw in it, and the difference is who came in between.

Promise
    The odds change by a factor of at most e^epsilon, in every rehearsal: levels/scale = epsilon, by the
    tree's calibration (see `streamgauge.continual.tree`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, inf
from typing import Any

import numpy as np

from streamgauge.continual import Binary
from streamgauge.continual.run import chance
from streamgauge.continual.tree import State, Tree
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Pure

EPSILON = 1
HORIZON, CAME, SEEN_AFTER = 16, 9, 11
OTHERS = np.array([4, 6, 3, 5, 7, 5, 4, 6, 5, 3, 6])  # who came besides, tick by tick: known to the intruder


@dataclass(frozen=True)
class Block:
    """Ticks of which one noisy sum was seen: released, or a register of the memory."""

    first: int
    last: int
    released: bool
    draws: int  # of noise in it
    sums: Ints  # noisy: one of each rehearsal

    @property
    def others(self) -> int:
        """The sum without Robin, as far as it has come."""
        return int(OTHERS[self.first - 1 : min(self.last, SEEN_AFTER)].sum())

    def log_odds(self, scale: float) -> Floats:
        noise = self.sums - self.others
        return _log_weight(noise - 1, scale, self.draws) - _log_weight(noise, scale, self.draws)


def _log_weight(noise: Ints, scale: float, draws: int) -> Floats:
    """How likely a noise is, but for a constant: a^|k| of one draw, a^|k| (|k| + (1+a^2)/(1-a^2)) of two."""
    size = np.abs(noise).astype(np.float64)
    if draws == 1:
        return np.asarray(-size / scale)
    square = exp(-2 / scale)
    return np.asarray(np.log(size + (1 + square) / (1 - square)) - size / scale)


def rehearsed_counter(came: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The first rehearsal in full, and the odds after each."""
    blocks, scale = watched(came)
    return {
        "came_in": CAME,
        "seen_after": SEEN_AFTER,
        "others": OTHERS.tolist(),
        "plain": _plain_memory(),
        "blocks": [_told(block) for block in blocks],
        "odds": np.exp(sum(block.log_odds(scale) for block in blocks)),
        "two_looks": looked_twice(came),
    }


def _told(block: Block) -> dict[str, Any]:
    return {
        "first": block.first,
        "last": block.last,
        "released": block.released,
        "seen": int(block.sums[0]),
        "without": block.others,
        "with": block.others + 1,
    }


def _plain_memory() -> dict[str, Any]:
    """The memory of an ordinary run, in which Robin came: its total is exact."""
    mechanism = _counter(pan_private=False)
    *_, (state, _) = _steps(mechanism, np.array([True]), chance(mechanism))
    total = int(state.total[0])
    return {"seen": total, "without": int(OTHERS.sum()), "chance": float(total > OTHERS.sum())}


def watched(came: np.ndarray[Any, Any], noise: Noise | None = None) -> tuple[list[Block], float]:
    """Every noisy sum with Robin's tick in it, of releases and of the memory; and the scale of its noise."""
    mechanism = _counter(pan_private=True)
    states, releases = zip(*_steps(mechanism, came, noise or chance(mechanism)), strict=True)
    noises = mechanism.distribution
    assert isinstance(noises, DiscreteLaplace)
    return list(_blocks(mechanism, states[-1], np.stack(releases))), float(noises.scale)


def looked_twice(came: np.ndarray[Any, Any], noise: Noise | None = None) -> Floats:
    """The odds after a second look, where the first was before Robin's tick: the top register was open at
    both."""
    mechanism = _counter(pan_private=True)
    tops = [state.total.copy() for state, _ in _steps(mechanism, came, noise or chance(mechanism))]
    others = OTHERS[CAME - 1 : SEEN_AFTER].sum()
    return np.where(tops[SEEN_AFTER] - tops[CAME - 1] > others, inf, 0.0)


def _blocks(tree: Tree, state: State, releases: Ints) -> Iterator[Block]:
    for level in range(tree.levels):
        size = int(tree.branching**level)
        begin = (CAME - 1) // size * size
        end = begin + size
        if end > SEEN_AFTER:
            register = state.total + state.entries[level]
            yield Block(begin + 1, end, False, 1, register - releases[begin])
        elif tree.level(end) == level:
            yield Block(begin + 1, end, True, 1 + (level > 0), releases[end] - releases[begin])


def _counter(*, pan_private: bool) -> Tree:
    tree = Binary(Pure(EPSILON), horizon=HORIZON, pan_private=pan_private).way
    assert isinstance(tree, Tree)
    return tree


def _steps(tree: Tree, came: np.ndarray[Any, Any], noise: Noise) -> Iterator[tuple[State, Ints]]:
    """The state, which goes on, and the release after each tick, from tick 0 on, which released nothing."""
    state = tree.initial(len(came), noise)
    yield state, np.zeros(len(came), np.int64)
    for tick, others in enumerate(OTHERS.tolist(), start=1):
        yield state, tree.step(state, others + came.astype(np.int64) * (tick == CAME), noise)
