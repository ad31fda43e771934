"""After any rollbacks, no event was in more draws than the ledger has charged.

A curator runs ticks, copies the store, restores copies, ends and begins releases, at random, and always sets
`--accept-rollback`. The test records every published value: two values for a tick are two draws. Each release
is of single ticks, so an event in a tick has lost epsilon for every draw of that tick.
"""

import json
import random
import shutil
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import pytest

from streamgauge import Pure
from streamgauge.privacy import BudgetExceededError
from streamgauge.runtime.session import SessionBuilder
from streamgauge.store.backup import backup, rotate
from streamgauge.store.errors import RollbackError
from streamgauge.store.keys import create_key, load_key
from streamgauge.store.rollback_guard import RollbackGuard
from streamgauge.store.store import COMMIT_STEPS
from tests.runtime.test_adhoc_endings import StoppingBuilder
from tests.support.codes import has_code
from tests.support.crash_readers import in_memory
from tests.support.pipelines import TICKS, one_a_second, pipeline, tables, write

EPSILON = Fraction(1, 10**6)  # noise so wide that two draws are never equal by chance
SALE = "SELECT g, SUM(x) FROM v GROUP BY g"
tmp_path = pytest.fixture(in_memory, name="tmp_path")


class Curator:
    """A folder with a pipeline, all copies of its store, and all published values."""

    def __init__(self, folder, **settings):
        self.folder, self.settings = folder, {"unit": "event", "budget": {"epsilon": 9}} | settings
        self.store = folder / "v.streamgauge"
        self.names, self.begun = ["r1"], 1
        self.copies, self.components = [], {}
        self.drawn = defaultdict(set)
        write(folder, one_a_second())

    @property
    def pipeline(self):
        releases = [{"name": name, "sql": SALE, "epsilon": str(EPSILON)} for name in self.names]
        return pipeline(self.folder, tables(*releases, sinks=[], **self.settings))

    @property
    def key(self):
        return load_key(self.settings.get("key", "file:v.key"), self.folder)

    def run(self, ticks=TICKS, **said):
        """Run for `ticks` more ticks, and stop."""
        running = self.pipeline.ticks(
            max_batch_ticks=1, **{"accept_rollback": True, "components": self.components, **said}
        )
        for count, released in enumerate(running, 1):
            for each in released:
                self.drawn[each.release, each.tick].add(each.pack())
            if count == ticks:
                break
        running.close()

    def copy(self):
        if self.store.exists():
            self.copies.append(self.folder / f"copy{len(self.copies)}")
            backup(self.store, self.copies[-1])

    def put_back(self, number):
        if self.copies:
            shutil.rmtree(self.store)
            shutil.copytree(self.copies[number % len(self.copies)], self.store)

    def edit(self, choice):
        """Remove a release from the file, or add another one; never use a name again."""
        if choice % 2 and len(self.names) > 1:
            self.names.pop(choice % len(self.names))
        else:
            self.begun += 1
            self.names.append(f"r{self.begun}")

    def draws(self, tick):
        return sum(len(values) for (_, at), values in self.drawn.items() if at == tick)

    def spent(self, tick):
        return self.pipeline.ledger().ledger.spent_loss(tick, tick).epsilon / EPSILON

    def overdrawn(self):
        """Return the ticks with more draws than the ledger has charged."""
        return [tick for tick in range(1, TICKS + 1) if self.draws(tick) > self.spent(tick)]


def lives(curator, seed, steps=10):
    """Run a random sequence of runs, copies, rollbacks and edits."""
    chance = random.Random(seed)
    deeds = (
        curator.copy,
        lambda: curator.put_back(chance.randrange(9)),
        lambda: curator.put_back(chance.randrange(9)),
        lambda: curator.edit(chance.randrange(9)),
    )
    for _ in range(steps):
        curator.run(chance.randint(1, 4))
        chance.choice(deeds)()
    curator.run()


@pytest.mark.one_of_each
@pytest.mark.parametrize("seed", range(6))
def test_no_event_is_in_more_draws_than_charged(tmp_path, seed):
    curator = Curator(tmp_path)
    lives(curator, seed)
    assert curator.overdrawn() == []


class Forgetful(RollbackGuard):
    """A twin of the rollback guard that reports no charges."""

    def charges(self):
        return ()


def cut_short(spent, tick):
    """A twin that caps every charge at the current tick."""
    return replace(spent, last=tick if spent.last is None else min(spent.last, tick))


TWINS = {"runtime.resources.RollbackGuard": Forgetful, "store.rollback_guard.RecordedCharge.cap_at_tick": cut_short}


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("seed", [1, 2])
def test_twin_that_forgets_charges_of_lost_history_is_caught(tmp_path, monkeypatch, name, seed):
    monkeypatch.setattr(f"streamgauge.{name}", TWINS[name])
    curator = Curator(tmp_path)
    lives(curator, seed)
    assert curator.overdrawn()


@pytest.fixture
def curator(tmp_path):
    """A store that was copied after three ticks, and then ran to the end."""
    curator = Curator(tmp_path)
    curator.run(3)
    curator.copy()
    curator.run()
    return curator


def test_same_copy_is_charged_at_each_rollback(curator):
    for times in range(1, 5):
        curator.put_back(0)
        curator.run()
        assert [curator.draws(tick) for tick in range(1, TICKS + 1)] == [1] * 3 + [times + 1] * 7
        assert [curator.spent(tick) for tick in range(1, TICKS + 1)] == [times + 1] * TICKS


def test_release_of_lost_store_is_charged_after_rollback(curator):
    curator.put_back(0)
    curator.run()
    curator.edit(0)
    curator.run()
    assert curator.spent(1) == 3
    curator.put_back(0)
    curator.names.pop()
    curator.run()
    assert curator.spent(1) == 4
    lost = [act.body for act in curator.pipeline.ledger().ledger_entries if act.kind == "lost_charge"]
    assert ("r2", 1, TICKS) in {(body["release"], body["first"], body["last"]) for body in lost}


@pytest.mark.parametrize("runs_on", [True, False])
def test_release_continued_in_lost_history_is_charged_for_later_ticks(tmp_path, runs_on):
    """The entry is there if the release could not drain here; else it is charged again for all new draws."""
    curator = Curator(tmp_path)
    curator.components = {} if runs_on else {SessionBuilder: StoppingBuilder}
    curator.names.append("r2")
    curator.run(2)
    curator.copy()
    curator.names.remove("r2")
    curator.run(2)
    curator.copy()
    curator.put_back(0)
    curator.names.append("r2")
    curator.run(6)
    curator.put_back(1)
    curator.names.remove("r2")
    curator.run()
    assert curator.overdrawn() == []
    lost = [act.body for act in curator.pipeline.ledger().ledger_entries if act.kind == "lost_charge"]
    found = {(body["release"], body["first"], body["last"]) for body in lost}
    assert runs_on or ("r2", 3, 8) in found


def test_rollback_above_budget_is_refused_without_charge(curator):
    curator.put_back(0)
    curator.settings["budget"] = {"epsilon": str(EPSILON)}
    before = curator.pipeline.ledger().ledger_entries
    with pytest.raises(BudgetExceededError):
        curator.run(change_budget=True)
    assert curator.pipeline.ledger().ledger_entries == before


def test_rotation_of_old_copy_is_refused(curator):
    old, new = curator.key, create_key(curator.folder / "new.key")
    curator.put_back(0)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        rotate(curator.store, old, new)


@pytest.mark.parametrize("named", ["v.key", "new.key"])
def test_copy_from_before_rotation_is_refused_under_either_key(curator, named):
    old, new = curator.key, create_key(curator.folder / "new.key")
    curator.copy()  # at the moment of the rotation
    rotate(curator.store, old, new)
    curator.settings["key"] = "file:new.key"
    curator.run(accept_rollback=False)
    for number in (0, 1):
        curator.put_back(number)
        curator.settings["key"] = "file:v.key"
        if named == "new.key":  # the old key could rotate a copy to the new key
            with pytest.raises(RollbackError, check=has_code("rollback")):
                rotate(curator.store, old, new)
        with pytest.raises(RollbackError, check=has_code("rollback")):
            curator.run(accept_rollback=False)


def without_its_guard(curator, how):
    guard = curator.folder / "v.key.guard"
    if how == "deleted":
        guard.unlink()
    elif how == "another's":
        (texts,) = json.loads(guard.read_text()).values()
        guard.write_text(json.dumps({"another store": texts | {"folder": "/elsewhere"}}))
    else:
        (curator.folder / "elsewhere").mkdir()
        shutil.copy(curator.folder / "v.key", curator.folder / "elsewhere")
        curator.settings["key"] = "file:elsewhere/v.key"


HOW = ["deleted", "another's", "the key was moved"]


@pytest.mark.parametrize("how", HOW)
def test_store_without_its_guard_is_refused_without_charge(curator, how):
    without_its_guard(curator, how)
    before = curator.pipeline.ledger().ledger_entries
    with pytest.raises(RollbackError, match="--trust-store; or run --accept-rollback"):
        curator.run(accept_rollback=False)
    assert curator.pipeline.ledger().ledger_entries == before
    with pytest.raises(RollbackError, check=has_code("guard_missing")):
        rotate(curator.store, curator.key, create_key(curator.folder / "k2"))


@pytest.mark.parametrize("how", HOW)
def test_trust_store_accepts_missing_guard_and_is_recorded_once(curator, how):
    without_its_guard(curator, how)
    for newest in (True, False):
        curator.run(accept_rollback=False, trust_store=newest)
    assert [act.kind for act in curator.pipeline.ledger().ledger_entries].count("trust_store") == 1
    assert curator.spent(1) == 1
    curator.put_back(0)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        curator.run(accept_rollback=False, trust_store=True)


def test_rollback_without_guard_charges_all_ticks(curator):
    curator.put_back(0)
    without_its_guard(curator, "deleted")
    curator.run()
    assert [curator.spent(tick) for tick in range(1, TICKS + 1)] == [2] * TICKS
    assert curator.pipeline.ledger().ledger.spent_loss() == Pure(2 * EPSILON)
    assert curator.overdrawn() == []


@pytest.fixture
def in_the_environment(curator, monkeypatch):
    """A curator with a store under a key from an environment variable."""
    new = create_key(curator.folder / "new.key")
    monkeypatch.setenv("V_KEY", new.secret.hex())
    rotate(curator.store, curator.key, load_key("env:V_KEY", curator.folder))
    curator.settings["key"] = "env:V_KEY"
    curator.run(accept_rollback=False)
    assert curator.spent(1) == 1
    return curator


def test_rollback_under_environment_key_is_refused_or_charged_each_time(in_the_environment):
    curator = in_the_environment
    curator.copy()
    curator.edit(0)
    curator.run(3)
    for times in range(1, 4):
        curator.put_back(1)
        with pytest.raises(RollbackError, check=has_code("rollback")):
            curator.run(accept_rollback=False)
        curator.run(3)
        assert curator.overdrawn() == []
        assert curator.spent(1) >= times


@pytest.mark.parametrize("step", [*COMMIT_STEPS, "never"])
def test_copy_from_before_rotation_is_charged_for_later_draws(curator, step):
    """This holds after a failure at any step of the rotation, and for a copy under the old key."""
    old, new = curator.key, create_key(curator.folder / "new.key")
    with suppress(ZeroDivisionError):
        rotate(curator.store, old, new, steps=lambda at: 1 // 0 if at == step else None)
    rotate(curator.store, old, new)
    curator.settings["key"] = "file:new.key"
    curator.edit(0)
    curator.run(accept_rollback=False)
    curator.put_back(0)
    curator.settings["key"] = "file:v.key"
    with pytest.raises(RollbackError, check=has_code("rollback")):
        curator.run(accept_rollback=False)
    curator.run()
    assert curator.overdrawn() == []


def test_budget_raised_in_same_start_covers_rollback(curator):
    curator.settings["budget"] = {"epsilon": str(EPSILON)}
    curator.run(change_budget=True)
    curator.copy()
    curator.edit(0)
    curator.settings["budget"] = {"epsilon": 1}
    curator.run(change_budget=True)
    curator.put_back(1)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        curator.run(accept_rollback=False, change_budget=True)
    curator.run(change_budget=True)
    assert curator.overdrawn() == []


def test_trust_store_with_accept_rollback_still_charges(curator):
    curator.put_back(0)
    without_its_guard(curator, "deleted")
    curator.run(trust_store=True)
    assert curator.spent(1) == 2


def test_readers_see_only_commits_known_to_guard(tmp_path, monkeypatch):
    reader = Curator(tmp_path)
    reader.run(3)
    monkeypatch.setattr(RollbackGuard, "write", fails)
    with pytest.raises(OSError, match="no room"):
        reader.run(1)
    assert [each.tick for each in reader.pipeline.releases("r1")] == [1, 2, 3]
    monkeypatch.undo()
    reader.run(1)
    assert [each.tick for each in reader.pipeline.releases("r1")] == [1, 2, 3, 4, 5]


def fails(self, *texts):
    if texts[0].tick > 3:
        raise OSError("no room")


def test_new_store_replacing_published_one_is_refused_or_charged(curator):
    shutil.rmtree(curator.store)
    with pytest.raises(RollbackError, match=r"another than the one that published up to tick 10: bring it back"):
        curator.run(accept_rollback=False)
    for accept_rollback in (True, False):
        curator.run(accept_rollback=accept_rollback)
        assert curator.overdrawn() == []
        assert [curator.spent(tick) for tick in (1, TICKS)] == [2, 2]


def test_restored_store_is_charged_for_store_that_replaced_it(curator):
    shutil.copytree(curator.store, curator.folder / "first")
    shutil.rmtree(curator.store)
    curator.run()
    shutil.rmtree(curator.store)
    shutil.copytree(curator.folder / "first", curator.store)
    curator.edit(0)
    with pytest.raises(RollbackError, check=has_code("store_replaced")):
        curator.run(accept_rollback=False)
    curator.run()
    assert curator.overdrawn() == []


def test_a_store_that_published_nothing_may_be_deleted(tmp_path):
    curator = Curator(tmp_path)
    with suppress(ZeroDivisionError):
        curator.run(step=lambda at: 1 // 0 if at == "noise_drawn" else None)
    shutil.rmtree(curator.store)
    curator.run(accept_rollback=False)
    assert curator.spent(1) == 1


def test_complete_release_is_not_charged_again(curator):
    curator.copy()
    curator.edit(0)
    curator.run()
    curator.put_back(1)
    curator.names.pop()
    curator.run()
    assert curator.overdrawn() == []
    assert curator.spent(1) == 2  # the release that is lost, and the one that was complete
