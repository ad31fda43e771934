"""Edits of columns after the first charge: free where no charged release reads them, refused elsewhere."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import Pure
from streamgauge.runtime import edits
from streamgauge.runtime.adhoc.releases import AdHocRelease
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.session import RunRefusedError
from tests.support import edited
from tests.support.edited import EXACT, USERS, charged, live_until, refusal
from tests.support.pipelines import (
    COUNTS,
    Tables,
    lines,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
    write,
)

folder, once, ran = edited.folder, edited.once, edited.ran

Edit = Callable[[dict[str, Any]], Any]
SUM = {"name": "sums", "sql": "SELECT SUM(x) FROM v", "epsilon": "1/4"}
FREE: dict[str, Edit] = {
    "new": lambda columns: columns.update(y={"bounds": [0, 1]}),
    "bounds": lambda columns: columns["x"].update(bounds=[0, 20]),
    "grid": lambda columns: columns["x"].pop("grid"),
    "values": lambda columns: columns.update(x={"values": [1, 2, 3]}),
    "hash_cells": lambda columns: columns.update(x={"hash_cells": 64}),
    "removed": lambda columns: columns.pop("x"),
}
FIXED: dict[str, Edit] = {
    "new value": lambda columns: columns["g"]["values"].append("c"),
    "fewer values": lambda columns: columns["g"]["values"].pop(),
    "order": lambda columns: columns["g"]["values"].reverse(),
    "other": lambda columns: columns["g"].update(other=True),
    "kind": lambda columns: columns.update(g={"hash_cells": 64}),
    "removed": lambda columns: columns.pop("g"),
}
READERS = {
    "selected": "SELECT SUM(x) FROM v",
    "where": "SELECT COUNT(*) FROM v WHERE x > 3",
    "case": "SELECT COUNT(CASE WHEN x > 3 THEN 1 END) FROM v",
    "group": "SELECT COUNT(*) FROM v GROUP BY CASE WHEN x > 3 THEN 'high' ELSE 'low' END",
    "rollup": "SELECT x > 3 AS high, g, COUNT(*) FROM v GROUP BY ROLLUP (high, g)",
    "median": "SELECT MEDIAN(x) FROM v",
}


def edit(made: Tables, change: Edit, *releases: Tables) -> Tables:
    """The file with other columns and more releases."""
    found = deepcopy(made)
    change(found["stream"]["columns"])
    found["release"] += [{"window": "each", **each} for each in releases]
    return found


@pytest.mark.parametrize("name", FREE)
def test_columns_that_no_charged_release_reads_are_free(ran: Path, name: str) -> None:
    made = edit(tables(), FREE[name])
    plan = pipeline(ran, made).plan()
    assert (plan.refusals, plan.edits.continued_releases) == ((), ("counts",))
    assert "no charged release reads it" in str(plan)
    column = "y" if name == "new" else "x"
    assert plan.edits.columns == [column]
    before = pipeline(ran, made).ledger().ledger_entries
    run(pipeline(ran, made))
    (act,) = pipeline(ran, made).ledger().ledger_entries[len(before) :]
    assert (act.kind, act.body["block"], act.body["columns"]) == ("pin", "stream", [column])
    assert published(pipeline(ran, made)) == EXACT
    assert str(run(pipeline(ran, made))) == "nothing was left to publish"
    assert "columns" not in str(pipeline(ran, made).plan())


@pytest.mark.parametrize("name", FIXED)
def test_columns_that_a_charged_release_reads_are_fixed(ran: Path, name: str) -> None:
    changed = {**tables()["stream"]["columns"], "z": {"type": "text"}}
    made = edit(tables(columns=changed), FIXED[name])
    assert "got another columns.g (release counts reads it): put it back" in refusal(ran, made)


@pytest.mark.parametrize("sql", READERS.values(), ids=READERS)
def test_every_way_of_reading_fixes_a_column(tmp_path: Path, sql: str) -> None:
    """The charge alone decides, so nothing has to run."""
    made = tables({"name": "r", "sql": sql, "epsilon": "1/4"})
    file = parse_pipeline(made, tmp_path / "v.toml")
    log = LedgerLog(file.stream.unit)
    log.declare_budget(Pure(1))
    log.charge("r", plan_release(file, file.releases[0]), 1)
    log.pin({"stream": file.blocks["stream"], "release.r": plan_release(file, file.releases[0]).block})
    for name, change in FREE.items():
        if name == "new":
            continue
        other = parse_pipeline(edit(made, change) | {"release": tables()["release"]}, tmp_path / "v.toml")
        (text,) = edits.find_edits(other, [plan_release(other, other.releases[0])], log).refusals
        assert "columns.x (release r reads it)" in text, name


def test_new_release_reads_what_an_edit_declares(ran: Path) -> None:
    made = edit(tables(), lambda columns: columns["x"].update(bounds=[0, 5]), SUM)
    run(pipeline(ran, made))
    assert sum(sum(row) for row in published(pipeline(ran, made), "sums")) == sum(min(s % 11, 5) for s in range(100))
    assert published(pipeline(ran, made)) == EXACT
    assert "columns.x (release sums reads it)" in refusal(ran, edit(made, lambda columns: columns.pop("x")))


def test_column_of_an_ended_release_stays_fixed(folder: Path) -> None:
    charged(folder, tables({"name": "counts", "sql": COUNTS}, SUM))
    run(pipeline(folder, tables()))  # sums ends
    assert "columns.x (release sums reads it)" in refusal(folder, edit(tables(), FREE["bounds"]))
    run(pipeline(folder, edit(tables(), FREE["new"])))


def test_column_of_an_adhoc_release_is_fixed(tmp_path: Path) -> None:
    live_until(tmp_path, tables(live=True), 22)
    made = parse_pipeline(tables(live=True), tmp_path / "v.toml")
    (release,) = parse_pipeline(tables(SUM, live=True), tmp_path / "v.toml").releases
    live_until(tmp_path, tables(live=True), 52, at=22, adhoc_releases=[AdHocRelease(release, "ana")])
    other = edit(tables(live=True), FREE["bounds"])
    assert "columns.x (release sums reads it)" in pipeline(tmp_path, other).plan().refusals[0]
    assert made.blocks["stream"] != pipeline(tmp_path, other).file.blocks["stream"]
    more = edit(tables(live=True), FREE["new"])
    again = live_until(tmp_path, more, 120, at=52)
    assert ticks_of(again, "sums") == list(range(ticks_of(again, "sums")[0], 12))


def test_the_users_column_stays_as_it_was(folder: Path) -> None:
    charged(folder, tables(unit=USERS))
    made = edit(tables(unit=USERS), lambda columns: columns.update(u={"hash_cells": 64}))
    assert "columns.u (it names the users)" in refusal(folder, made)
    run(pipeline(folder, edit(tables(unit=USERS), FREE["new"])))


def test_the_column_of_weights_stays_as_it_was(folder: Path) -> None:
    columns = {**tables()["stream"]["columns"], "w": {"values": [-1, 1]}}
    weighted = tables(columns=columns, weight="w")
    charged(folder, weighted)
    made = edit(weighted, lambda columns: columns.update(w={"values": [1, -1]}))
    assert "columns.w (" in refusal(folder, made)


def with_sites(folder: Path, made: Tables, name: str = "sites", on: str = "g", column: str = "floor") -> Tables:
    keys = "ab" if on == "g" else "01"
    (folder / f"{name}.csv").write_text(f"{on},{column}\n{keys[0]},1st\n{keys[1]},2nd\n")
    return made | {"lookup": {**made.get("lookup", {}), name: {"file": f"{name}.csv", "on": on}}}


FLOORS = "SELECT floor, COUNT(*) FROM v JOIN sites USING (g) GROUP BY floor"


def test_new_lookup_joins_a_new_column(ran: Path) -> None:
    made = edit(tables(), lambda columns: columns.update(u={"values": ["u0", "u1"]}))
    (ran / "who.csv").write_text("u,team\nu0,red\nu1,blue\n")
    made["lookup"] = {"who": {"file": "who.csv", "on": "u"}}
    sql = "SELECT team, COUNT(*) FROM v JOIN who USING (u) GROUP BY team"
    made["release"].append({"name": "teams", "sql": sql, "epsilon": "1/2", "window": "each"})
    run(pipeline(ran, made))
    assert sum(sum(row) for row in published(pipeline(ran, made), "teams")) == sum(s % 3 < 2 for s in range(100))
    assert published(pipeline(ran, made)) == EXACT


def test_key_of_a_joined_table_is_fixed(folder: Path) -> None:
    made = with_sites(folder, tables({"name": "floors", "sql": FLOORS}))
    charged(folder, made)
    assert "columns.g (release floors reads it)" in refusal(folder, edit(made, FIXED["new value"]))


def test_new_column_of_the_same_name_changes_no_charged_query(folder: Path) -> None:
    """`floor` is a column of the table at the charge. A column of the stream would make the name ambiguous."""
    made = with_sites(folder, tables({"name": "floors", "sql": FLOORS}))
    charged(folder, made)
    before = published(pipeline(folder, made), "floors")
    other = edit(made, lambda columns: columns.update(floor={"values": ["1st", "2nd"]}))
    plan = pipeline(folder, other).plan()
    assert (plan.refusals, plan.edits.continued_releases, plan.edits.new_columns) == ((), ("floors",), ("floor",))
    run(pipeline(folder, other))
    assert published(pipeline(folder, other), "floors") == before


def test_a_new_column_must_be_in_the_header(tmp_path: Path) -> None:
    rows = "".join(f"{1_767_571_200 + s},{'ab'[s % 2]},{s % 11}\n" for s in range(100))
    (tmp_path / "v.csv").write_text(f"ts,g,x\n{rows}")
    charged(tmp_path, tables(source="v.csv"))
    assert "without y" in refusal(tmp_path, edit(tables(source="v.csv"), FREE["new"]))
    run(pipeline(tmp_path, edit(tables(source="v.csv"), FREE["removed"])))


def test_live_folder_needs_a_new_column_in_its_last_file(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "1.csv").write_text("ts,g,x\n1767571201,a,1\n")
    live = {"source": "inbox", "format": "csv", "live": True}
    run_for(tmp_path, tables(**live), 22)
    made = edit(tables(**live), FREE["new"])
    assert "without y" in pipeline(tmp_path, made).plan().refusals[0]
    with pytest.raises(RunRefusedError, match="without y"):
        run_for(tmp_path, made, 30, at=22)
    (inbox / "2.csv").write_text("ts,g,x,y\n")
    assert pipeline(tmp_path, made).plan().refusals == ()
    made["release"].append({"name": "ys", "sql": "SELECT SUM(y) FROM v", "epsilon": "1/2", "window": "each"})
    again = run_for(tmp_path, made, 120, at=22, late=(75, inbox / "2.csv", "1767571275,a,1,1\n"))
    assert ticks_of(again) == list(range(1, 12))
    assert sum(sum(row) for row in published(again, "ys")) == 1


def run_for(folder: Path, made: Tables, second: float, at: float = 0, late: Any = ()) -> Any:
    """Run a live file up to a second; `late` is a line, its file, and the second at which it is written."""
    clock, stop = world(folder, at=at), Flag()
    clock.acts[second] = stop.set
    if late:
        moment, path, line = late
        clock.acts[moment] = lambda: path.write_text(path.read_text() + line) and None
    run(pipeline(folder, made), clock=clock, stop=stop)
    return pipeline(folder, made)


def test_live_feed_gets_a_new_field(tmp_path: Path) -> None:
    live_until(tmp_path, tables(live=True), 52)
    made = edit(tables(live=True), lambda columns: columns.update(u={"values": ["u0", "u1", "u2"]}))
    sql = "SELECT u, COUNT(*) FROM v GROUP BY u"
    made["release"].append({"name": "users", "sql": sql, "epsilon": "1/2", "window": "each"})
    again = live_until(tmp_path, made, 120, at=52)
    assert (ticks_of(again), published(again)[6:]) == (list(range(1, 12)), [[5.0, 5.0]] * 5)
    assert ticks_of(again, "users") == list(range(8, 12))  # from the first tick that was not open
    assert all(sum(row) == 10 for row in published(again, "users"))


def test_killed_edit_is_made_by_the_next_run(folder: Path) -> None:
    """Wherever a run is killed, the next one leaves the store that no kill would have left."""
    charged(folder, tables())
    made = edit(tables(), FREE["bounds"], SUM)
    reached: list[str] = []

    class KilledError(Exception):
        pass

    def kill_at(number: int) -> Callable[[str], None]:
        count = iter(range(10**6))

        def step(name: str) -> None:
            if next(count) == number:
                reached.append(name)
                raise KilledError

        return step

    for number in range(0, 60, 2):
        try:
            run(pipeline(folder, made), step=kill_at(number))
        except KilledError:
            continue
        break
    run(pipeline(folder, made))
    kinds = [(act.kind, act.body.get("columns")) for act in pipeline(folder, made).ledger().ledger_entries]
    assert kinds.count(("pin", ["x"])) == 1
    assert len({*reached}) >= 3
    assert published(pipeline(folder, made)) == EXACT
    assert len(lines(folder / "out.jsonl")) == 20 + 10


def test_edit_leaves_the_same_ledger_for_neighbours(tmp_path: Path) -> None:
    """An edit, its plan and its ledger entry follow from the files, whatever the events are."""
    found = []
    for name, events in (("one", one_a_second()), ("other", one_a_second()[:-1])):
        own = tmp_path / name
        own.mkdir()
        write(own, events)
        charged(own, tables())
        made = edit(tables(), FREE["values"], {"name": "n", "sql": COUNTS, "epsilon": "1/4"})
        plan = str(pipeline(own, made).plan())
        run(pipeline(own, made))
        found.append((plan, [(act.kind, dict(act.body)) for act in pipeline(own, made).ledger().ledger_entries]))
    assert found[0] == found[1]


def test_twin_that_forgets_where_clauses_is_caught(folder: Path) -> None:
    """A broken twin: its charge leaves out the columns of WHERE, so new bounds change what a release counts."""
    made = tables({"name": "counts", "sql": "SELECT g, COUNT(*) FROM v WHERE x > 3 GROUP BY g"})
    charged(folder, made)
    other = pipeline(folder, edit(made, FREE["values"]))
    log = other.ledger()
    assert edits.find_edits(other.file, [], log).refusals != ()
    log.releases["counts"] = replace(log.releases["counts"], reads=("g",))
    assert edits.find_edits(other.file, [], log).refusals == ()
