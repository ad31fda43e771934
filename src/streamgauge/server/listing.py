"""GET /api/releases as JSON: the stream, how the run is, and every release that was ever charged.

Everything is read off acts and entries that have left; declarations are those that were pinned with a charge,
titles and descriptions those of the file as it is now.
"""

import json
from collections.abc import Mapping
from math import prod
from typing import Any

from streamgauge.pipeline.as_charged import pinned_texts
from streamgauge.pipeline.book import Book, Entry, base_name, loss_as_json
from streamgauge.pipeline.clock import SECOND
from streamgauge.pipeline.store_errors import NoStore
from streamgauge.pipeline.thresholds import Thresholds
from streamgauge.pipeline.words import cost_text, unit_text
from streamgauge.query.mechanism_names import mechanisms
from streamgauge.query.promises import describe_contributions
from streamgauge.query.released import moment
from streamgauge.query.settings import Column, Stream
from streamgauge.query.windows import window_text
from streamgauge.server.asked_range import address_of
from streamgauge.server.departed import Departed
from streamgauge.server.kinds import Kinds
from streamgauge.server.rehearsal import shows_intruder
from streamgauge.server.runner import Runner
from streamgauge.server.shapes import charges_of

FEW = 50  # values that are listed


def listed(
    runner: Runner, kinds: Kinds | None = None, thresholds: Thresholds | None = None
) -> dict[str, Any]:
    """What `/api/releases` tells."""
    known, found = kinds or Kinds(runner.file), thresholds or Thresholds(runner.file)
    told = {
        "stream": stream_as_json(runner.file.stream),
        "state": runner.state,
        "intruder": shows_intruder(runner.file),
    }
    try:
        with runner.board.reading() as reader:
            releases = releases_as_json(runner, reader, known, found)
            return {**told, "shown": {"tick": reader.tick}, "demo": runner.demo, "releases": releases}
    except NoStore:
        return {**told, "shown": {"tick": 0}, "demo": runner.demo, "releases": []}


def stream_as_json(stream: Stream) -> dict[str, Any]:
    return {
        "name": stream.name,
        "tick": stream.tick / SECOND,
        "start": moment(stream.start),
        "end": None if stream.end is None else moment(stream.end),
        "ticks": stream.ticks,
        "unit": unit_text(stream.unit),
        "contributions": describe_contributions(stream) or None,
        "arrival": stream.arrival,
        "lateness": stream.lateness / SECOND,
        "mechanisms": list(mechanisms()),
        "columns": [_column_as_json(column) for column in stream.columns.values()],
    }


def _column_as_json(column: Column) -> dict[str, Any]:
    """What an analyst must know of a column: its values if there are few, or its bounds."""
    known = column.values if column.report is None else column.report.values
    values = None if known is None or len(known) > FEW else list(known)
    bounds = None if column.bounds is None else [float(bound) for bound in column.bounds]
    kind = column.kind if column.report is None else "report"
    return {"name": column.name, "kind": kind, "values": values, "bounds": bounds}


def releases_as_json(
    runner: Runner, reader: Departed, kinds: Kinds, thresholds: Thresholds
) -> list[dict[str, Any]]:
    acts = reader.acts()
    counts = describe_contributions(runner.file.stream) or None
    book, charges = runner.books(acts), charges_of(acts)
    texts = pinned_texts(book)
    return [
        {
            "name": name,
            **_words(runner, name, charges[name]),
            **_declared(json.loads(texts.get(f"release.{base_name(name)}", "{}")), runner.file.stream, kinds),
            **_charged(entry),
            **_shaped(charges[name]["layout"]),
            "mechanisms": _mechanisms(charges[name]),
            "contributions": counts,
            "threshold": _threshold(thresholds, name, reader.tick, book),
            "ticks": _ticks(reader.span(name)),
            "href": address_of(name),
        }
        for name, entry in book.entries.items()
    ]


def _words(runner: Runner, name: str, charge: Mapping[str, Any]) -> dict[str, str]:
    own = {release.name: release for release in runner.file.releases}.get(base_name(name))
    words = ("title", "description")
    return {word: charge.get(word, "") if own is None else getattr(own, word) for word in words}


def _declared(block: dict[str, Any], stream: Stream, kinds: Kinds) -> dict[str, Any]:
    sql = block.get("sql", "")
    return {
        "sql": sql,
        "kinds": kinds.of(sql) + ["alert"] * len(block.get("alerts", ())),
        "window": window_text(block.get("window", ""), stream.tick),
    }


def _charged(entry: Entry) -> dict[str, Any]:
    return {
        "loss": loss_as_json(entry.loss),
        "delta": str(entry.delta) if entry.delta else None,
        "loss_text": cost_text(entry.loss, entry.delta) + (" of a report" if entry.column else ""),
        "column": entry.column,
        "by": entry.asked,
        "first": entry.first,
        "last": entry.last,
        "ended": entry.ended,
    }


def _shaped(layout: Mapping[str, Any]) -> dict[str, Any]:
    """What a shape tells, without making its places."""
    found, levels = layout.get("discovered"), layout["levels"]
    columns, sizes = [name for name, _ in layout["groups"]], [len(labels) for _, labels in layout["groups"]]
    return {
        "groups": columns[: max(levels)] if found is None else [found],
        "places": sum(prod(sizes[:level]) for level in levels) if found is None else None,
        "measures": list(layout["measures"]),
        "discovered": found is not None,
    }


def _mechanisms(charge: Mapping[str, Any]) -> list[str]:
    """The names of those that were chosen, each once."""
    chosen = [choice["mechanism"] for choice in charge.get("mechanisms", ()) if choice]
    return list(dict.fromkeys(chosen))


def _threshold(thresholds: Thresholds, name: str, tick: int, book: Book) -> dict[str, Any] | None:
    """Return the noisy count that a group needs, if groups are discovered."""
    found = thresholds.find(name, tick, book)
    return None if found is None else found.as_json()


def _ticks(span: tuple[int, int] | None) -> dict[str, int] | None:
    return None if span is None else {"from": span[0], "to": span[1]}
