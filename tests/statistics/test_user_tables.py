"""Tables of users in a pipeline: who shares a hash is counted, in the estimate, its error and the plan."""

from dataclasses import replace

import numpy as np
import pytest

from streamgauge.privacy import Pure
from streamgauge.statistics.user_table import COUNT_MEASURE, SHARE_MEASURE, UserTableStatistic
from streamgauge.testing.noise import InsecureNoise

CELLS, USERS = 2000, 1600
TABLES = {
    kind: UserTableStatistic(Pure(30), kind=kind, universe=CELLS, horizon=2, visits=times, hashed=True)
    for kind, times in (("density", 1), ("heavy_fraction", 2), ("cropped_mean", 2))
}
TIMES = np.arange(USERS) % 3 + 1
TRUTHS = {"density": USERS, "heavy_fraction": (TIMES > 1).sum(), "cropped_mean": np.minimum(TIMES, 2).sum()}


def off(table):
    """By how many of its standard errors a run's count is off."""
    run = table.counter.start(InsecureNoise(3))
    run.add(np.repeat(np.random.default_rng(9).integers(0, CELLS, USERS), TIMES))
    answer = table.build_columns([run.estimate()], 0.95)[COUNT_MEASURE]
    return abs(answer.value[0, 0] - TRUTHS[table.kind]) / answer.stddev[0, 0]


@pytest.mark.parametrize("kind", TABLES)
def test_users_who_share_a_hash_are_all_counted(kind):
    assert off(TABLES[kind]) < 7
    assert off(replace(TABLES[kind], hashed=False)) > 7, "one of each hash: a twin"


def test_a_plan_tells_the_error_at_as_many_users_as_can_come():
    table = TABLES["density"]
    plain = replace(table, hashed=False)
    assert (plain.describe_users(10.0), plain.stddev(SHARE_MEASURE, 10.0)) == ("at most, for any users", plain.stddev())
    assert (table.describe_users(), table.describe_users(500.0)) == ("at 2,000 users", "at 500 users")
    assert plain.stddev() < table.stddev(SHARE_MEASURE, 500.0) < table.stddev()
    assert table.stddev(COUNT_MEASURE, 500.0) == CELLS * table.counter.stddev(0.25)
    assert TABLES["cropped_mean"].describe_users(500.0) == "at 250 users who came 2 times or once"


def test_so_many_events_are_of_fewer_users_who_came_often():
    table = replace(TABLES["heavy_fraction"], visits=5)
    assert table.describe_users(500.0) == "at 100 users who came 5 times or once"
    assert table.stddev(COUNT_MEASURE, 500.0) == CELLS * table.counter.stddev(0.05)
    assert table.describe_users(5.0 * CELLS) == table.describe_users() == "at 2,000 users who came 5 times or once"
