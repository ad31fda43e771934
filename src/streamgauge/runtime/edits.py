"""Differences between a pipeline file and its earlier runs.

the stream's time, tick, start, unit              fixed after the first charge, like its source
a column or public table that a release reads     fixed with the charge of the release, also once it has ended
any other column or public table                  may be added, declared again or removed; a ledger entry of its own
a changed release                                 refused: give it a new name; a `share` refers to the budget
                                                  at the time of the charge
an unchanged release                              continues with the mechanisms and names of its charge, even if
                                                  this version would choose others
a new release                                     charged from the next unopened tick; over a batch file from
                                                  the first
an ad hoc release                                 continues until it is ended: it is in no file
                                                  (`add_adhoc_releases`)
a removed release                                 ends; event-level budget returns for later ticks
the budget                                        a ledger entry of its own
sinks, titles, descriptions                       free

A charged release is planned from its pinned block, not from the choices of this version (`plan_as_charged`):

loss         a `share` refers to the budget at the time of the charge
spelling     both SQL texts are spelled by the installed parser, so another sqlglot version changes no release
mechanisms   those chosen at the time of the charge
names        of columns, as readers know them
columns      those that it read at its charge and no others, so a later column makes no name ambiguous

Privacy
    A declared value decides which events a group or a WHERE counts, and bounds decide the noise. So the declaration
    of a column is fixed as soon as a charged release reads it, also by WHERE, GROUP BY or the key of a public table.
    The columns of users and weights, and columns of reports, concern every release. An engine reads no column that
    no release reads, so other declarations have no effect on any sum. Edits follow from the files alone.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamgauge.config.canonical import to_canonical_json
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import PipelineFile, Release, Stream
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.privacy import Loss
from streamgauge.releases.schema import base_name
from streamgauge.runtime.ledger.log import ChargedRelease, LedgerLog, hash_block, loss_as_json
from streamgauge.runtime.plan.limits import find_input_refusal, reject_large_parts
from streamgauge.sql.query import Query


def plan_as_charged(file: PipelineFile, release: Release, ledger_log: LedgerLog) -> ReleasePlan:
    """Plan a release. An unchanged release that was charged is planned as charged.

    So a version that spells, names or chooses differently continues it.
    """
    release = restore_charged_loss(release, ledger_log)
    charge = find_charge_body(release.name, ledger_log)
    block = find_pinned_blocks(ledger_log).get(f"release.{release.name}")
    if not charge or block is None:
        return plan_release(file, release)
    limited = limit_columns(file, charge["reads"])
    try:
        plan = plan_release(limited, release)
    except InvalidReleaseError:  # it has another query now, for which `find_edits` has a better refusal
        return plan_release(file, release)
    if describe_changed_keys(respell_sql(block), plan.block):
        return plan
    again = plan_release(limited, plan.release, charge.get("mechanisms", ()))
    measures = charge["layout"]["measures"]  # alerts come last and are no columns of the query
    layout = {**charge["layout"], "measures": measures[: len(measures) - len(again.alerts)]}
    return replace(again, block=block, query=rename_columns(again.query, layout))


def limit_columns(file: PipelineFile, names: Collection[str]) -> PipelineFile:
    """Return the file with these columns of its stream, and those that concern every release."""
    stream = file.stream
    wanted = {*names, *stream.reports, stream.user}
    columns = {name: column for name, column in stream.columns.items() if name in wanted}
    return replace(file, stream=replace(stream, columns=columns))


def restore_charged_loss(release: Release, ledger_log: LedgerLog) -> Release:
    """Return the release with its charged loss, if its share is the charged one.

    A budget that was raised since then is for new releases.
    """
    entry = ledger_log.latest_releases().get(release.name)
    if entry is None or release.share is None or release.share != entry.share:
        return release
    return replace(release, loss=entry.declared_loss)


def respell_sql(block: str) -> str:
    """Return the block of a release with its SQL as the installed parser spells it."""
    from streamgauge.sql.reader import normalize_query

    body = json.loads(block)
    return to_canonical_json(body | {"sql": normalize_query(body.get("sql", ""))})


def rename_columns(query: Query, layout: Mapping[str, Any]) -> Query:
    """Return the query with the column names of a layout, if it has as many."""
    names, groups = layout["measures"], [name for name, _ in layout["groups"]]
    if (len(names), len(groups)) != (len(query.aggregates), len(query.groups)):
        return query
    return replace(
        query,
        aggregates=tuple(replace(a, name=name) for a, name in zip(query.aggregates, names, strict=True)),
        groups=tuple(replace(g, name=name) for g, name in zip(query.groups, groups, strict=True)),
        key=query.key and replace(query.key, name=layout.get("discovered", query.key.name)),
    )


def find_charge_body(name: str, ledger_log: LedgerLog) -> Mapping[str, Any]:
    """Return the last charge entry of a release of the file, or an empty mapping."""
    acts = [a for a in ledger_log.ledger_entries if a.kind == "charge" and base_name(a.body["release"]) == name]
    return normalize_json(acts[-1].body) if acts else {}


def normalize_json(value: Any) -> Any:
    """Return a value as it comes back from JSON."""
    return json.loads(json.dumps(value))


def find_pinned_blocks(ledger_log: LedgerLog) -> dict[str, str]:
    """Return the blocks as they were last pinned."""
    return {act.body["block"]: act.body["text"] for act in ledger_log.ledger_entries if act.kind == "pin"}


def describe_changed_keys(before: str, after: str) -> str:
    """Return the keys of a block that differ, with the names of changed columns.

    >>> describe_changed_keys('{"tick": 1, "columns": {"a": 1, "b": 2}}', '{"tick": 2, "columns": {"a": 1}}')
    'columns.b, tick'
    """
    return ", ".join(find_changed_keys(before, after))


def find_changed_keys(before: str, after: str) -> list[str]:
    """Return the keys of a block that differ, those of columns with the column's name."""
    old, new = _flatten_keys(json.loads(before)), _flatten_keys(json.loads(after))
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def _flatten_keys(block: Mapping[str, Any]) -> dict[str, Any]:
    columns = {f"columns.{name}": column for name, column in block.get("columns", {}).items()}
    return {**{name: value for name, value in block.items() if name != "columns"}, **columns}


FIXED_BLOCKS = ("stream", "source")
ALERTS_HINT = "alerts are columns that readers have; put them back, make others of what is published, for nothing"


@dataclass(frozen=True)
class Edits:
    """The difference between a file and the ledger."""

    new_releases: tuple[str, ...] = ()
    continued_releases: tuple[str, ...] = ()
    ended_releases: tuple[str, ...] = ()
    budget: tuple[Loss, Loss] | None = None  # before and after
    refusals: tuple[str, ...] = ()
    new_columns: tuple[str, ...] = ()
    changed_columns: tuple[str, ...] = ()
    removed_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """All columns whose declarations differ."""
        return sorted((*self.new_columns, *self.changed_columns, *self.removed_columns))


def find_edits(file: PipelineFile, planned: Sequence[ReleasePlan], ledger_log: LedgerLog) -> Edits:
    """Compare a file with the blocks that earlier runs used."""
    texts = find_pinned_blocks(ledger_log)
    plans = {each.name: each for each in planned}
    names = [release.name for release in file.releases]
    running = ledger_log.latest_releases()
    new = [name for name in names if name not in running]
    before, after = (
        json.loads(text)["columns"] for text in (texts.get("stream", file.blocks["stream"]), file.blocks["stream"])
    )
    refused = [
        *_find_stream_changes(file, texts, find_fixed_columns(file.stream, ledger_log)),
        *_find_lookup_changes(file, planned, texts),
        *_find_name_conflicts(file, running),
    ]
    if reason := find_input_refusal(file.stream, [plans[name] for name in new if name in plans]):
        refused.append(reason)
    for name in new:  # ad hoc releases are checked with their other limits
        if name in plans and plans[name].release.requested_by is None:
            refused += reject_large_parts(plans[name])
    continued = []
    for name in names:
        if name not in running or name not in plans:
            continue
        if running[name].end_tick is not None:
            refused.append(f"release {name} must have a name of its own, got that of one that has ended")
        elif keys := _find_changed_keys(plans[name], running[name].block, ledger_log):
            way = f"{ALERTS_HINT}, or give it a new name" if keys == "alerts" else "give it a new name"
            refused.append(f"release {name} must stay as it was charged, got another {keys}: {way}")
        else:
            continued.append(name)
    return Edits(
        new_releases=tuple(new),
        continued_releases=tuple(continued),
        ended_releases=tuple(n for n, entry in ledger_log.open_releases().items() if base_name(n) not in names),
        budget=_find_budget_change(file, ledger_log),
        refusals=tuple(refused),
        new_columns=tuple(sorted(after.keys() - before.keys())),
        changed_columns=tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
        removed_columns=tuple(sorted(before.keys() - after.keys())),
    )


def find_fixed_columns(stream: Stream, ledger_log: LedgerLog) -> dict[str, str]:
    """Return the columns whose declarations are fixed, and the reason for each."""
    entries = ledger_log.releases.values()
    found = {name: f"release {entry.name} reads it" for entry in entries for name in entry.reads}
    found |= dict.fromkeys(ledger_log.columns, "its reports are charged")
    return found | {
        name: words
        for name, words in ((stream.user, "it names the users"), (stream.weight, "it has the weights"))
        if name
    }


def _find_name_conflicts(file: PipelineFile, running: Mapping[str, ChargedRelease]) -> list[str]:
    """Return refusals of names that ad hoc releases have, in any case."""
    adhoc = {name.lower() for name, entry in running.items() if entry.requested_by is not None}
    own = [each.name for each in file.releases if each.requested_by is None and each.name.lower() in adhoc]
    rule, way = "must have a name of its own, got that of an ad hoc release", "rename it in the file"
    return [f"release {name} {rule}: {way}, names are taken for ever" for name in own]


def _find_changed_keys(plan: ReleasePlan, block: str, ledger_log: LedgerLog) -> str:
    """Return the keys of a release that differ from its charge."""
    if block != hash_block(plan.block):
        pinned = find_pinned_blocks(ledger_log).get(f"release.{plan.name}", "{}")
        return describe_changed_keys(respell_sql(pinned), plan.block)
    return "" if normalize_json(plan.layout) == find_charge_body(plan.name, ledger_log)["layout"] else "shape"


def _find_stream_changes(file: PipelineFile, texts: Mapping[str, str], fixed: Mapping[str, str]) -> list[str]:
    """Return a refusal if the stream differs in more than columns that nothing charged depends on."""
    keys = []
    for name in FIXED_BLOCKS:
        for key in find_changed_keys(texts.get(name, file.blocks[name]), file.blocks[name]):
            column = key.removeprefix("columns.")
            if key == column:
                keys.append(key)
            elif column in fixed:
                keys.append(f"{key} ({fixed[column]})")
    rule = f"stream must stay as it was at the first charge, got another {', '.join(keys)}"
    return [f"{rule}: put it back; a new pipeline over the same people is a second budget"] if keys else []


def _find_lookup_changes(file: PipelineFile, planned: Sequence[ReleasePlan], texts: Mapping[str, str]) -> list[str]:
    used = {name: file.blocks[f"lookup.{name}"] for each in planned for name in each.query.lookups}
    changed = [name for name, block in sorted(used.items()) if texts.get(f"lookup.{name}", block) != block]
    return [f"lookup {name} must stay as it was charged, got another table: give it a new name" for name in changed]


def _find_budget_change(file: PipelineFile, ledger_log: LedgerLog) -> tuple[Loss, Loss] | None:
    if ledger_log.ledger is None or loss_as_json(ledger_log.ledger.budget) == loss_as_json(file.stream.budget):
        return None
    return ledger_log.ledger.budget, file.stream.budget
