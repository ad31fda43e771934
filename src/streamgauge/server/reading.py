"""GET /api/releases and GET /api/releases/{name}: what has left, as it will always be.

Promise
    Nothing that has not left changes a byte of any answer, its headers and its status among them: all of
    it is made of the file, the request, and what a `Departed` tells.
"""

from contextlib import ExitStack
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streamgauge.pipeline.store_errors import NoStore
from streamgauge.pipeline.thresholds import Thresholds
from streamgauge.query.settings import ServerSettings
from streamgauge.query.shapes import Shape, text
from streamgauge.server import live
from streamgauge.server.asked_range import AskedRange
from streamgauge.server.departed import Departed
from streamgauge.server.download_forms import Form, build_form, load_arrow
from streamgauge.server.downloads import BlockReader, Download
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.etags import caching, etag_of, is_known, not_modified
from streamgauge.server.forms import TYPES, encoded, format_of
from streamgauge.server.kinds import Kinds
from streamgauge.server.limits import Limits
from streamgauge.server.listing import listed
from streamgauge.server.pages import Totals, count_rows, page_of
from streamgauge.server.read_worker import Lane, ReadWorker
from streamgauge.server.runner import Runner


def routes(
    runner: Runner,
    settings: ServerSettings | None = None,
    limits: Limits | None = None,
    worker: ReadWorker | None = None,
) -> list[Route]:
    own = settings or runner.file.server
    reading = Reading(runner, own, limits or Limits(own), worker or ReadWorker())
    return [
        Route("/api/releases", reading.all, name="releases"),
        Route("/api/releases/{name}", reading.one, name="release"),
    ]


class Reading:
    """Releases for readers, read by the worker: neither the event loop nor the run waits for it."""

    def __init__(self, runner: Runner, settings: ServerSettings, limits: Limits, worker: ReadWorker) -> None:
        self.runner, self.settings, self.kinds = runner, settings, Kinds(runner.file)
        self.thresholds = Thresholds(runner.file)
        self.limits, self.worker = limits, worker

    async def all(self, request: Request) -> Response:
        """Every release, and how far it is."""
        client = client_of(request)
        self.worker.check_queue(client, "pages")
        return await self.worker.run(client, partial(self._all, request))

    async def one(self, request: Request) -> Response:
        """The ticks of one release."""
        client, form = client_of(request), format_of(request)
        lane: Lane = "pages" if form == "json" else "downloads"
        self.worker.check_queue(client, lane)
        with ExitStack() as slot:
            if form != "json" and request.method != "HEAD":
                slot.enter_context(self.limits.download(client))
            if form == "arrow":
                await run_in_threadpool(load_arrow)  # seconds, for which no other read waits
            reply = await self.worker.run(client, partial(self._one, request, form), lane)
            if isinstance(reply, Download):
                reply.slot = slot.pop_all()
            return reply

    def _all(self, request: Request) -> Response:
        body = text(listed(self.runner, self.kinds, self.thresholds))
        headers = self._headers(etag_of("releases", body), closed=False)
        if is_known(request, headers["ETag"]):
            return not_modified(headers)
        return Response(body, headers=headers, media_type=TYPES["json"])

    def _one(self, request: Request, form: str) -> Response:
        try:
            with self.runner.board.reading() as reader:
                shape = self._shape(reader, request.path_params["name"])
                return self._answer(request, form, reader, shape)
        except NoStore:
            raise _unknown() from None

    def _answer(self, request: Request, form: str, reader: Departed, shape: Shape) -> Response:
        asked = AskedRange.of(request.query_params, shape)
        layout = asked.choose_shape(form)
        first, last = asked.within(reader.span(shape.release) or (1, 0))
        closed = asked.last is not None and asked.last == last
        chain = reader.chain_of(shape.release, last)
        etag = etag_of(shape.release, (first, last), chain, form, *_rest(asked))
        headers = self._headers(etag, closed=closed)
        if is_known(request, etag):
            return not_modified(headers)
        if form != "json":
            totals = count_rows(reader, shape, asked, first, last)
            written = build_form(form, layout, shape, asked.measures, totals.known)
            blocks = BlockReader(
                self.runner.board.readers,
                reader.shown,  # now: entries that leave during the download are not in it
                shape,
                written,
                requested=asked,
                span=(first, last),
            )
            headers |= count_headers(totals, written)
            return Download(blocks, self.worker, client_of(request), headers=headers, media_type=TYPES[form])
        page = page_of(reader, shape, asked)
        link = {"Link": f'<{page.next}>; rel="next"'} if page.next else {}
        return Response(encoded(page, layout), headers=headers | link, media_type=TYPES[form])

    def _shape(self, reader: Departed, name: str) -> Shape:
        try:
            return self.runner.board.readers.shapes.of(name, reader.acts())
        except KeyError:
            raise _unknown() from None

    def _headers(self, etag: str, *, closed: bool) -> dict[str, str]:
        caches = caching(self.settings, closed=closed)
        return {"ETag": etag, "Cache-Control": caches, "Vary": "Accept"}


def client_of(request: Request) -> str:
    """Return the name by which limits count the client."""
    return live.client_of(request, request.scope.get("person"))


def count_headers(totals: Totals, form: Form) -> dict[str, str]:
    """Return the headers by which a client can check that a download is whole."""
    rows = {} if totals.rows is None else {"Row-Count": str(totals.rows * form.rows_each)}
    return {"Tick-Count": str(totals.ticks), **rows}


def _unknown() -> HttpRefusal:
    return HttpRefusal(404, "not_found", "release must be one that was charged, got another")


def _rest(asked: AskedRange) -> tuple[Any, ...]:
    """What else an answer depends on; `format` is in the addresses of its pages."""
    groups = sorted((column, list(labels)) for column, labels in asked.groups.items())
    return asked.step, asked.limit, asked.shape, asked.place, asked.format, groups, asked.measures
