"""GET /api/releases and GET /api/releases/{name}: published releases.

The listing has the stream, the state of the run, and every release ever charged. It comes from published ledger
entries. Declarations are those pinned with a charge; titles and descriptions are those of the current file. The
kind of a measure says whether its ticks add up.

**Promise.** Unpublished commits change no byte of a reply, nor its headers or status. Replies depend on the
file, the request and a `PublishedReader` only.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, partial
from math import prod
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streamgauge.clock import MICROSECONDS_PER_SECOND
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import find_mechanisms
from streamgauge.config.periods import Periods
from streamgauge.config.settings import Column, PipelineFile, ServerSettings, Stream
from streamgauge.config.stream import describe_contributions
from streamgauge.config.windows import format_window
from streamgauge.releases.release import format_utc_time
from streamgauge.releases.schema import ReleaseSchema, base_name, to_json
from streamgauge.runtime.edits import find_pinned_blocks
from streamgauge.runtime.format import cost_text, unit_text
from streamgauge.runtime.ledger.log import ChargedRelease, loss_as_json
from streamgauge.runtime.ledger.thresholds import Thresholds
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.read_worker import Lane, ReadWorker
from streamgauge.server.publishing.reader import PublishedReader, find_charges
from streamgauge.server.routes.download_formats import build_format, load_arrow
from streamgauge.server.routes.downloads import BlockReader, DownloadResponse
from streamgauge.server.routes.intrusions import is_rehearsal_visible
from streamgauge.server.routes.live import identify_client
from streamgauge.server.routes.release_pages import MEDIA_TYPES, choose_format, count_rows, encode_page, read_page
from streamgauge.server.routes.release_query import (
    ReleaseQuery,
    build_cache_control,
    build_release_path,
    compute_etag,
    is_cached,
)
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning
from streamgauge.sql import parse
from streamgauge.store.errors import StoreNotFoundError

KindFinder = Callable[[str], list[str]]  # of an SQL text


def find_kinds(file: PipelineFile, sql: str) -> list[str]:
    """Return the kinds in the order of measures; empty if the dialect does not know the SQL any more."""
    try:
        return [aggregate.kind for aggregate in parse(sql, file.stream, file.lookups).aggregates]
    except InvalidReleaseError:
        return []


MAX_LISTED_VALUES = 50  # values that are listed


def build_listing(
    runner: Runner, kinds: KindFinder | None = None, thresholds: Thresholds | None = None
) -> dict[str, Any]:
    """Return the reply of GET /api/releases."""
    known, found = kinds or partial(find_kinds, runner.file), thresholds or Thresholds(runner.file)
    content = {
        "stream": stream_as_json(runner.file.stream),
        "state": runner.state,
        "intruder": is_rehearsal_visible(runner.file),
    }
    try:
        with runner.event_buffer.open_reader() as reader:
            releases = releases_as_json(runner, reader, known, found)
            return {**content, "published_until": {"tick": reader.tick}, "demo": runner.demo, "releases": releases}
    except StoreNotFoundError:
        return {**content, "published_until": {"tick": 0}, "demo": runner.demo, "releases": []}


def stream_as_json(stream: Stream) -> dict[str, Any]:
    return {
        "name": stream.name,
        "tick": stream.tick / MICROSECONDS_PER_SECOND,
        "start": format_utc_time(stream.start),
        "end": None if stream.end is None else format_utc_time(stream.end),
        "ticks": stream.ticks,
        "unit": unit_text(stream.unit),
        "contributions": describe_contributions(stream) or None,
        "mode": stream.mode,
        "allowed_lateness": stream.allowed_lateness / MICROSECONDS_PER_SECOND,
        "mechanisms": list(find_mechanisms()),
        "columns": [_column_as_json(column) for column in stream.columns.values()],
    }


def _column_as_json(column: Column) -> dict[str, Any]:
    """Return the values of a column if they are few, or its bounds."""
    known = column.values if column.report is None else column.report.values
    values = None if known is None or len(known) > MAX_LISTED_VALUES else list(known)
    bounds = None if column.bounds is None else [float(bound) for bound in column.bounds]
    kind = column.kind if column.report is None else "report"
    found = {"name": column.name, "kind": kind, "values": values, "bounds": bounds}
    return found | ({"discovered": True} if column.max_groups is not None else {})


def releases_as_json(
    runner: Runner, reader: PublishedReader, kinds: KindFinder, thresholds: Thresholds
) -> list[dict[str, Any]]:
    acts = reader.ledger_entries()
    counts = describe_contributions(runner.file.stream) or None
    ledger_log, charges = runner.ledger_cache(acts), find_charges(acts)
    pinned, declared = find_pinned_blocks(ledger_log), {release.name: release for release in runner.file.releases}
    found = []
    for name, entry in ledger_log.releases.items():
        charge, own = charges[name], declared.get(base_name(name))
        chosen = [choice["mechanism"] for choice in charge.get("mechanisms", ()) if choice]
        block = json.loads(pinned.get(f"release.{base_name(name)}", "{}"))
        threshold, span = thresholds.find(name, reader.tick, ledger_log), reader.find_span(name)
        texts = {key: charge.get(key, "") if own is None else getattr(own, key) for key in ("title", "description")}
        found.append(
            {
                "name": name,
                **texts,
                **_declaration_as_json(block, runner.file.stream, kinds),
                **_charge_as_json(entry),
                **_layout_as_json(charge["layout"]),
                "mechanisms": list(dict.fromkeys(chosen)),
                "contributions": counts,
                "threshold": None if threshold is None else threshold.to_json(),
                "ticks": None if span is None else {"from": span[0], "to": span[1]},
                "href": build_release_path(name),
            }
        )
    return found


def _declaration_as_json(block: dict[str, Any], stream: Stream, kinds: KindFinder) -> dict[str, Any]:
    sql, window = block.get("sql", ""), block.get("window", "")
    columns = 1 if isinstance(window, str) else len(window)  # of each aggregate
    return {
        "sql": sql,
        "kinds": [kind for kind in kinds(sql) for _ in range(columns)] + ["alert"] * len(block.get("alerts", ())),
        "window": format_window(window, stream.tick),
        "row_ticks": 1 if block.get("partial") else find_row_ticks(window, stream),
    }


def find_row_ticks(window: str | list[str], stream: Stream) -> int:
    """Return the usual number of ticks from one row of a release to the next."""
    periods = Periods.from_window(window, stream) if isinstance(window, str) else None
    return 1 if periods is None else periods.nominal_ticks


def _charge_as_json(entry: ChargedRelease) -> dict[str, Any]:
    return {
        "loss": loss_as_json(entry.loss),
        "delta": str(entry.delta) if entry.delta else None,
        "loss_text": cost_text(entry.loss, entry.delta) + (" of a report" if entry.column else ""),
        "column": entry.column,
        "requested_by": entry.requested_by,
        "first_tick": entry.first,
        "last_tick": entry.last,
        "end_tick": entry.end_tick,
    }


def _layout_as_json(layout: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layout of a release, without building its groups."""
    found, ranked, levels = layout.get("discovered"), layout.get("ranked"), layout["levels"]
    columns, sizes = [name for name, _ in layout["groups"]], [len(labels) for _, labels in layout["groups"]]
    return {
        "groups": columns[: max(levels)] if found is None else [found],
        "places": None if found else ranked["places"] if ranked else sum(prod(sizes[:level]) for level in levels),
        "ranking": ranked,
        "measures": list(layout["measures"]),
        "consistent": list(layout.get("consistent", ())),
        "discovered": found is not None,
    }


class ReleaseRoutes:
    """Routes of releases. The worker thread reads, so neither event loop nor run waits."""

    block_reader = BlockReader

    def __init__(
        self, runner: Runner, settings: ServerSettings, limits: Limits, worker: ReadWorker, tuning: Tuning | None = None
    ) -> None:
        self.runner, self.settings, self.kinds = runner, settings, cache(partial(find_kinds, runner.file))
        self.thresholds = Thresholds(runner.file)
        self.limits, self.worker, self.tuning = limits, worker, tuning or runner.tuning

    def routes(self) -> list[Route]:
        return [
            Route("/api/releases", self.read_releases, name="releases"),
            Route("/api/releases/{name}", self.read_release, name="release"),
        ]

    async def read_releases(self, request: Request) -> Response:
        """GET /api/releases"""
        client = identify_client(request)
        self.worker.check_queue(client, "pages")
        return await self.worker.run(client, partial(self._build_listing, request))

    async def read_release(self, request: Request) -> Response:
        """GET /api/releases/{name}"""
        client, form = identify_client(request), choose_format(request)
        lane: Lane = "pages" if form == "json" else "downloads"
        self.worker.check_queue(client, lane)
        with ExitStack() as slot:
            if form != "json" and request.method != "HEAD":
                slot.enter_context(self.limits.admit_download(client))
            await self.prepare_format(form)
            reply = await self.worker.run(client, partial(self._build_release, request, form), lane)
            if isinstance(reply, DownloadResponse):
                reply.slot = slot.pop_all()
            return reply

    async def prepare_format(self, form: str) -> None:
        """Import the packages of a format, which takes seconds for which no other read waits."""
        if form == "arrow":
            await run_in_threadpool(load_arrow)

    def _build_listing(self, request: Request) -> Response:
        body = to_json(build_listing(self.runner, self.kinds, self.thresholds))
        headers = self._build_headers(compute_etag("releases", body), closed=False)
        if is_cached(request, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=MEDIA_TYPES["json"])

    def _build_release(self, request: Request, form: str) -> Response:
        try:
            with self.runner.event_buffer.open_reader() as reader:
                try:
                    schemas, name = self.runner.event_buffer.readers.schemas, request.path_params["name"]
                    shape = schemas.find_schema(name, reader.ledger_entries())
                except KeyError:
                    raise _build_unknown_error() from None
                return self._build_reply(request, form, reader, shape)
        except StoreNotFoundError:
            raise _build_unknown_error() from None

    def _build_reply(self, request: Request, form: str, reader: PublishedReader, shape: ReleaseSchema) -> Response:
        query = ReleaseQuery.from_params(request.query_params, shape)
        layout = query.choose_shape(form)
        first, last = query.clip(reader.find_span(shape.release) or (1, 0))
        closed = query.last is not None and query.last == last
        chain = reader.find_release_chain(shape.release, last)
        etag = compute_etag(shape.release, (first, last), chain, form, *_list_etag_parts(query))
        headers = self._build_headers(etag, closed=closed)
        if is_cached(request, etag):
            return Response(status_code=304, headers=headers)
        if form != "json":
            totals = count_rows(reader, shape, query, first, last)
            written = build_format(form, layout, shape, query.measures, totals.counts)
            blocks = self.block_reader(
                self.runner.event_buffer.readers,
                reader.last_visible_entry,  # now: later commits are not part of the download
                shape,
                written,
                requested=query,
                span=(first, last),
                tuning=self.tuning,
            )
            rows = {} if totals.rows is None else {"Row-Count": str(totals.rows * written.rows_each)}
            headers |= {"Tick-Count": str(totals.ticks), **rows}  # a client can check that a download is complete
            return DownloadResponse(
                blocks, self.worker, identify_client(request), headers=headers, media_type=MEDIA_TYPES[form]
            )
        page = read_page(reader, shape, query, self.tuning)
        link = {"Link": f'<{page.next}>; rel="next"'} if page.next else {}
        return Response(encode_page(page, layout), headers=headers | link, media_type=MEDIA_TYPES[form])

    def _build_headers(self, etag: str, *, closed: bool) -> dict[str, str]:
        caches = build_cache_control(self.settings, closed=closed)
        return {"ETag": etag, "Cache-Control": caches, "Vary": "Accept"}


def _build_unknown_error() -> HttpError:
    return HttpError(404, "not_found", "release must be one that was charged, got another")


def _list_etag_parts(query: ReleaseQuery) -> tuple[Any, ...]:
    """Return what else a reply depends on; `format` is in the addresses of its pages."""
    groups = sorted((column, list(labels)) for column, labels in query.groups.items())
    return query.step, query.limit, query.shape, query.place, query.format, groups, query.measures
