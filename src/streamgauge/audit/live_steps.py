"""The two ways of a mechanism to take a stream: block by block, and tick by tick as it does when it is live.

Promise
    Where `alike` says so, `step` and `feed` released the same numbers under the same noise, of streams of all
    kinds that are tried (see `trying`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgauge.audit.trying import LoudNoise, same, streams
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import SilentNoise

EACH = 2  # streams of each kind


@dataclass(frozen=True)
class Live:
    """Streams (groups, ticks) that come tick by tick."""

    streams: Ints


def by_feed(mechanism: Mechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """Of values (ticks, groups), all at once."""
    return np.asarray(mechanism.start(values.shape[1], noise).feed(values), np.float64)


def by_step(mechanism: Mechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """The same, tick by tick."""
    run = mechanism.start(values.shape[1], noise)
    return np.array([run.step(tick) for tick in values], np.float64)


def alike(mechanism: Mechanism[Any], ticks: int) -> bool:
    """Whether both release the same under the same noise, and without any."""
    values = np.stack([each.stream for each in streams(ticks, EACH)], axis=1)
    sources: list[tuple[Noise, Noise]] = [(SilentNoise(), SilentNoise()), (LoudNoise(1), LoudNoise(1))]
    return all(
        same(by_step(mechanism, values, one).ravel(), by_feed(mechanism, values, other).ravel())
        for one, other in sources
    )


def released(mechanism: Mechanism[Any], data: Ints | Live, runs: int, noise: Noise | None) -> Floats:
    """Of streams (groups, ticks): all releases of a run's first group, then of the next."""
    values, drive = (data.streams, by_step) if isinstance(data, Live) else (data, by_feed)
    releases = drive(mechanism, np.tile(values.T, (1, runs)), noise)
    return np.ascontiguousarray(releases.T, np.float64).reshape(runs, -1)
