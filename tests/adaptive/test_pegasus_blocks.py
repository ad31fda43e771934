"""Laws of Pegasus with readings of blocks: its loss, its sums without bias, its estimates, its runs."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.adaptive.estimate import ManyDrawsErrorBound
from streamgauge.adaptive.pegasus.pegasus import GroupedRelease, Pegasus
from streamgauge.adaptive.pegasus.smoothers import QuietSmoother
from streamgauge.adaptive.pegasus.windows import Blocks, TwoScaleSmoothing
from streamgauge.noise import DiscreteLaplace, Ints, Term
from streamgauge.privacy import WEvent
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise
from tests.support.saved_states import live_state

RNG = np.random.default_rng(17)
TICKS, WIDTH, BLOCK = 61, 5, 8
COUNTS = RNG.poisson(np.array([0.1, 2, 40, 0.3, 5]), (TICKS, WIDTH)) - np.array([0, 0, 0, 0, 9])
COUNTS[30:33] += 50
WINDOWS = ["each", "sliding 7", "sliding 8", "sliding 13", "sliding 29", "sliding 40", "running"]
SMOOTHERS = ["average", "median", "james_stein", "quiet"]


def claim(kind: type[Pegasus] = Pegasus, **settings: Any) -> Pegasus:
    return kind(Pure(1), **{"block": BLOCK, "coarse": "1/3", **settings})


def released(mechanism: Pegasus, noise: Any, counts: Ints = COUNTS) -> GroupedRelease:
    release = mechanism.start(counts.shape[1], noise).feed(counts)
    assert isinstance(release, GroupedRelease)
    return release


def same(one: GroupedRelease, other: GroupedRelease) -> None:
    assert one.error_bounds == other.error_bounds
    for name in ("value", "centre", "noisy_counts", "group_starts", "block_readings"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def size_of(window: str) -> int:
    return {"each": 1, "running": TICKS}.get(window) or int(window.split()[1])


def truths(window: str) -> Ints:
    return np.array([COUNTS[max(0, t - size_of(window)) : t].sum(axis=0) for t in range(1, TICKS + 1)])


class Spendthrift(Pegasus):
    """A broken twin: it spends the budget of blocks again on ticks."""

    @cached_property
    def perturber(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / (Fraction(self.split) * self.step_loss.epsilon))


def readings(mechanism: Pegasus, counts: Ints) -> list[tuple[int, int, list[Fraction]]]:
    """Return each tick's exact reading, its block's reading and the requested scales."""
    noise = CountedNoise(SilentNoise())
    run, rows = mechanism.start(1, noise), []
    for row in counts:
        request = len(noise.requests)
        release: Any = run.step(row)
        scales = [scale for _, scale, _ in noise.requests[request:]]
        rows.append((int(release.noisy_counts[0]), int(release.block_readings[0]), scales))
    return rows


def loss_of_one_event(mechanism: Pegasus, tick: int) -> Fraction:
    """Return the loss of the moved readings, plus the Grouper's epsilon."""
    counts = COUNTS[:, :1]
    neighbour = counts.copy()
    neighbour[tick] += 1
    loss = mechanism.grouper.epsilon
    for here, there in zip(readings(mechanism, counts), readings(mechanism, neighbour), strict=True):
        assert here[2] == there[2]
        loss += sum(Fraction(abs(there[i] - here[i])) / here[2][i] for i in (0, 1))
    return loss


def test_event_loses_its_tick_and_block_readings() -> None:
    for tick in (0, 7, 8, 30, TICKS - TICKS % BLOCK - 1):
        assert loss_of_one_event(claim(), tick) == 1
    assert loss_of_one_event(claim(), TICKS - 1) == 1 - Fraction(4, 5) / 3  # no reading of the open block yet
    assert loss_of_one_event(claim(unit=WEvent(4)), 9) == Fraction(1, 4)
    assert loss_of_one_event(claim(Spendthrift), 9) == 1 + Fraction(4, 5) / 3  # the twin is caught


def test_settings_determine_noise_scales() -> None:
    mechanism = claim(split="3/4", coarse="2/5")
    assert mechanism.perturber == DiscreteLaplace(Fraction(20, 9))
    assert mechanism.blocks == Blocks(BLOCK, DiscreteLaplace(Fraction(10, 3)), mechanism.perturber)
    assert claim(coarse="1/1000").distribution.scale == Fraction(5000, 4)
    plain = Pegasus(Pure(1))
    assert plain.blocks is None
    assert plain.perturber == DiscreteLaplace(Fraction(5, 4))
    assert released(plain, SilentNoise()).block_readings is None


def test_each_block_adds_one_draw() -> None:
    noise, mechanism = CountedNoise(InsecureNoise(3)), claim()
    released(mechanism, noise)
    assert noise.total == 2 * COUNTS.size + TICKS // BLOCK * WIDTH
    assert mechanism.blocks is not None
    coarse = [size for _, scale, size in noise.requests if scale == mechanism.blocks.block_law.scale]
    assert coarse == [WIDTH] * (TICKS // BLOCK)


def test_nothing_exact_remains_of_an_ended_block() -> None:
    run = claim().start(WIDTH, SilentNoise())
    run.feed(COUNTS[: BLOCK - 1])
    state = live_state(run).block
    assert state.total.tolist() == COUNTS[: BLOCK - 1].sum(axis=0).tolist()
    assert "total" not in repr(state)
    run.step(COUNTS[BLOCK - 1])
    assert not state.total.any()


class Impulses:
    """One draw in each column is 1: first those of ticks, then those of blocks, in order; all else is 0."""

    def __init__(self, mechanism: Pegasus) -> None:
        assert mechanism.blocks is not None
        self.next = {mechanism.perturber.scale: 0, mechanism.blocks.block_law.scale: TICKS}

    def laplace(self, scale: Fraction, size: int) -> Ints:
        draws = np.zeros(size, np.int64)
        if scale in self.next:
            draws[self.next[scale]] = 1
            self.next[scale] += 1
        return draws

    gaussian = laplace


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("coarse", ["1/3", "1/100", "99/100"])
def test_centre_is_truth_plus_draws_of_its_bound(window: str, coarse: str) -> None:
    """Each draw enters with weight 1, -1 or 0. The coarse share decides which draws enter."""
    mechanism = claim(window=window, coarse=coarse)
    counts = np.tile(COUNTS[:, :1], (1, TICKS + TICKS // BLOCK))
    release = released(mechanism, Impulses(mechanism), counts)
    weights = np.abs(release.centre - truths(window)[:, :1])
    assert set(np.unique(weights)) <= {0, 1}
    drawn = [weights[:, :TICKS].sum(axis=1), weights[:, TICKS:].sum(axis=1)]
    assert mechanism.blocks is not None
    for bar, ticks, blocks in zip(release.error_bounds, *drawn, strict=True):
        terms = (Term(int(ticks), 1, mechanism.perturber), Term(int(blocks), 1, mechanism.blocks.block_law))
        assert isinstance(bar, ManyDrawsErrorBound)
        assert [term for term in bar.noise.terms if term.count] == [term for term in terms if term.count]


def test_trimmed_block_covers_window_edge_if_less_noisy() -> None:
    """The bound must follow the same choice, or it is too wide or too narrow."""
    one = DiscreteLaplace(Fraction(3))
    covers = [Blocks(8, one, one).cover_window(20, tick) for tick in range(24, 32)]
    assert [cover.edge_ticks for cover in covers] == [4, 3, 2, 1, 0, 7, 6, 5]
    assert [cover.is_edge_trimmed for cover in covers] == [False] * 5 + [True, True, True]
    assert [cover.draws for cover in covers] == [(2, 4), (2, 4), (2, 4), (2, 4), (2, 4), (2, 6), (2, 8), (2, 10)]
    wide = DiscreteLaplace(Fraction(30))
    assert not any(Blocks(8, wide, one).cover_window(20, tick).is_edge_trimmed for tick in range(24, 32))


def test_long_windows_have_few_draws() -> None:
    mechanisms = [Pegasus(Pure(1), window="sliding 1024", block=block) for block in (None, 32, 64)]
    assert [each.window_smoothing.draws(4016) for each in mechanisms] == [(0, 1024), (31, 32), (15, 64)]
    assert [round(each.error_bound(4016).stddev) for each in mechanisms] == [55, 28, 31]


@pytest.mark.parametrize("window", WINDOWS)
def test_centre_and_constant_values_are_exact_without_noise(window: str) -> None:
    np.testing.assert_array_equal(released(claim(window=window), SilentNoise()).centre, truths(window))
    level = released(claim(window=window), SilentNoise(), np.full((TICKS, 2), 40))
    np.testing.assert_allclose(level.value, level.centre)


def test_intervals_hold_the_truth_as_often_as_stated() -> None:
    """Ticks that are 32 apart share no noise. Half the scale must be too narrow."""
    tall, settings = np.tile(COUNTS, (1, 600)), {"window": "sliding 16", "block": BLOCK}
    release = released(Pegasus(Pure("0.2"), **settings), InsecureNoise(6), tall).select_ticks(slice(27, None, 32))
    truth = np.tile(truths("sliding 16"), (1, 600))[27::32]
    spread = 6.5 * np.sqrt(0.09 / truth.size)
    assert 0.9 - spread <= state(release, truth) <= 0.93
    narrow = Pegasus(Pure("0.4"), **settings)
    assert state(replace(release, error_bounds=tuple(map(narrow.error_bound, (28, 60)))), truth) < 0.9 - spread


def state(release: GroupedRelease, truth: Ints) -> float:
    low, high = release.interval(0.9)
    return float(((low <= truth) & (truth <= high)).mean())


def written_out(release: GroupedRelease, mechanism: Pegasus, window: str, name: str) -> np.ndarray:
    """Return the values at each tick, computed from the public series column by column."""
    assert release.block_readings is not None
    assert mechanism.blocks is not None
    one, coarse = (sqrt(law.variance) for law in (mechanism.perturber, mechanism.blocks.block_law))
    out = np.zeros((TICKS, WIDTH))
    for column in range(WIDTH):
        series = (release.noisy_counts[:, column], release.group_starts[:, column], release.block_readings[:, column])
        for tick in range(1, TICKS + 1):
            known = Known(*(part[:tick] for part in series), name, one, coarse)
            out[tick - 1, column] = known.estimate(size_of(window))
    return out


@dataclass
class Known:
    """Public knowledge of one column at a tick."""

    noisy: Ints
    started: Ints
    ended: Ints
    name: str
    one: float  # the standard error of a tick
    coarse: float  # and of a block

    def estimate(self, size: int) -> float:
        tick, count, rest = len(self.noisy), len(self.noisy) // BLOCK, len(self.noisy) % BLOCK
        starts = [*np.flatnonzero(self.started | (np.arange(tick) % BLOCK == 0)).tolist(), tick]
        ticks = np.concatenate([smooth(self.noisy[a:b], self.name, self.one) for a, b in pairwise(starts)])
        rests = [self.ended[b - 1] - ticks[b - BLOCK : b].sum() for b in range(BLOCK, tick + 1, BLOCK)]
        beyond = np.append(np.repeat(rests, BLOCK) / BLOCK, np.zeros(rest))
        if self.name != "quiet":
            return float((ticks + beyond)[-size:].sum())
        if count and rest:
            beyond[-rest:] = self.level(rests, (self.noisy - ticks)[-rest:]) / rest
        owner = np.append(np.repeat(np.arange(count), BLOCK), np.full(rest, count - 1)).astype(int)
        shares = np.bincount(owner[-size:]) / BLOCK if count else np.zeros(1)
        return firm((ticks + beyond)[-size:].sum(), self.coarse * sqrt((shares**2).sum()))

    def level(self, rests: list[float], own: np.ndarray) -> float:
        """Estimate the open ticks; `own` are their counts beyond groups."""
        share = len(own) / BLOCK
        moved = share**2 * np.mean(np.diff([0, *rests]) ** 2)
        weight = moved / (moved + len(own) * self.one**2)
        return float((1 - weight) * share * rests[-1] + weight * own.sum())


def firm(value: float, noise: float) -> float:
    """Return 0 up to one standard error, and the full value from three on."""
    return float(
        np.interp(value, np.array([-4, -3, -1, 1, 3, 4]) * noise, np.array([-4, -3, 0, 0, 3, 4]) * noise)
        if abs(value) < 4 * noise
        else value
    )


def smooth(noisy: Ints, name: str, one: float) -> np.ndarray:
    mean = noisy.mean()
    if name == "james_stein":
        return mean + (noisy - mean) / len(noisy)
    if name == "quiet" and abs(noisy.sum()) <= log(20 * BLOCK) / sqrt(2) * one * sqrt(len(noisy)):
        return np.zeros(len(noisy))
    return np.full(len(noisy), np.median(noisy) if name == "median" else mean)


@pytest.mark.parametrize("name", SMOOTHERS)
@pytest.mark.parametrize("window", ["sliding 8", "sliding 13", "sliding 29", "running"])
def test_values_match_explicit_formula_of_groups_and_blocks(window: str, name: str) -> None:
    mechanism = claim(window=window, smoother=name, theta=20)
    release = released(mechanism, InsecureNoise(5))
    expected = written_out(release, mechanism, window, name)
    if name == "quiet":
        far = QuietSmoother.MAX_STANDARD_ERRORS * release.stddev
        expected = np.clip(expected, release.centre - far, release.centre + far)
    np.testing.assert_allclose(release.value, expected, rtol=1e-9, atol=1e-9)


def test_window_shorter_than_a_block_uses_no_block() -> None:
    scaled = {window: isinstance(claim(window=window).window_smoothing, TwoScaleSmoothing) for window in WINDOWS}
    assert scaled == {window: window not in {"each", "sliding 7"} for window in WINDOWS}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("smoother", SMOOTHERS)
def test_window_from_history_equals_the_released_one(window: str, smoother: str) -> None:
    mechanism = claim(window=window, smoother=smoother)
    release, history = released(mechanism, InsecureNoise(1)), mechanism.history(WIDTH)
    history.add(release.select_tick(0))
    history.add(release.select_ticks(slice(1, None)))
    np.testing.assert_array_equal(history.estimate_window(window, smoother), release.value)
    column = mechanism.history(1)
    column.add(release.select_group(2))
    np.testing.assert_allclose(column.estimate_window(window, smoother)[:, 0], release.value[:, 2], rtol=1e-12)


@pytest.mark.parametrize("window", WINDOWS)
def test_feed_equals_steps_and_saved_run_continues(window: str) -> None:
    mechanism, noise = claim(window=window, smoother="quiet"), InsecureNoise(4)
    whole, run = released(mechanism, InsecureNoise(4)), mechanism.start(WIDTH, noise)
    for row in range(27):
        same(run.step(COUNTS[row]), whole.select_tick(row))
    twin = mechanism.load(run.save(), noise.clone())
    rest = run.feed(COUNTS[27:])
    same(rest, twin.feed(COUNTS[27:]))
    same(mechanism.join_releases([whole.select_ticks(slice(0, 27)), rest]), whole)
    none = mechanism.start(WIDTH).feed(np.zeros((0, WIDTH), int))
    same(mechanism.join_releases([none, whole]), whole)


@pytest.mark.parametrize("window", WINDOWS)
def test_late_group_equals_group_of_earlier_zeros(window: str) -> None:
    mechanism = claim(window=window, smoother="quiet")
    run = mechanism.start(WIDTH - 1, SilentNoise())
    run.feed(COUNTS[:27, 1:])
    run.widen(1)
    counts = np.roll(COUNTS, -1, axis=1)
    late = run.feed(counts[27:])
    counts[:27, -1] = 0
    same(late, released(mechanism, SilentNoise(), counts).select_ticks(slice(27, None)))


def test_run_state_fits_its_declared_memory() -> None:
    mechanism = claim(max_group_ticks=30, theta=1000, window="sliding 29")
    run = mechanism.start(3, SilentNoise())
    run.feed(np.zeros((29, 3), int))
    state, remaining_items = live_state(run), 0
    for part in (state.groups, state.block, state.smoothing.blocks, state.smoothing.smoothing.group):
        remaining_items += sum(getattr(part, name).size for name in part.__slots__)
    past = state.smoothing.smoothing.past
    remaining_items += sum(getattr(past, name).size for name in past.__slots__)
    assert remaining_items <= 3 * mechanism.memory() <= 2 * remaining_items


def test_any_64_bit_counts_are_accepted_and_sums_wrap() -> None:
    ends = np.array([2**63 - 1, -(2**63), 2**62, -(2**62), 0])
    counts = RNG.choice(ends, (TICKS, WIDTH))
    for window in WINDOWS:
        assert np.isfinite(released(claim(window=window, smoother="quiet"), InsecureNoise(8), counts).value).all()
    full = np.full((BLOCK, 1), 2**60 - 1)
    full[0] += 7
    more = full.copy()
    more[1] += 1
    ends_of = [released(claim(), SilentNoise(), each).block_readings for each in (full, more)]
    assert [int(each[-1, 0]) for each in ends_of if each is not None] == [2**63 - 1, -(2**63)]


def test_a_lasting_low_level_is_found_by_blocks() -> None:
    """Three events in ten ticks, below the noise of every tick, so each group is quiet."""
    counts = (RNG.random((1100, 40)) < 0.3).astype(np.int64)
    errors = []
    for block in (None, 64):
        mechanism = Pegasus(Pure(1), window="sliding 256", smoother="quiet", block=block)
        late = released(mechanism, InsecureNoise(9), counts).select_ticks(slice(300, None))
        errors.append(np.abs(late.value - 256 * 0.3).mean())
    assert errors[1] < 0.4 * errors[0]


def test_settings_that_make_no_claim_are_refused() -> None:
    for settings, words in (
        ({"coarse": 0}, r"^coarse must be above 0 and below 1, got 0$"),
        ({"coarse": 1}, r"^coarse must be above 0 and below 1, got 1$"),
        ({"block": None}, r"^coarse must be left out unless there is a block, got 1/3$"),
        ({"block": 1}, r"^block must be left out or a whole number of at least 2, got 1$"),
        ({"block": 2.5}, r"^block must be left out or a whole number of at least 2, got 2.5$"),
        ({"block": True}, r"^block must be left out or a whole number of at least 2, got True$"),
    ):
        with pytest.raises(ValueError, match=words):
            claim(**settings)
