"""The public ledger: charges and the remaining budget, as of the last publication.

GET /api/ledger            remaining budget and a page of charges     offset, limit
GET /api/ledger/entries    a page of entries, verbatim                next: the address of the next page

**Privacy.** The commit time of a charge depends on data. So entries have their publish time (`publishing`), and
are not visible before it. It is the time foreseen at the commit. Entries are read once for all readers.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.runtime.intrusion.count import IntrusionCount
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.ledger.render import ledger_log_as_json
from streamgauge.server.http.auth import Role, require_role
from streamgauge.server.publishing.reader import LedgerCache, LedgerEntries, build_ledger_cache
from streamgauge.server.routes.release_query import build_parameter_error
from streamgauge.server.runner import Runner
from streamgauge.store.errors import StoreNotFoundError
from streamgauge.store.reader import LedgerEntry

MAX_PAGE_CHARGES, MAX_PAGE_ENTRIES = 1000, 100  # of a page, at most
MAX_DIGITS = 18  # digits

Item = TypeVar("Item")


def build_ledger_page(ledger: Mapping[str, Any], params: QueryParams) -> dict[str, Any]:
    """Return the ledger with a page of charges and without entries."""
    after, limit = parse_span(params, MAX_PAGE_CHARGES)
    charges = ledger["charges"][after : after + limit]
    names = {charge["release"] for charge in charges}
    owners = {name: by for name, by in ledger["requested_by"].items() if name in names}
    rest = {key: value for key, value in ledger.items() if key != "entries"}
    return {
        **rest,
        "charges": charges,
        "requested_by": owners,
        "next": build_next_href("", ledger["charges"], after, limit),
    }


def count_fitting(acts: Sequence[LedgerEntry], max_bytes: int) -> int:
    """Return the number of entries that fit on one page."""
    size = 0
    for count, act in enumerate(acts):
        size += len(act.text())
        if count and size > max_bytes:
            return count
    return len(acts)


def build_next_href(path: str, items: Sequence[Item], after: int, count: int) -> str | None:
    """Return the address of the next page, if there is one."""
    end = after + count
    return f"/api/ledger{path}?offset={end}&limit={count}" if end < len(items) else None


def parse_span(params: QueryParams, most: int) -> tuple[int, int]:
    """Return the parameters `offset` and `limit`."""
    after = parse_number("offset", params.get("offset", "0"))
    limit = parse_number("limit", params.get("limit", str(most)))
    if not 1 <= limit <= most:
        raise build_parameter_error("limit", f"from 1 to {most}", str(limit))
    return after, limit


def parse_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise build_parameter_error(name, "a whole number", text)
    return int(text)


NO_CACHE_HEADERS = {"Cache-Control": "no-cache"}


class PublicLedger:
    """The published ledger of one run. Any thread may read."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.find_publish_time = runner.command_queue.schedule.find_publish_time
        self._published_entries = LedgerCache(
            lambda acts: tuple(replace(act, time=self.find_publish_time(act.time)) for act in acts)
        )
        self._ledger_cache = build_ledger_cache(runner.file.stream.unit)
        self._json_cache = LedgerCache(lambda acts: ledger_log_as_json(self._ledger_cache(acts), runner.file))
        self._is_pan_private = runner.file.stream.pan_private

    def routes(self) -> list[Route]:
        return [
            Route("/api/ledger", require_role(Role.READER, self.read_ledger), methods=["GET"]),
            Route("/api/ledger/entries", require_role(Role.READER, self.read_entries), methods=["GET"]),
        ]

    async def read_ledger(self, request: Request) -> Response:
        """GET /api/ledger"""
        content = await run_in_threadpool(self._build_ledger)
        return JSONResponse(build_ledger_page(content, request.query_params), headers=NO_CACHE_HEADERS)

    async def read_entries(self, request: Request) -> Response:
        """GET /api/ledger/entries"""

        def build_page() -> dict[str, Any]:
            acts = self.load_entries()
            after, limit = parse_span(request.query_params, MAX_PAGE_ENTRIES)
            count = count_fitting(acts[after : after + limit], self.runner.tuning.max_ledger_page_bytes)
            found = self._json_cache(acts)["entries"][after : after + count]
            return {"entries": found, "next": build_next_href("/entries", acts, after, count)}

        return JSONResponse(await run_in_threadpool(build_page), headers=NO_CACHE_HEADERS)

    def _build_ledger(self) -> dict[str, Any]:
        """Return the ledger; the remaining intrusions follow from the last published tick."""
        acts = self.load_entries()
        return self._json_cache(acts) | ({"intrusions": self._intrusions_as_json(acts)} if self._is_pan_private else {})

    def _intrusions_as_json(self, acts: LedgerEntries) -> dict[str, Any]:
        tick = 0
        with suppress(StoreNotFoundError), self.runner.event_buffer.open_reader() as reader:
            tick = reader.tick
        return IntrusionCount.from_ledger_log(self._ledger_cache(acts), self.runner.file.stream, tick).to_json()

    def load_ledger(self) -> LedgerLog:
        """Return the ledger that is published by now. Callers must not change it."""
        return self._ledger_cache(self.load_entries())

    def load_entries(self) -> LedgerEntries:
        """Return the entries that are published by now."""
        now = self.runner.now()
        return tuple(takewhile(lambda act: act.time <= now, self._published_entries(self.runner.load_entries())))
