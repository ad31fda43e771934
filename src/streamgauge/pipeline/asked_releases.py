"""Releases that analysts asked for: they are in no file, so they are in the book.

    asked -> planned -> charged, with who asked -> pinned -> restored on every later start, until it is ended

Promise
    A release that was asked for is charged before it draws, like any other, and goes on as it was charged:
    it is restored from the block that was pinned, by `run` and by `serve`, whatever the file says since. It
    ends when somebody ends it, and never because it is not in the file. Names are taken for ever.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from streamgauge.pipeline.as_charged import charge_of, pinned_texts
from streamgauge.pipeline.book import Book, Entry, base_name
from streamgauge.query.release_tables import release_of
from streamgauge.query.settings import PipelineFile, Release, Stream


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


def release_of_json(body: Mapping[str, Any], stream: Stream) -> Release:
    """A release that is asked for in JSON, by the rules and in the words of the file; raises BadFile."""
    return release_of(body, stream)


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
    settings = {key: Fraction(v) if isinstance(v, str) else v for key, v in told["settings"].items()}
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
    )


def names_of(file: PipelineFile) -> set[str]:
    """As they are compared: no two may differ in case only."""
    return {release.name.lower() for release in file.releases}


def name_refused(name: str, file: PipelineFile, book: Book) -> Iterator[str]:
    """Why a name cannot be asked for: another release has it, or had it."""
    if name.lower() in names_of(file) | {known.lower() for known in book.latest()}:
        yield f"release {name} must have a name of its own, got one that is taken"


def end_refused(name: str, book: Book) -> Iterator[str]:
    """Why a release cannot be ended but by an edit of the file."""
    entry = book.latest().get(name)
    if entry is None or entry.ended is not None:
        yield f"release {name} must be one that is open, got none of that name"
    elif entry.asked is None:
        yield f"release {name} must be one that was asked for, got one of the file: take it out there"
