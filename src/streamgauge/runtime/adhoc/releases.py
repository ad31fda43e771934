"""Releases that analysts request. They are in no file, so they are in the ledger.

    requested -> planned -> charged, with the analyst -> pinned -> restored on every later start, until it is ended

Promise
    An ad hoc release is charged before it draws, like any other, and continues as it was charged. It is restored from
    the pinned block, by `run` and by `serve`, also if the file has changed. It ends on a command, and never
    because it is not in the file. Its name is never free again.

    The [server] table of the file bounds ad hoc releases by declarations alone: their memory, their work in a round,
    the groups of each, their number, and the number that one analyst ever requests. So no analyst can charge a
    release that cannot run, or make the ledger grow without end. Nor can they make rounds so long that the clock
    reveals events. Ended releases that still run count as open.

Ended releases still run, to exactly the tick that their end covers:

    end requested at a time -> the end is charged with its last tick -> still runs -> its state is removed

A tumbling release ends with the last period that is over by then. The open period has no row: its sums are removed.
Its ticks stay charged up to the end.

Privacy
    The progress of a run at some moment depends on its speed, and so on the data. A release that ended there would
    reveal it permanently. So its last tick follows from the clock and the time of the request. It is the last tick
    that has closed by then, or by the time at which readers learn of it. For a batch source, whose ticks have all
    passed, it is the last one of all. It is in the ledger before any later tick closes. A run that was killed in
    between continues to it after the next start.

    With pan_private = true the tick after it is open, and its events are in registers that may have been read. If a
    unit is in one tick only, that does not matter. Later charges begin after all ticks that were opened, so no unit of
    that tick is in another release. If a unit is in several ticks (w_event), a window can have that tick and one of a
    later release. So the release runs through that tick, which stays charged. So do its first tick, if it published
    none, and all ticks that were marked as open before the end, however late the run was by then or the clock is set
    now (`min_last_tick`).

    A release that cannot run on ends at once (at `min_last_tick`): the charged source is gone, or the release cannot be
    built, which follows from declarations. Its state is removed then, so an entry records that it never runs again
    (`force_end`). A curator forces the end of one by name if an engine fails with it, and states explicitly that
    readers may then see its progress. Any other failure (no memory, a failing disk) may be temporary: it fails the
    start, and nothing is removed.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from streamgauge.config.errors import PipelineFileError
from streamgauge.config.mapper import MapperSettings
from streamgauge.config.mechanism import parse_json_setting
from streamgauge.config.periods import Periods
from streamgauge.config.release import Alert, parse_release
from streamgauge.config.settings import PipelineFile, Release, Stream
from streamgauge.config.windows import split_windows
from streamgauge.plan.planner import ReleasePlan
from streamgauge.releases.schema import base_name
from streamgauge.runtime.edits import find_charge_body, find_pinned_blocks, plan_as_charged
from streamgauge.runtime.ledger.log import ChargedRelease, LedgerLog
from streamgauge.runtime.plan.limits import cpu_ms, memory_bytes, reject_large_parts
from streamgauge.runtime.ticks import closed_tick


@dataclass(frozen=True)
class AdHocRelease:
    """A release, its analyst, and their share of the budget. None is all of it."""

    release: Release
    requested_by: str
    share: Fraction | None = None

    @property
    def attributed_release(self) -> Release:
        """The release with its analyst."""
        return replace(self.release, requested_by=self.requested_by)


def parse_adhoc_release(
    body: Mapping[str, Any],
    stream: Stream,
    max_groups: int | None = None,
    mappers: Mapping[str, MapperSettings] | None = None,
) -> Release:
    """Parse a requested release from JSON, by the rules and keys of the file.

    Raises:
        PipelineFileError: if it breaks a rule.
    """
    release = parse_release(body, stream, mappers)
    if max_groups is None:
        return release
    if "max_groups" in body and release.max_groups > max_groups:
        rule = f"release.{release.name}.max_groups must be at most {max_groups}, as the file has it"
        raise PipelineFileError(f"{rule}, got {release.max_groups}")
    return replace(release, max_groups=min(release.max_groups, max_groups))


def add_adhoc_releases(file: PipelineFile, ledger_log: LedgerLog, *, ended: Collection[str] = ()) -> PipelineFile:
    """Return the file with all open ad hoc releases, except those that are ended now."""
    own = list_lowercase_names(file)
    found = [
        restore_release(entry, ledger_log)
        for name, entry in ledger_log.open_releases().items()
        if entry.requested_by is not None and base_name(name) not in ended and base_name(name).lower() not in own
    ]
    return replace(file, releases=(*file.releases, *found))


def restore_release(entry: ChargedRelease, ledger_log: LedgerLog) -> Release:
    """Return a release as it was requested."""
    name = base_name(entry.name)
    charge = find_charge_body(name, ledger_log)
    block = json.loads(find_pinned_blocks(ledger_log)[f"release.{name}"])
    texts = {key: charge.get(key, "") for key in ("title", "description")}
    window, shorter_windows = split_windows(block["window"])
    return Release(
        name=name,
        loss=entry.declared_loss,
        settings={key: parse_json_setting(value) for key, value in block["settings"].items()},
        delta=entry.delta or None,
        share=entry.share,
        requested_by=entry.requested_by,
        alerts=tuple(map(Alert.from_json, block.get("alerts", ()))),
        consistent=block.get("consistent", False),
        column=entry.column,
        mapper=MapperSettings.from_json(block["mapper"]) if "mapper" in block else None,
        window=window,
        shorter_windows=shorter_windows,
        partial=block.get("partial", False),
        **{key: block[key] for key in ("sql", "horizon", "mechanism", "max_groups")},
        **texts,
    )


def list_lowercase_names(file: PipelineFile) -> set[str]:
    """Return the names in lower case: no two may differ in case only."""
    return {release.name.lower() for release in file.releases}


def find_name_refusals(name: str, file: PipelineFile, ledger_log: LedgerLog) -> Iterator[str]:
    """Yield a refusal if another release has or had the name."""
    if name.lower() in list_lowercase_names(file) | {known.lower() for known in ledger_log.latest_releases()}:
        yield f"release {name} must have a name of its own, got one that is taken"


def find_source_refusals(stream: Stream) -> Iterator[str]:
    """Yield a refusal if the stream cannot be read again, and so accepts no request."""
    if stream.is_read_once:
        yield "source must be one that can be read again to accept a request, got standard input in batch mode"


def find_count_refusals(
    requested: Sequence[AdHocRelease], file: PipelineFile, ledger_log: LedgerLog, finished: Collection[str] = ()
) -> Iterator[str]:
    """Yield refusals of requests beyond the allowed numbers.

    The last ticks of `finished` releases are visible to readers, so these releases do not count as active.
    """
    limits, new = file.server, [each.requested_by for each in requested]
    entries = ledger_log.active_releases(finished).values()
    active = [*new, *(entry.requested_by for entry in entries if entry.requested_by is not None)]
    total = [*new, *(entry.requested_by for entry in ledger_log.latest_releases().values())]
    if len(active) > limits.adhoc_max_active:
        yield f"ad hoc releases must be at most {limits.adhoc_max_active} at a time, got {len(active)}"
    for analyst in sorted(set(new)):
        if (count := active.count(analyst)) > (most := limits.adhoc_max_active_per_analyst):
            yield f"releases of {analyst} must be at most {most} at a time, got {count}: end one"
        if (count := total.count(analyst)) > (most := limits.adhoc_max_total):
            rule = f"releases that {analyst} ever requests must be at most {most}, with ended ones"
            yield f"{rule}, got {count}: adhoc.max_total is the curator's to raise"


def find_capacity_refusals(
    plans: Sequence[ReleasePlan], file: PipelineFile, ledger_log: LedgerLog, finished: Collection[str] = ()
) -> Iterator[str]:
    """Yield refusals of releases with too many groups, or too much memory or work.

    Memory and work are added to those of the active releases.
    """
    limits, active = file.server, ledger_log.active_releases(finished).values()
    for plan in plans:
        width = max(part.max_groups if part.measure.key else part.width for part in plan.parts)
        if width > (most := limits.adhoc_max_groups):
            yield f"groups of release {plan.name} must be at most {most}, as the file has it, got {width}"
        yield from reject_large_parts(plan)
    size = sum(entry.memory_bytes for entry in active) + sum(map(memory_bytes, plans))
    if size > limits.adhoc_max_memory:
        rule = f"ad hoc releases must need at most {limits.adhoc_max_memory} bytes in all"
        yield f"{rule}, got {size}: take fewer groups, or a shorter window or horizon"
    work, most = sum(entry.cpu_ms for entry in active) + sum(map(cpu_ms, plans)), limits.adhoc_max_cpu_ms
    if work > most:
        rule = f"ad hoc releases must take at most {most} units of work in all (adhoc.max_cpu_ms)"
        yield f"{rule}, got {work}: request fewer aggregates, or end a release"


def find_end_refusals(name: str, ledger_log: LedgerLog, *, force: bool = False) -> Iterator[str]:
    """Yield refusals to end a release by command.

    A release of the file ends only by an edit. With `force`, an ended release that still runs is accepted.
    """
    entry = ledger_log.latest_releases().get(name)
    if entry is None or (entry.end_tick is not None and not (force and entry.is_draining)):
        yield f"release {name} must be one that is open, got none of that name"
    elif entry.requested_by is None:
        yield f"release {name} must be an ad hoc one, got one of the file: delete it there"


@dataclass
class DrainingReleases:
    """Ended releases that can still run, at one start.

    `build` may refer to the whole state, so this object keeps that state alive.
    """

    last_released: Callable[[str], int]  # last committed tick of a release
    build: Callable[[ChargedRelease], object]  # raises ValueError for reasons that follow from declarations
    is_source_missing: bool  # True if the charged source is gone
    force_ended: Collection[str]  # names that a curator ends by force
    buildable: dict[str, bool] = field(default_factory=dict)  # by release: True if it can be built

    def is_complete(self, entry: ChargedRelease) -> bool:
        """Return whether a release has no tick left to draw."""
        return entry.final_tick is not None and max(self.last_released(entry.name), entry.first - 1) >= entry.final_tick

    def find_incomplete(self, entries: Mapping[str, ChargedRelease]) -> dict[str, ChargedRelease]:
        """Return the ended releases that have ticks left, runnable or not."""
        return {name: entry for name, entry in entries.items() if entry.is_draining and not self.is_complete(entry)}

    def can_drain(self, entry: ChargedRelease) -> bool:
        """Return whether the charged source exists and the charged release can be built."""
        if self.is_source_missing or base_name(entry.name) in self.force_ended:
            return False
        if entry.name not in self.buildable:
            try:
                self.build(entry)
            except ValueError:
                self.buildable[entry.name] = False
            else:
                self.buildable[entry.name] = True
        return self.buildable[entry.name]


def count_open_at_end(stream: Stream) -> int:
    """Return the number of ticks after the last closed one that an end leaves charged."""
    return int(stream.pan_private and stream.unit.frees_unused_ticks and stream.unit.ticks > 1)


def min_last_tick(stream: Stream, entry: ChargedRelease, released: int, opened_tick: int) -> int:
    """Return the least last tick of a release that ends.

    All ticks that it published or has in registers stay charged. `opened_tick` is the last tick that an event may have
    been counted in.
    """
    if not count_open_at_end(stream):
        return released
    least = max(released + 1, entry.first, opened_tick)
    return least if entry.last is None else min(least, entry.last)


def compute_last_tick(stream: Stream, entry: ChargedRelease, moment: int, released: int, opened_tick: int) -> int:
    """Return the last tick of a release that ends at a time, by the clock.

    It is never before `min_last_tick`.
    """
    if stream.mode == "batch":
        passed = stream.ticks or 0
    else:
        by_clock = closed_tick(stream, moment) + count_open_at_end(stream)
        passed = max(by_clock, min_last_tick(stream, entry, released, opened_tick))
    return passed if entry.last is None else min(passed, entry.last)


def find_last_row_tick(stream: Stream, entry: ChargedRelease, ledger_log: LedgerLog, last: int) -> int | None:
    """Return the last row of a tumbling release that ends at tick `last`; None for others, with rows at all ticks.

    The period that is open then has no row.
    """
    block = json.loads(find_pinned_blocks(ledger_log)[f"release.{base_name(entry.name)}"])
    window = block["window"]
    periods = Periods.from_window(window, stream) if isinstance(window, str) else None
    if periods is None or block.get("partial") or (entry.last is not None and last >= entry.last):
        return None
    return max(entry.first, periods.find_first_tick(last + 1)) - 1


def plan_ended_release(file: PipelineFile, entry: ChargedRelease, ledger_log: LedgerLog) -> ReleasePlan:
    """Plan a release as it was charged, in the file or not.

    The tables that it reads must be in the file, unchanged.
    """
    plan = plan_as_charged(file, restore_release(entry, ledger_log), ledger_log)
    texts = find_pinned_blocks(ledger_log)
    for name in (f"lookup.{each}" for each in plan.query.lookups):
        if texts.get(name) != file.blocks.get(name):
            raise ValueError(f"{name} must stay as it was charged, got another table")
    return plan
