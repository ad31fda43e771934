"""Tables of users in a pipeline: who shares a hash is counted, in the estimate, its error and the plan."""

from dataclasses import replace

import numpy as np
import pytest

from streamgauge.privacy import Pure
from streamgauge.statistics.user_table import COUNT, SHARE, UserTable
from streamgauge.testing import InsecureNoise

CELLS, USERS = 2000, 1600
TABLES = {
    kind: UserTable(Pure(30), kind=kind, universe=CELLS, horizon=2, times=times, hashed=True)
    for kind, times in (("density", 1), ("heavy_fraction", 2), ("cropped_mean", 2))
}
TIMES = np.arange(USERS) % 3 + 1
TRUTHS = {"density": USERS, "heavy_fraction": (TIMES > 1).sum(), "cropped_mean": np.minimum(TIMES, 2).sum()}


def off(table):
    """By how many of its standard errors a run's count is off."""
    run = table.counter.start(InsecureNoise(3))
    run.add(np.repeat(np.random.default_rng(9).integers(0, CELLS, USERS), TIMES))
    told = table.told([run.estimate()], 0.95)[COUNT]
    return abs(told.value[0, 0] - TRUTHS[table.kind]) / told.stddev[0, 0]


@pytest.mark.parametrize("kind", TABLES)
def test_users_who_share_a_hash_are_all_counted(kind):
    assert off(TABLES[kind]) < 7
    assert off(replace(TABLES[kind], hashed=False)) > 7, "one of each hash: a twin"


def test_a_plan_tells_the_error_at_as_many_users_as_can_come():
    table = TABLES["density"]
    plain = replace(table, hashed=False)
    assert (plain.told_of(10.0), plain.stddev(SHARE, 10.0)) == ("at most, whoever came", plain.stddev())
    assert (table.told_of(), table.told_of(500.0)) == ("at 2,000 users", "at 500 users")
    assert plain.stddev() < table.stddev(SHARE, 500.0) < table.stddev()
    assert table.stddev(COUNT, 500.0) == CELLS * table.counter.stddev(0.25)
    assert TABLES["cropped_mean"].told_of(500.0) == "at 250 users who came 2 times or once"


def test_so_many_events_are_of_fewer_users_who_came_often():
    table = replace(TABLES["heavy_fraction"], times=5)
    assert table.told_of(500.0) == "at 100 users who came 5 times or once"
    assert table.stddev(COUNT, 500.0) == CELLS * table.counter.stddev(0.05)
    assert table.told_of(5.0 * CELLS) == table.told_of() == "at 2,000 users who came 5 times or once"
