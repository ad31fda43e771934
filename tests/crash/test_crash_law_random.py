"""The crash law, at random instants: a run that is killed dozens of times is one run."""

import random

import pytest

from tests.support.crash_readers import Watched

STEPS = 30  # about two commits with all their steps
LONGEST = 0.05  # seconds, about the duration of the longest step


def killed_at_random(run, kills, chance, down=0):
    """Start a run repeatedly and kill it at a random instant after a random step, before the next step."""
    for _ in range(kills):
        after = max(0, chance.randrange(-STEPS // 8, STEPS))
        run.child(after=after, wait=chance.random() ** 4 * LONGEST, down=chance.randrange(down + 1))
    assert run.kills == kills


KINDS = [("long batch", 30, True, 0), ("followed", 15, True, 2), ("followed users", 10, False, 2)]
SEEDS = {"long batch": range(20), "followed": range(16), "followed users": range(16)}


def is_one_run(kind, kills, noisy, down, seed):
    """Kill a run at random instants, finish it, and check the crash law."""
    chance = random.Random(seed)
    with Watched(kind, noisy=noisy) as run:
        killed_at_random(run, kills, chance, down)
        run.finish()
        for _ in range(5):  # also while it checks for remaining work
            run.child(after=1, wait=chance.random() * LONGEST)
        run.finish()
        run.whole()
        if not noisy:
            run.silent()


@pytest.mark.one_of_each
@pytest.mark.parametrize(("kind", "kills", "noisy", "down"), KINDS)
def test_run_killed_at_random_publishes_each_value_once(kind, kills, noisy, down):
    is_one_run(kind, kills, noisy, down, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "kills", "noisy", "down", "seed"), [(*kind, 100 + seed) for kind in KINDS for seed in SEEDS[kind[0]]]
)
def test_thousand_random_kills_neither_change_nor_lose_values(kind, kills, noisy, down, seed):
    is_one_run(kind, kills, noisy, down, seed)


def test_slow_test_has_one_thousand_kills():
    assert sum(kills * len(SEEDS[kind]) for kind, kills, _, _ in KINDS) == 1000
