"""Releases that analysts asked for: they are in no file, so they are in the book.

    asked -> planned -> charged, with who asked -> pinned -> restored on every later start, until it is ended

Promise
    A release that was asked for is charged before it draws, like any other, and goes on as it was charged:
    it is restored from the block that was pinned, by `run` and by `serve`, whatever the file says since. It
    ends when somebody ends it, and never because it is not in the file. Names are taken for ever.

    What all of them keep in memory and add to the work of a round, how many groups each has, how many there
    are, and how many one analyst ever asks for, is bounded by the file's [server] table, by declarations
    alone: so no analyst can charge what cannot be run, nor make the book grow for ever, nor rounds so long
    that the clock tells what came. Those that were ended and run on count as open ones.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from streamgauge.pipeline.as_charged import charge_of, pinned_texts
from streamgauge.pipeline.book import Book, Entry, base_name
from streamgauge.pipeline.room import kept_bytes, reject_large_parts
from streamgauge.pipeline.work import work_of
from streamgauge.query.alerts import Alert
from streamgauge.query.formats import STANDARD
from streamgauge.query.mechanism_names import setting_of_json
from streamgauge.query.planner import Planned
from streamgauge.query.release_tables import release_of
from streamgauge.query.settings import PipelineFile, Release, Stream
from streamgauge.query.toml_keys import BadFile


class AskRefused(ValueError):  # noqa: N818 - refusals are named by what they say
    """A release that cannot be asked for, or ended: why follows from declarations and the ledger alone."""


@dataclass(frozen=True)
class AskedRelease:
    """A release, who asks for it, and which share of the budget is theirs: all of it, if none is said."""

    release: Release
    by: str
    share: Fraction | None = None

    @property
    def signed(self) -> Release:
        """The release, with who asked."""
        return replace(self.release, asked=self.by)


def release_of_json(body: Mapping[str, Any], stream: Stream, most_groups: int | None = None) -> Release:
    """A release that is asked for in JSON, by the rules and in the words of the file; raises BadFile."""
    release = release_of(body, stream)
    if most_groups is None:
        return release
    if "max_groups" in body and release.max_groups > most_groups:
        rule = f"release.{release.name}.max_groups must be at most {most_groups}, as the file has it"
        raise BadFile(f"{rule}, got {release.max_groups}")
    return replace(release, max_groups=min(release.max_groups, most_groups))


def with_asked(file: PipelineFile, book: Book, *, ended: Collection[str] = ()) -> PipelineFile:
    """The file with all releases that were asked for and are open; not those that are ended now."""
    own = names_of(file)
    found = [
        restored(entry, book)
        for name, entry in book.open_releases().items()
        if entry.asked is not None and base_name(name) not in ended and base_name(name).lower() not in own
    ]
    return replace(file, releases=(*file.releases, *found))


def restored(entry: Entry, book: Book) -> Release:
    """A release as it was asked for."""
    name = base_name(entry.name)
    told, charge = json.loads(pinned_texts(book)[f"release.{name}"]), charge_of(name, book)
    settings = {key: setting_of_json(value) for key, value in told["settings"].items()}
    return Release(
        name=name,
        sql=told["sql"],
        loss=entry.loss,
        window=told["window"],
        horizon=told["horizon"],
        mechanism=told["mechanism"],
        settings=settings,
        max_groups=told["max_groups"],
        delta=entry.delta or None,
        share=entry.share,
        title=charge.get("title", ""),
        description=charge.get("description", ""),
        asked=entry.asked,
        alerts=tuple(map(Alert.of_json, told.get("alerts", ()))),
        column=entry.column,
    )


def names_of(file: PipelineFile) -> set[str]:
    """As they are compared: no two may differ in case only."""
    return {release.name.lower() for release in file.releases}


def name_refused(name: str, file: PipelineFile, book: Book) -> Iterator[str]:
    """Why a name cannot be asked for: another release has it, or had it."""
    if name.lower() in names_of(file) | {known.lower() for known in book.latest()}:
        yield f"release {name} must have a name of its own, got one that is taken"


def never_asked(stream: Stream) -> Iterator[str]:
    """Why a stream takes no release while it runs: what was read of it is gone."""
    if stream.source == STANDARD and stream.arrival == "finished":
        yield "source must be one that can be read again to be asked, got a standard input that is finished"


def many_refused(
    asked: Sequence[AskedRelease], file: PipelineFile, book: Book, over: Collection[str] = ()
) -> Iterator[str]:
    """Why nobody, or not these, can ask for any more; readers have seen all of those that are `over`."""
    new, most, own = [each.by for each in asked], file.server.max_asked, file.server.max_asked_per_analyst
    owners = [*new, *(each.asked for each in book.at_work(over).values() if each.asked is not None)]
    ever, all_by = file.server.max_asks_per_analyst, [*new, *(e.asked for e in book.latest().values())]
    if len(owners) > most:
        yield f"releases that were asked for must be at most {most} at a time, got {len(owners)}"
    for by in sorted(set(new)):
        if owners.count(by) > own:
            yield f"releases of {by} must be at most {own} at a time, got {owners.count(by)}: end one"
        if all_by.count(by) > ever:
            rule = f"releases that {by} ever asks for must be at most {ever}, ended ones too"
            yield f"{rule}, got {all_by.count(by)}: max_asks_per_analyst is the curator's to raise"


def room_refused(
    plans: Sequence[Planned], file: PipelineFile, book: Book, over: Collection[str] = ()
) -> Iterator[str]:
    """Why releases that are asked for are too wide, or take too much beside those that are open."""
    most, at_work = file.server.max_groups, book.at_work(over).values()
    for plan in plans:
        width = max(part.groups if part.measure.key else part.width for part in plan.parts)
        if width > most:
            yield f"groups of release {plan.name} must be at most {most}, as the file has it, got {width}"
        yield from reject_large_parts(plan)
    room, kept = file.server.max_asked_memory, sum(entry.keeps for entry in at_work)
    if (keeps := kept + sum(map(kept_bytes, plans))) > room:
        rule = f"releases that are asked for must keep at most {room} bytes in all"
        yield f"{rule}, got {keeps}: take fewer groups, or a shorter window or horizon"
    work, worked = file.server.max_asked_work, sum(entry.works for entry in at_work)
    if (works := worked + sum(map(work_of, plans))) > work:
        rule = f"releases that are asked for must take at most {work} units of work in all (max_asked_work)"
        yield f"{rule}, got {works}: ask for fewer aggregates, or end a release"


def end_refused(name: str, book: Book, *, cut: bool = False) -> Iterator[str]:
    """Why a release cannot be ended but by an edit of the file; one that runs on can still be cut."""
    entry = book.latest().get(name)
    if entry is None or (entry.ended is not None and not (cut and entry.runs_on)):
        yield f"release {name} must be one that is open, got none of that name"
    elif entry.asked is None:
        yield f"release {name} must be one that was asked for, got one of the file: take it out there"
