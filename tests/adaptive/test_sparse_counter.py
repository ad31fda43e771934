"""The private-partition counter: its counts, its draws, and bounds that hold for all data."""

from typing import Any

import numpy as np
import pytest

from streamgauge import Pure, Zcdp
from streamgauge.adaptive.sparse.sparse_counter import SegmentErrorBound, SegmentTreeShape, SparseCounter, fit_shape
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise
from tests.support.saved_states import read_state

TICKS = 15
STREAMS = {
    "nothing": np.zeros(TICKS, int),
    "an event each": np.ones(TICKS, int),
    "a burst": np.where(np.arange(TICKS) == 9, 60, 0),
    "near the threshold": np.where(np.arange(TICKS) == 0, 7, 0),
    "below nothing": np.full(TICKS, -2),
    "to and fro": np.where(np.arange(TICKS) % 2, 9, -9),
}
CLAIMS = {
    "signed": {"signed": True},
    "counts": {"signed": False},
    "a low threshold and a deep tree": {"threshold": 2, "segments": 200},
    "a low threshold of counts": {"threshold": 3, "signed": False},
}


def claim(**settings: Any) -> SparseCounter:
    return SparseCounter(Pure(2), **{"horizon": 64, **settings})


def truths(made: SparseCounter, stream: np.ndarray) -> np.ndarray:
    return np.cumsum(stream if made.signed else np.maximum(stream, 0))


def missed(made: SparseCounter, stream: np.ndarray, confidence: float, width: int = 1500) -> float:
    """Return by how much intervals miss the truth too often, at the worst tick."""
    run, worst = made.start(width, InsecureNoise(9)), 0.0
    for value, truth in zip(stream, truths(made, stream), strict=True):
        low, high = run.step(np.full(width, value)).interval(confidence)
        worst = max(worst, float(((truth < low) | (high < truth)).mean()))
    return worst - 6.5 * 0.5 / width**0.5


@pytest.mark.parametrize("name", CLAIMS)
def test_intervals_hold_the_truth_as_often_as_stated(name: str) -> None:
    for stream in STREAMS.values():
        assert missed(claim(**CLAIMS[name]), stream, 0.6) < 0.4


def chance_to_miss(made: SparseCounter, confidence: float) -> np.ndarray:
    """Return the exact miss probability of the first interval, for values 0, 1, 2, .."""
    threshold, flags = made.threshold_at(1), (np.array([True]), np.array([False]))
    wide, cut = (
        float(made.build_error_bound(np.array([n]), np.array([n + 1]), flag, threshold).half_width(confidence)[0])
        for n, flag in enumerate(flags)
    )
    values, one = np.arange(5 * threshold), [made.test_noise.pmf(k) for k in range(-FAR, FAR + 1)]
    below = np.cumsum(np.convolve(one, one))[np.clip(threshold - values - 1 + 2 * FAR, 0, None)]
    above = np.cumsum(np.convolve(one, one))[threshold + values - 1 + 2 * FAR] if made.signed else 1.0
    beyond = values > wide + (0 if made.signed else threshold / 2)
    return np.asarray(below * above * beyond + (1 - below * above) * 2 * made.tree.distribution.tail(int(cut) + 1))


FAR = 600  # no draw exceeds it


@pytest.mark.parametrize("confidence", [0.0, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("signed", [False, True])
def test_first_interval_holds_its_confidence_for_any_value(signed: bool, confidence: float) -> None:
    """Values just above the bound of a silent test are the worst case."""
    made = SparseCounter(Pure("1/5"), horizon=64, signed=signed)
    chances = chance_to_miss(made, confidence)
    assert 0.1 * (1 - confidence) < chances.max() <= 1 - confidence


class NoTest(SegmentErrorBound):
    """A broken twin: it uses the threshold as bound, as if the test had no noise."""

    def half_width(self, confidence: float) -> Any:
        return np.full(len(self.draws), self.threshold - 1.0)


class Sure(SparseCounter):
    """A broken twin with such bounds."""

    def build_error_bound(self, *parts: Any) -> SegmentErrorBound:
        return NoTest(*vars(super().build_error_bound(*parts)).values())


def test_bounds_that_ignore_test_noise_are_caught() -> None:
    sure = Sure(Pure(2), horizon=64, threshold=8, signed=False)
    assert missed(sure, np.where(np.arange(TICKS) == 0, 8, 0), 0.9) > 0.1


@pytest.mark.parametrize("name", CLAIMS)
def test_bound_before_data_is_at_least_the_released_bound(name: str) -> None:
    made = claim(**CLAIMS[name])
    run = made.start(300, InsecureNoise(3))
    for tick in range(1, TICKS + 1):
        released = run.step(np.full(300, tick % 5))
        assert (released.error_bounds[0].half_width(0.9) <= made.error_bound(tick).half_width(0.9)).all()
        assert np.isnan(released.stddev).any() == released.error_bounds[0].is_waiting.any()


def test_release_without_noise_is_the_count_at_last_cut() -> None:
    run = claim(threshold=5).start(3, SilentNoise())
    values = np.array([[2, -3, 0], [2, -3, 5], [2, 0, 0], [1, 9, 4]])
    releases = run.feed(values)
    assert releases.value.tolist() == [[0, 0, 0], [0, -6, 5], [6, -6, 5], [6, 3, 5]]
    assert [bar.is_waiting.tolist() for bar in releases.error_bounds] == [
        [True, True, True],
        [True, False, False],
        [False, True, True],
        [True, False, True],
    ]


def test_negative_values_count_as_zero_if_counts_are_declared() -> None:
    run = claim(threshold=5, signed=False).start(1, SilentNoise())
    releases = run.feed(np.array([3, -100, 3]))
    assert releases.value.tolist() == [0, 0, 6]
    assert releases.centre.tolist() == [2.5, 2.5, 6]
    assert (np.array(releases.interval(0.99)) >= 0).all()


def test_any_value_is_accepted() -> None:
    extremes = np.array([[2**63 - 1], [-(2**63)], [2**62], [0]])
    for signed in (False, True):
        releases = claim(signed=signed).start(1).feed(np.tile(extremes, (8, 1)))
        assert np.isfinite(releases.value).all()


def test_number_of_draws_follows_from_the_releases() -> None:
    for values in (np.zeros((6, 4), int), np.tile([[0, 900, 0, 900]], (6, 1))):
        noise = CountedNoise(InsecureNoise(1))
        run = claim().start(4, noise)
        cuts = sum(int((~bar.is_waiting).sum()) for bar in run.feed(values).error_bounds)
        assert noise.total == 4 * 2 + 6 * 4 * 2 + cuts * 3


def test_silent_stream_is_cut_about_once_until_the_horizon() -> None:
    for made in (claim(horizon=250), claim(horizon=250, signed=False), claim(horizon=None)):
        width = 300
        run = made.start(width, InsecureNoise(7))
        run.feed(np.zeros((250, width), int))
        most = 1 if made.horizon else 8
        assert read_state(run).ended_segments.mean() < most + 6.5 * (most / width) ** 0.5


def test_without_a_horizon_the_threshold_grows_with_the_ticks() -> None:
    made = claim(horizon=None)
    thresholds = [made.threshold_at(tick) for tick in (1, 2, 3, 4, 1000, 1023, 1024)]
    assert thresholds == sorted(thresholds)
    assert thresholds[1] == thresholds[2] < thresholds[3] < thresholds[4] == thresholds[5] < thresholds[6]
    assert claim(horizon=1000).threshold_at(1) == claim(horizon=1000).threshold_at(1000)


def test_noise_grows_with_segments_and_not_with_ticks() -> None:
    made = claim(horizon=2**20, segments=8)
    assert (made.error_bound(2**20).half_width(0.9) > made.error_bound(10).half_width(0.9)).all()
    run = made.start(2000, InsecureNoise(4))
    run.step(np.full(2000, 10**6))
    first = read_state(run).released_sum - 10**6
    run.feed(np.zeros((60, 2000), int))
    rest = read_state(run).ended_segments == 1
    assert rest.mean() > 0.99
    assert (read_state(run).released_sum[rest] - 10**6 == first[rest]).all()


def test_trees_are_fitted_to_segments() -> None:
    for segments in (1, 7, 40, 300, 5000):
        best = fit_shape(segments)
        cost = best.levels**2 * best.mean_digit_sum(segments)
        others = [
            SegmentTreeShape(2, 1),
            SegmentTreeShape(2, segments.bit_length()),
            SegmentTreeShape(9, 3),
            SegmentTreeShape(16, 2),
        ]
        assert all(cost <= other.levels**2 * other.mean_digit_sum(segments) for other in others)
    counted = np.arange(1, 400)
    for shape in (SegmentTreeShape(2, 1), SegmentTreeShape(2, 4), SegmentTreeShape(7, 3)):
        digits = shape.digit_sums(counted)
        assert digits.mean() == pytest.approx(shape.mean_digit_sum(399))
        assert all(digits[:ended].max() <= shape.max_digit_sum(ended) for ended in (1, 5, 48, 49, 399))


def test_saved_run_continues_after_load() -> None:
    made, values = claim(threshold=3, segments=100), np.arange(30).reshape(10, 3) % 4
    noise = InsecureNoise(5)
    run = made.start(3, noise)
    run.feed(values[:5])
    again = made.load(run.save(), noise=noise.clone())
    assert (run.feed(values[5:]).value == again.feed(values[5:]).value).all()
    run.widen(2)
    assert run.step(np.zeros(5, int)).value.shape == (5,)


REFUSED = [
    ({"split": 1}, r"^split must be above 0 and below 1, got 1$"),
    ({"threshold": 0}, r"^threshold must be a whole number of at least 1, got 0$"),
    ({"threshold": 2**39}, r"^threshold must be at most 2\*\*38, got 549755813888$"),
    ({"segments": 0}, r"^segments must be a whole number of at least 1, got 0$"),
    (
        {"pan_private": True},
        r"^pan_private must be False for SparseCounter \(the sum of all ticks and that of the open",
    ),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_settings_that_make_no_claim_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        claim(**settings)


def test_other_losses_are_refused() -> None:
    with pytest.raises(ValueError, match="its private tests are proved for pure losses"):
        SparseCounter(Zcdp(1), horizon=9)
