"""Probes of code: the effect of each event and each draw, found by feeding one at a time.

The mechanism does not help, so a register without noise cannot hide. Linearity is tested too: streams of several
kinds, under draws of their own, must show D x + N z (superposition), exactly if numbers are whole. If they do not, the
view stores the streams (`LinearView.nonlinear_streams`), and nothing may be computed from it.

`probe_at_once` feeds each event and each draw to a group of one run. Group g of a run of as many groups as there are
draws has draw number g pushed, and no other. Group t of another run has an event at tick t. So two runs probe hundreds
of ticks. Groups of a third run have streams and draws of many kinds, which must add up. It checks that a run of many
groups draws in the order of a run of one, so many groups at a time. If not, it returns None, and `probe_view` remains,
which probes one draw at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import log2

import numpy as np

from streamgauge.audit.exact.linear import VIEW_TOLERANCE, LinearView, NoiseTerm, NonlinearStream
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Entropy, Ints, Noise
from streamgauge.noise.coerce import Floats
from streamgauge.noise.entropy import draw_bytes
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, InsecureKeystream, SilentNoise

NOISE_FACTORS = (1, 6)  # how many times as wide as they should be draws are, in turns
STREAM_KINDS = 7  # of streams
STREAMS_EACH = 2  # streams of each kind, where they are fed one by one

ViewFunction = Callable[[Ints, Noise], Floats]  # of the values of all ticks: all that is seen, in one row
NoiseRequests = list[tuple[str, Fraction, int]]  # for noise: the kind, scale or variance, and how many


class RequestNoise:
    """Noise whose draws of both kinds come from `_draw`."""

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self._draw("laplace", scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self._draw("gaussian", variance, size)

    def _draw(self, kind: str, value: Fraction, size: int) -> Ints:
        raise NotImplementedError


@dataclass
class LoudNoise(RequestNoise):
    """Numbers of up to so many deviations, which anybody can repeat, written down in order."""

    seed: int
    factor: int = 1
    draws: list[Ints] = field(default_factory=list)
    requests: NoiseRequests = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bytes = InsecureKeystream(f"loud {self.seed}")

    def _draw(self, kind: str, value: Fraction, size: int) -> Ints:
        self.requests.append((kind, value, size))
        most = self.factor * (1 + 2 * compute_push(build_law(kind, value)))
        self.draws.append(draw_evenly(self._bytes, size, 2 * most + 1) - most)
        return self.draws[-1].copy()


def draw_evenly(entropy: Entropy, size: int, below: int) -> Ints:
    """Draw whole numbers from 0, evenly but for 2^-50."""
    return (draw_bytes(entropy, 8 * size).view(np.uint64) % np.uint64(below)).astype(np.int64)


@lru_cache
def list_streams(ticks: int, each: int) -> tuple[NonlinearStream, ...]:
    """List streams of every kind: nothing, few events, more, many, very many, and counts below 0."""
    numbers = InsecureKeystream("streams")
    found: list[NonlinearStream] = []
    for _ in range(each):
        few, small, large = (draw_evenly(numbers, ticks, below) for below in (4, 5, 1000))
        found += [
            NonlinearStream("nothing", 0 * few),
            NonlinearStream("a count of 0 to 3 in every tick", few),
            NonlinearStream("single events", few // 3),
            NonlinearStream("a count of 1 to 5 in every tick", 1 + small),
            NonlinearStream("hundreds in every tick", 500 + large),
            NonlinearStream("millions in every tick", 10**6 * (1 + small) + large),
            NonlinearStream("counts below 0", -few),
        ]
    return tuple(found)


def probe_view(view: ViewFunction, ticks: int) -> LinearView:
    """Probe any view: nothing, then one event at a time, one draw at a time, and all together."""
    nothing = np.zeros(ticks, np.int64)
    counted = CountedNoise(SilentNoise())
    silent = view(nothing, counted)
    events = [view(one, SilentNoise()) - silent for one in np.eye(ticks, dtype=np.int64)]
    laws = list_laws(counted.requests)
    pushes = [compute_push(law) for law in laws]
    draws = [(view(nothing, ImpulseNoise(number, push)) - silent) / push for number, push in enumerate(pushes)]
    odd = find_nonlinear(view, silent, np.array(events).T, draws, laws)
    return build_linear_view(np.array(events).T, draws, laws, odd)


def find_nonlinear(
    view: ViewFunction, silent: Floats, by_data: Floats, draws: Sequence[Floats], laws: Sequence[Distribution]
) -> tuple[NonlinearStream, ...]:
    """Find the streams whose view is not the sum of its parts."""
    found = []
    by_noise = np.array(draws).reshape(len(draws), len(silent)).T
    for number, each in enumerate(list_streams(by_data.shape[1], STREAMS_EACH)):
        noise = LoudNoise(number, NOISE_FACTORS[number // STREAM_KINDS % len(NOISE_FACTORS)])
        shown = view(each.stream, noise)
        z = np.concatenate([np.zeros(0, np.int64), *noise.draws])
        is_known = list_laws(noise.requests) == list(laws)
        if not is_known or not are_equal(shown, silent + by_data @ each.stream + by_noise @ z):
            found.append(each)
    return tuple(found)


def are_equal(actual: Floats, expected: Floats) -> bool:
    """Return whether numbers are equal: exactly if they are whole and exact in floats, else up to rounding."""
    if actual.shape != expected.shape:
        return False
    off = np.abs(actual - expected).max(initial=0.0)
    whole = bool((actual == np.rint(actual)).all()) and float(np.abs(expected).max(initial=0.0)) < 2.0**50
    return bool(off < 0.5 if whole else off <= VIEW_TOLERANCE * np.abs(expected).max(initial=1.0))


def compute_push(law: Distribution) -> int:
    """Return the size of an impulse: large enough to survive rounding."""
    return 1 << max(0, int(log2(max(1.0, law.variance))) // 2)


def list_laws(requests: NoiseRequests) -> list[Distribution]:
    """List the law of each draw, in order."""
    return [law for kind, value, size in requests for law in [build_law(kind, value)] * size]


@lru_cache(maxsize=1024)
def build_law(kind: str, value: Fraction) -> Distribution:
    return DiscreteLaplace(value) if kind == "laplace" else DiscreteGaussian(value)


def build_linear_view(
    by_data: Floats, draws: list[Floats], laws: list[Distribution], nonlinear_streams: tuple[NonlinearStream, ...] = ()
) -> LinearView:
    """Build a view. Draws with equal columns are one source, and draws without effect are dropped."""
    alike: dict[tuple[bytes, Distribution], int] = {}
    columns: dict[tuple[bytes, Distribution], Floats] = {}
    for column, law in zip(draws, laws, strict=True):
        if column.any():
            key = (column + 0.0).tobytes(), law
            alike[key] = alike.get(key, 0) + 1
            columns[key] = column
    sources = tuple(NoiseTerm(law, count) for (_, law), count in alike.items())
    return LinearView(by_data, np.array(list(columns.values())).T.reshape(len(by_data), -1), sources, nonlinear_streams)


MAX_DRAWS = 4096
STREAMS_PER_KIND = 10  # streams of each kind whose sums are checked: as many groups as in `layouts`

FeedFunction = Callable[[Ints, Noise], Floats]  # of values (ticks, groups): releases (ticks, groups)


@dataclass
class SpikeNoise(RequestNoise):
    """Zeros, but for one draw of each group: the first of the first, the second of the next, and so on.

    >>> from streamgauge.noise import DiscreteLaplace
    >>> SpikeNoise([DiscreteLaplace(1)] * 2).laplace(Fraction(1), 4)
    array([1, 0, 0, 1])
    """

    laws: list[Distribution]
    draw_count: int = 0
    is_in_order: bool = field(default=True, repr=False)

    def _draw(self, kind: str, value: Fraction, size: int) -> Ints:
        rows, rest = divmod(size, len(self.laws))
        now = slice(self.draw_count, self.draw_count + rows)
        self.is_in_order &= not rest and self.laws[now] == [build_law(kind, value)] * rows
        out = np.zeros((rows + bool(rest), len(self.laws)), np.int64)
        if self.is_in_order:
            places = np.arange(self.draw_count, self.draw_count + rows)
            out[np.arange(rows), places] = [compute_push(law) for law in self.laws[now]]
        self.draw_count += rows
        return out.ravel()[:size]


def probe_at_once(feed: FeedFunction, ticks: int) -> LinearView | None:
    """Probe the maps of releases in few runs, if the code draws tick by tick."""
    counted = CountedNoise(SilentNoise())
    silent = feed(np.zeros((ticks, 1), np.int64), counted)
    laws = list_laws(counted.requests)
    events = feed(np.eye(ticks, dtype=np.int64), SilentNoise()) - silent
    if len(laws) > MAX_DRAWS:
        return None
    noise = SpikeNoise(laws)
    draws = feed(np.zeros((ticks, len(laws)), np.int64), noise) - silent if laws else np.zeros((ticks, 0))
    if not noise.is_in_order or noise.draw_count != len(laws):
        return None
    by_noise = draws / np.array([compute_push(law) for law in laws])
    odd = find_nonlinear_groups(feed, silent, events, by_noise, laws)
    return build_linear_view(events, list(by_noise.T), laws, odd)


def find_nonlinear_groups(
    feed: FeedFunction, silent: Floats, events: Floats, by_noise: Floats, laws: list[Distribution]
) -> tuple[NonlinearStream, ...]:
    """Find the streams whose view is not the sum of its parts; each is a group."""
    found: list[NonlinearStream] = []
    for times in NOISE_FACTORS:
        every, noise = list(list_streams(len(events), STREAMS_PER_KIND)), LoudNoise(times, times)
        values = np.stack([each.stream for each in every], axis=1)
        shown = feed(values, noise)
        if list_laws(noise.requests) != [law for law in laws for _ in every]:
            return tuple(every)
        z = np.concatenate([np.zeros(0, np.int64), *noise.draws]).reshape(len(laws), len(every))
        expected = silent + events @ values + by_noise @ z
        fits = (are_equal(*both) for both in zip(shown.T, expected.T, strict=True))
        found += [each for each, fit in zip(every, fits, strict=True) if not fit]
    return tuple(found)
