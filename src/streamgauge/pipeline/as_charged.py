"""Releases as they were charged: what was pinned then decides, not what this version would make of the file.

loss         a `share` is of the budget as it was
spelling     SQL is compared as today's parser spells both, so that another parser changes no release; alerts
             without what goes without saying
mechanisms   those that were chosen then
names        of columns, as readers have them
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from streamgauge.pipeline.book import Book, base_name
from streamgauge.query.alerts import Alert, watched_of
from streamgauge.query.canonical import canonical
from streamgauge.query.planner import Planned, planned
from streamgauge.query.query import Query, Refused
from streamgauge.query.settings import PipelineFile, Release
from streamgauge.query.sql.spelling import respelled


def planned_as_charged(file: PipelineFile, release: Release, book: Book) -> Planned:
    """Plans a release; one that was charged, and says the same as then, as it was charged.

    So a version that spells, names or chooses otherwise goes on with it.
    """
    plan, charge = planned(file, as_charged(release, book)), charge_of(release.name, book)
    block = pinned_texts(book).get(f"release.{release.name}")
    if (
        not charge
        or block is None
        or all(changed_keys(told, plan.block) for told in (block, respelled_block(block, plan.query)))
    ):
        return plan
    again = planned(file, plan.release, charge.get("mechanisms", ()))
    return replace(again, block=block, query=renamed(again.query, columns_of(again, charge["layout"])))


def as_charged(release: Release, book: Book) -> Release:
    """A release whose share is the one that was charged has the loss that was charged: a budget that was
    raised since is for new releases."""
    entry = book.latest().get(release.name)
    if entry is None or release.share is None or release.share != entry.share:
        return release
    return replace(release, loss=entry.loss)


def respelled_block(block: str, query: Query) -> str:
    """A block of a release with its SQL in today's spelling, and alerts as this query has them."""
    told = json.loads(block)
    with suppress(Refused):  # of other measures: then what is pinned is something else anyway
        alerts = watched_of(query, [Alert.of_json(each) for each in told.get("alerts", ())])
        told |= {"alerts": [each.alert.as_json() for each in alerts]} if alerts else {}
    return canonical(told | {"sql": respelled(told.get("sql", ""))})


def columns_of(plan: Planned, layout: Mapping[str, Any]) -> Mapping[str, Any]:
    """A layout without the alerts, which come last and are no columns of the query."""
    measures = layout["measures"]
    return {**layout, "measures": measures[: len(measures) - len(plan.alerts)]}


def renamed(query: Query, layout: Mapping[str, Any]) -> Query:
    """A query whose columns are called as in a layout, if there are as many."""
    names, groups = layout["measures"], [name for name, _ in layout["groups"]]
    if (len(names), len(groups)) != (len(query.aggregates), len(query.groups)):
        return query
    return replace(
        query,
        aggregates=tuple(replace(a, name=name) for a, name in zip(query.aggregates, names, strict=True)),
        groups=tuple(replace(g, name=name) for g, name in zip(query.groups, groups, strict=True)),
        key=query.key and replace(query.key, name=layout.get("discovered", query.key.name)),
    )


def charge_of(name: str, book: Book) -> Mapping[str, Any]:
    """What was entered when a release of the file was last charged; nothing if it was not."""
    acts = [a for a in book.acts if a.kind == "charge" and base_name(a.body["release"]) == name]
    return plain(acts[-1].body) if acts else {}


def plain(value: Any) -> Any:
    """As it comes back from JSON."""
    return json.loads(json.dumps(value))


def pinned_texts(book: Book) -> dict[str, str]:
    """The blocks as they were last pinned."""
    return {act.body["block"]: act.body["text"] for act in book.acts if act.kind == "pin"}


def changed_keys(before: str, after: str) -> str:
    """Which keys of a block differ; of columns, which.

    >>> changed_keys('{"tick": 1, "columns": {"a": 1, "b": 2}}', '{"tick": 2, "columns": {"a": 1}}')
    'columns.b, tick'
    """
    old, new = _keys(json.loads(before)), _keys(json.loads(after))
    keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return ", ".join(keys)


def _keys(block: Mapping[str, Any]) -> dict[str, Any]:
    columns = {f"columns.{name}": column for name, column in block.get("columns", {}).items()}
    return {**{name: value for name, value in block.items() if name != "columns"}, **columns}
