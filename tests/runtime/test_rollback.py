"""However copies of a store are put back, an event was never in more draws than the ledger says it paid for.

A curator runs some ticks, takes copies, puts them back, ends and begins releases, at random, and always says
`--accept-rollback`. Whatever is published is written down: two values for a tick are two draws. Each release is
of each tick by itself, so what an event in a tick has lost is epsilon for every draw of that tick.
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
    """A folder with a pipeline, what was ever copied of its store, and what was ever published."""

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
        """So many ticks more, as if stopped then."""
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
        """A release of the file is taken out, or another comes in; a name is never used again."""
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
        """Ticks of which the ledger does not know all draws."""
        return [tick for tick in range(1, TICKS + 1) if self.draws(tick) > self.spent(tick)]


def lives(curator, seed, steps=10):
    """One life of a store, at random."""
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
def test_an_event_was_never_in_more_draws_than_the_ledger_says(tmp_path, seed):
    curator = Curator(tmp_path)
    lives(curator, seed)
    assert curator.overdrawn() == []


class Forgetful(RollbackGuard):
    """A twin whose rollback guard does not tell what was charged."""

    def charges(self):
        return ()


def cut_short(spent, tick):
    """A twin that takes every charge for one of a release which ran until then."""
    return replace(spent, last=tick if spent.last is None else min(spent.last, tick))


TWINS = {"runtime.resources.RollbackGuard": Forgetful, "store.rollback_guard.RecordedCharge.cap_at_tick": cut_short}


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_twin_that_forgets_what_was_charged_elsewhere_is_caught(tmp_path, monkeypatch, name, seed):
    monkeypatch.setattr(f"streamgauge.{name}", TWINS[name])
    curator = Curator(tmp_path)
    lives(curator, seed)
    assert curator.overdrawn()


@pytest.fixture
def curator(tmp_path):
    """A store of three ticks was copied, and ran on to the end."""
    curator = Curator(tmp_path)
    curator.run(3)
    curator.copy()
    curator.run()
    return curator


def test_the_same_copy_is_paid_for_each_time_that_it_is_put_back(curator):
    for times in range(1, 5):
        curator.put_back(0)
        curator.run()
        assert [curator.draws(tick) for tick in range(1, TICKS + 1)] == [1] * 3 + [times + 1] * 7
        assert [curator.spent(tick) for tick in range(1, TICKS + 1)] == [times + 1] * TICKS


def test_a_release_that_only_the_lost_store_had_is_not_forgotten(curator):
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
def test_what_went_on_elsewhere_after_its_end_here_is_entered_for_the_ticks_after(tmp_path, runs_on):
    """Where it could not run on here; where it could, it is charged again for all that it draws anew."""
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


def test_the_budget_may_refuse_to_pay_and_then_nothing_is_charged(curator):
    curator.put_back(0)
    curator.settings["budget"] = {"epsilon": str(EPSILON)}
    before = curator.pipeline.ledger().ledger_entries
    with pytest.raises(BudgetExceededError):
        curator.run(change_budget=True)
    assert curator.pipeline.ledger().ledger_entries == before


def test_a_rotation_does_not_make_an_old_copy_the_newest(curator):
    old, new = curator.key, create_key(curator.folder / "new.key")
    curator.put_back(0)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        rotate(curator.store, old, new)


@pytest.mark.parametrize("named", ["v.key", "new.key"])
def test_after_a_rotation_every_earlier_copy_is_refused_under_either_key(curator, named):
    old, new = curator.key, create_key(curator.folder / "new.key")
    curator.copy()  # of the very moment of the rotation
    rotate(curator.store, old, new)
    curator.settings["key"] = "file:new.key"
    curator.run(accept_rollback=False)
    for number in (0, 1):
        curator.put_back(number)
        curator.settings["key"] = "file:v.key"
        if named == "new.key":  # who has the old key can put a copy under the new one, if he is let
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
def test_a_store_that_lost_its_guard_is_refused_and_nothing_is_charged(curator, how):
    without_its_guard(curator, how)
    before = curator.pipeline.ledger().ledger_entries
    with pytest.raises(RollbackError, match="--trust-store; or run --accept-rollback"):
        curator.run(accept_rollback=False)
    assert curator.pipeline.ledger().ledger_entries == before
    with pytest.raises(RollbackError, check=has_code("guard_missing")):
        rotate(curator.store, curator.key, create_key(curator.folder / "k2"))


@pytest.mark.parametrize("how", HOW)
def test_who_says_that_it_is_the_newest_goes_on_and_it_is_written_down_once(curator, how):
    without_its_guard(curator, how)
    for newest in (True, False):
        curator.run(accept_rollback=False, trust_store=newest)
    assert [act.kind for act in curator.pipeline.ledger().ledger_entries].count("trust_store") == 1
    assert curator.spent(1) == 1
    curator.put_back(0)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        curator.run(accept_rollback=False, trust_store=True)


def test_who_cannot_say_so_pays_for_all_ticks_there_are(curator):
    curator.put_back(0)
    without_its_guard(curator, "deleted")
    curator.run()
    assert [curator.spent(tick) for tick in range(1, TICKS + 1)] == [2] * TICKS
    assert curator.pipeline.ledger().ledger.spent_loss() == Pure(2 * EPSILON)
    assert curator.overdrawn() == []


@pytest.fixture
def in_the_environment(curator, monkeypatch):
    """A curator whose store was put under a key that is no file."""
    new = create_key(curator.folder / "new.key")
    monkeypatch.setenv("V_KEY", new.secret.hex())
    rotate(curator.store, curator.key, load_key("env:V_KEY", curator.folder))
    curator.settings["key"] = "env:V_KEY"
    curator.run(accept_rollback=False)
    assert curator.spent(1) == 1
    return curator


def test_under_a_key_that_is_no_file_copies_are_reported_too_and_paid_for_each_time(in_the_environment):
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
def test_a_copy_from_before_a_rotation_knows_what_came_after_it(curator, step):
    """However the rotation ended, and under whichever key it is run."""
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


def test_a_budget_that_is_raised_in_the_same_start_pays(curator):
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


def test_who_says_both_pays(curator):
    curator.put_back(0)
    without_its_guard(curator, "deleted")
    curator.run(trust_store=True)
    assert curator.spent(1) == 2


def test_readers_do_not_see_what_the_guard_does_not_know(tmp_path, monkeypatch):
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


def test_a_new_store_in_the_place_of_one_that_published_is_refused_or_takes_over_its_charges(curator):
    shutil.rmtree(curator.store)
    with pytest.raises(RollbackError, match=r"another than the one that published up to tick 10: bring it back"):
        curator.run(accept_rollback=False)
    for accept_rollback in (True, False):
        curator.run(accept_rollback=accept_rollback)
        assert curator.overdrawn() == []
        assert [curator.spent(tick) for tick in (1, TICKS)] == [2, 2]


def test_a_store_that_comes_back_pays_for_the_one_that_was_in_its_place(curator):
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


def test_a_release_of_which_nothing_is_left_to_draw_is_not_paid_for_again(curator):
    curator.copy()
    curator.edit(0)
    curator.run()
    curator.put_back(1)
    curator.names.pop()
    curator.run()
    assert curator.overdrawn() == []
    assert curator.spent(1) == 2  # the release that is lost, and the one that was complete
