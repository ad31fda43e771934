"""GET /api/releases and GET /api/releases/{name}: what has left, as it will always be.

Promise
    Nothing that has not left changes a byte of any answer, its headers and its status among them: all of
    it is made of the file, the request, and what a `Departed` tells.
"""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streamgauge.pipeline.store_errors import NoStore
from streamgauge.pipeline.thresholds import Thresholds
from streamgauge.query.settings import ServerSettings
from streamgauge.query.shapes import Shape, text
from streamgauge.server.asked_range import AskedRange
from streamgauge.server.departed import Departed
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.etags import caching, etag_of, is_known, not_modified
from streamgauge.server.forms import TYPES, encoded, format_of
from streamgauge.server.kinds import Kinds
from streamgauge.server.listing import listed
from streamgauge.server.pages import page_of
from streamgauge.server.runner import Runner


def routes(runner: Runner, settings: ServerSettings | None = None) -> list[Route]:
    reading = Reading(runner, settings or runner.file.server)
    return [
        Route("/api/releases", reading.all, name="releases"),
        Route("/api/releases/{name}", reading.one, name="release"),
    ]


class Reading:
    """What readers read, in a thread of the pool: the event loop does not wait for the disk."""

    def __init__(self, runner: Runner, settings: ServerSettings) -> None:
        self.runner, self.settings, self.kinds = runner, settings, Kinds(runner.file)
        self.thresholds = Thresholds(runner.file)

    async def all(self, request: Request) -> Response:
        """Every release, and how far it is."""
        return await run_in_threadpool(self._all, request)

    async def one(self, request: Request) -> Response:
        """The ticks of one release."""
        return await run_in_threadpool(self._one, request)

    def _all(self, request: Request) -> Response:
        body = text(listed(self.runner, self.kinds, self.thresholds))
        headers = self._headers(etag_of("releases", body), closed=False)
        if is_known(request, headers["ETag"]):
            return not_modified(headers)
        return Response(body, headers=headers, media_type=TYPES["json"])

    def _one(self, request: Request) -> Response:
        try:
            with self.runner.board.reading() as reader:
                return self._answer(request, reader, self._shape(reader, request.path_params["name"]))
        except NoStore:
            raise _unknown() from None

    def _answer(self, request: Request, reader: Departed, shape: Shape) -> Response:
        asked = AskedRange.of(request.query_params, shape)
        form = format_of(request, asked)
        _, last = span = asked.within(reader.span(shape.release) or (1, 0))
        closed = asked.last is not None and asked.last == last
        chain = reader.chain_of(shape.release, last)
        etag = etag_of(shape.release, span, chain, form, *_rest(asked))
        headers = self._headers(etag, closed=closed)
        if is_known(request, etag):
            return not_modified(headers)
        page = page_of(reader, shape, asked)
        link = {"Link": f'<{page.next}>; rel="next"'} if page.next else {}
        body = encoded(page, form, asked.shape)
        return Response(body, headers=headers | link, media_type=TYPES[form])

    def _shape(self, reader: Departed, name: str) -> Shape:
        try:
            return self.runner.board.readers.shapes.of(name, reader.acts())
        except KeyError:
            raise _unknown() from None

    def _headers(self, etag: str, *, closed: bool) -> dict[str, str]:
        caches = caching(self.settings, closed=closed)
        return {"ETag": etag, "Cache-Control": caches, "Vary": "Accept"}


def _unknown() -> HttpRefusal:
    return HttpRefusal(404, "not_found", "release must be one that was charged, got another")


def _rest(asked: AskedRange) -> tuple[Any, ...]:
    """What else an answer depends on; `format` is in the addresses of its pages."""
    groups = sorted((column, list(labels)) for column, labels in asked.groups.items())
    return asked.step, asked.limit, asked.shape, asked.place, asked.format, groups, asked.measures
