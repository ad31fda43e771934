"""What an intruder would see: a counter over made-up people, its memory read with pan-privacy and without.

    ticks          1 ........ 8   9  10  11 | 12 .. 16       Robin came in tick 9, or did not;
    the memory is seen after tick 11        ^                the intruder knows everybody else

Without pan-privacy the memory holds the exact total, and one subtraction tells. With it, every number that
Robin is in has noise of its own: a block that was released, or the register of one that is still open. What
the intruder may then think is worked out exactly: the log odds are the sum, over these blocks, of

    log P(noise = seen - others - 1) - log P(noise = seen - others)

and every one is at most 1/scale, of at most as many blocks as there are levels. A register has one draw of
noise in it, a block that was released from a register two.

Privacy
    The stream is made here, of constants; noise is drawn and forgotten. Nothing of a live run is read: this
    module is given none. Looking at the memory of a real run would be an intrusion.

Promise
    The odds change by a factor of at most e^epsilon, in every rehearsal: levels/scale = epsilon, by the
    tree's calibration (see `streamgauge.continual.tree`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import exp
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from streamgauge.continual import Binary
from streamgauge.continual.run import chance
from streamgauge.continual.tree import State, Tree
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Pure

EPSILON = 1
HORIZON, CAME, SEEN_AFTER = 16, 9, 11
OTHERS = np.array([4, 6, 3, 5, 7, 5, 4, 6, 5, 3, 6])  # who came besides, tick by tick: known to the intruder
THIS_STREAM = "ordinary"  # the memory of every pipeline: none is pan-private yet
TIMES = 200  # rehearsals in one answer: Robin came in every other one


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


def routes() -> list[Route]:
    return [Route("/api/rehearsal", rehearsal, name="rehearsal")]


async def rehearsal(request: Request) -> JSONResponse:
    told = await run_in_threadpool(partial(rehearsed, TIMES))
    return JSONResponse(told, headers={"Cache-Control": "no-store"})


def rehearsed(times: int) -> dict[str, Any]:
    """The first rehearsal in full, and what the intruder thinks after each."""
    came = np.arange(times) % 2 == 0
    blocks, scale = watched(came)
    odds = np.exp(sum(block.log_odds(scale) for block in blocks))
    most = exp(EPSILON)
    return {
        "epsilon": EPSILON,
        "came_in": CAME,
        "seen_after": SEEN_AFTER,
        "others": OTHERS.tolist(),
        "before": 0.5,
        "this_stream": THIS_STREAM,
        "bounds": {"odds": [1 / most, most], "chance": [1 / (1 + most), most / (1 + most)]},
        "plain": _plain_memory(),
        "pan_private": {"blocks": [_told(block) for block in blocks], "chance": _chance(odds)[0]},
        "rehearsals": {"came": came.tolist(), "chance": _chance(odds)},
    }


def _chance(odds: Floats) -> list[float]:
    """Of Robin having come, if it was as likely as not before."""
    return [round(float(each), 6) for each in odds / (1 + odds)]


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
    state, _ = _taken(mechanism, np.array([True]), chance(mechanism))
    total = int(state.total[0])
    return {"seen": total, "without": int(OTHERS.sum()), "chance": float(total > OTHERS.sum())}


def watched(came: np.ndarray[Any, Any], noise: Noise | None = None) -> tuple[list[Block], float]:
    """Every noisy sum with Robin's tick in it, of releases and of the memory; and the scale of its noise."""
    mechanism = _counter(pan_private=True)
    state, releases = _taken(mechanism, came, noise or chance(mechanism))
    noises = mechanism.distribution
    assert isinstance(noises, DiscreteLaplace)
    return list(_blocks(mechanism, state, releases)), float(noises.scale)


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


def _taken(tree: Tree, came: np.ndarray[Any, Any], noise: Noise) -> tuple[State, Ints]:
    """The state after the last tick seen, and all releases from tick 0, which is nothing."""
    state, releases = tree.initial(len(came), noise), [np.zeros(len(came), np.int64)]
    for tick, others in enumerate(OTHERS.tolist(), start=1):
        releases.append(tree.step(state, others + came.astype(np.int64) * (tick == CAME), noise))
    return state, np.stack(releases)
