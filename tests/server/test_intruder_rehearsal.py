"""The rehearsal of an intrusion: what the intruder may think is exact, and within the promise."""

from dataclasses import replace
from math import e

import numpy as np
import pytest

from streamgauge.server.rehearsal import rehearsed, watched

TIMES = 400_000  # so that a bias of 0.016 is ten standard errors and more


def odds_of(blocks, scale):
    return np.exp(sum(block.log_odds(scale) for block in blocks))


def is_exact(odds):
    """Odds against what is true have a mean of 1, if they are the quotient of the two laws."""
    return abs(odds.mean() - 1) < 6.5 * odds.std() / np.sqrt(len(odds))


@pytest.fixture(scope="module")
def absent():
    return watched(np.zeros(TIMES, bool))


def test_odds_are_the_quotient_of_the_two_laws(absent):
    assert is_exact(odds_of(*absent))
    assert is_exact(1 / odds_of(*watched(np.ones(TIMES, bool))))


def test_odds_that_forget_a_draw_of_noise_are_caught(absent):
    blocks, scale = absent
    assert not is_exact(odds_of([replace(block, draws=1) for block in blocks], scale))


def test_no_rehearsal_moves_the_odds_by_more_than_the_promise(absent):
    odds = odds_of(*absent)
    assert 1 / e <= odds.min() <= odds.max() <= e
    assert odds.max() > 2


def test_noise_that_is_too_small_breaks_the_promise(absent):
    blocks, scale = absent
    assert odds_of(blocks, scale / 2).max() > e


def test_ordinary_memory_tells_and_pan_private_memory_does_not():
    told = rehearsed(20)
    assert told["plain"]["chance"] == 1
    assert told["plain"]["seen"] == told["plain"]["without"] + 1
    low, high = told["bounds"]["chance"]
    assert all(low <= chance <= high for chance in told["rehearsals"]["chance"])
    assert [block["released"] for block in told["pan_private"]["blocks"]] == [True, True, False, False]
