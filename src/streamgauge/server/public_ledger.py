"""The ledger that everybody may read: what was charged, and what is left, as of the last departure.

**Privacy.** When a charge was committed depends on data. So acts are told with the moment at which they are
shown (`departures`), and not before it: the one that was foreseen when they were committed, or the later one
at which they left. They are read once, whoever reads them (`known_acts`).
"""

from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.pipeline.book import Book
from streamgauge.pipeline.intrusions import Intrusions
from streamgauge.pipeline.ledger_json import book_as_json
from streamgauge.pipeline.store_errors import NoStore
from streamgauge.server.gathering import Gathering
from streamgauge.server.known_acts import Acts, ByActs, books
from streamgauge.server.ledger_pages import acts_page, ledger_page
from streamgauge.server.roles import Role, needs
from streamgauge.server.runner import Runner

NO_CACHE = {"Cache-Control": "no-cache"}


class PublicLedger:
    """Of one run; any thread may look."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.gathering = Gathering.of(runner.file)
        self.departs = self.gathering.departures.moment
        self._timed, self._books = ByActs(self._as_shown), books(runner.file.stream.unit)
        self._told = ByActs(lambda acts: book_as_json(self._books(acts), runner.file))
        self._private = runner.file.stream.pan_private

    def routes(self) -> list[Route]:
        return [
            Route("/api/ledger", needs(Role.READER, self.tell), methods=["GET"]),
            Route("/api/ledger/acts", needs(Role.READER, self.tell_acts), methods=["GET"]),
        ]

    async def tell(self, request: Request) -> Response:
        """What was charged, and what is left."""
        told = await run_in_threadpool(self._ledger)
        return JSONResponse(ledger_page(told, request.query_params), headers=NO_CACHE)

    async def tell_acts(self, request: Request) -> Response:
        """All that was done, in its own words."""

        def page() -> dict[str, Any]:
            acts = self.acts()
            return acts_page(acts, self._told(acts)["acts"], request.query_params)

        return JSONResponse(await run_in_threadpool(page), headers=NO_CACHE)

    def _ledger(self) -> dict[str, Any]:
        """How many intrusions are left follows from the last tick that has left, which acts do not tell."""
        acts = self.acts()
        return self._told(acts) | ({"intrusions": self._intrusions(acts)} if self._private else {})

    def _intrusions(self, acts: Acts) -> dict[str, Any]:
        tick = 0
        with suppress(NoStore), self.runner.board.reading() as reader:
            tick = reader.tick
        return Intrusions.of(self._books(acts), self.runner.file.stream, tick).as_json()

    def book(self) -> Book:
        """What was charged, as far as it is shown by now; not to be changed."""
        return self._books(self.acts())

    def acts(self) -> Acts:
        """What was done, as it was at the last departure."""
        now = self.runner.now()
        return tuple(takewhile(lambda act: act.time <= now, self._timed(self.runner.acts())))

    def _as_shown(self, acts: Acts) -> Acts:
        late = self.runner.late
        times = (late.get(place, self.departs(act.time)) for place, act in enumerate(acts))
        return tuple(replace(act, time=time) for act, time in zip(acts, times, strict=True))
