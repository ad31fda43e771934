"""Asking: what an analyst plans, asks for and ends.

**Privacy.** Plans, costs and refusals follow from declarations and the ledger alone. To take a release in,
the run is set down and taken up again, which takes as long as the data makes it take: so the answer leaves by
the clock (`gathering`), when the ledger shows the charge, and the ledger that is planned with is that of the
last departure. A plan begins by the clock: the tick that the store has open would show that events came. What
went wrong in the run is told as its state, never in its words. That the server stops is told at once, and so
is that a run catches up: by the clock when that begins, by how long it took when it ends (docs/limits.md).
Plans take processor time from the run, so one is made at a time, and their number is bounded
(`max_plans_per_minute`): rounds stay even (`work`).

**Promise.** Nobody who waits for the run holds a thread, and planning has one of its own, with a short queue
(`WAITING`): readers never wait behind analysts. Who asks again for what was charged to them, in the same
words, or ends again what was ended, is answered as at first: an answer may be lost on its way.
While a run catches up nobody gets a turn, and who asks is told to come back; when the server stops, so is who
waits.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.pipeline.asked import (
    AskedRelease,
    PlannedAsk,
    asked_before,
    plan_asked,
    release_of_json,
    share_left,
    worded,
)
from streamgauge.pipeline.book import Book, loss_as_json
from streamgauge.pipeline.by_clock import first_by_clock
from streamgauge.pipeline.plan_json import release_as_json
from streamgauge.pipeline.planning import PlannedRelease
from streamgauge.privacy import Loss, Remainder
from streamgauge.query.toml_keys import BadFile
from streamgauge.server.accepting import catching_up, check_caught_up
from streamgauge.server.bodies import json_object
from streamgauge.server.errors import HttpRefusal, later
from streamgauge.server.limits import Limits
from streamgauge.server.public_ledger import PublicLedger
from streamgauge.server.roles import Person, Role, needs, person_of
from streamgauge.server.runner import Runner
from streamgauge.server.turns import Behind, KeyAway, NotRunning, Refused, Stops

WAITING = 64  # plans and asks that may wait for the one thread that plans
Found = TypeVar("Found")
NO_RUN = "the run must go on to be asked, got one that does not"
MARGIN = 0.01  # seconds: a clock that is set in small steps may be behind the one that wakes us


class Asking:
    """What analysts talk to."""

    def __init__(self, runner: Runner, ledger: PublicLedger, limits: Limits) -> None:
        self.runner, self.ledger, self.limits = runner, ledger, limits
        self.now, self.departs, self.heard = runner.now, ledger.departs, ledger.gathering.heard
        self._limiter, self._plans = CapacityLimiter(1), 0

    def routes(self) -> list[Route]:
        return [
            Route("/api/plan", needs(Role.ANALYST, self.plan), methods=["POST"]),
            Route("/api/releases", needs(Role.ANALYST, self.ask), methods=["POST"]),
            Route("/api/releases/{name}", needs(Role.ANALYST, self.end), methods=["DELETE"]),
        ]

    async def plan(self, request: Request) -> Response:
        """What a release would cost and how wrong it would be; spends nothing."""
        asked, person = await self._asked(request)
        with self._admitted(person):
            return JSONResponse(planned_as_json(await self._planned(asked)))

    async def ask(self, request: Request) -> Response:
        """Charges a release and starts it."""
        asked, person = await self._asked(request)
        with self._admitted(person):
            if known := await self._known(asked):
                return charged(known)
            planned = await self._planned(asked)
        if planned.plan is None or planned.refused:
            raise refused(planned.refused)
        try:
            await self.in_turn(person, self.runner.asking, asked, person.share)
        except HttpRefusal:
            if known := await self._known(asked):  # by a request whose answer was not awaited
                return charged(known)
            raise
        return charged(await self._known(asked) or planned.plan)

    async def end(self, request: Request) -> Response:
        """Ends a release that was asked for: an analyst's own, or any for the curator."""
        name, person = request.path_params["name"], person_of(request)
        entry = (await self._book()).latest().get(name)
        if name in {release.name for release in self.runner.file.releases}:
            raise refused([f"release must be one that was asked for, got {name}, which is in the file"])
        if entry is None or entry.asked is None:
            raise HttpRefusal(404, "not_found", "release must be one that was asked for, got another")
        if person.role < Role.CURATOR and person.name != entry.asked:
            raise HttpRefusal(403, "wrong_role", "release must be one's own to be ended, got another's")
        if entry.ended is None:
            await self.in_turn(person, self.runner.ending, name)
        return JSONResponse({"release": name, "ended": True})

    async def left(self, person: Person) -> Loss | Remainder | None:
        """What is left of somebody's share, for a release that would begin now."""
        if person.share is None or person.name is None:
            return None
        book, first = await self._book(), first_by_clock(self.runner.file.stream, self.now())
        return await self._apart(share_left, book, person.name, person.share, first)

    @contextmanager
    def _admitted(self, person: Person) -> Iterator[None]:
        """Around a plan: who plans too much, or beside too many others, comes back later."""
        if self._plans >= WAITING:
            raise later("busy", f"plans that wait must be at most {WAITING}, got one more")
        self.limits.plan(person.client)
        self._plans += 1
        try:
            yield
        finally:
            self._plans -= 1

    async def _asked(self, request: Request) -> tuple[AskedRelease, Person]:
        body, person = await json_object(request), person_of(request)
        try:
            file = self.runner.file
            release = worded(release_of_json(body, file.stream, file.server.max_groups))
        except BadFile as bad:
            raise HttpRefusal(422, "bad_release", str(bad)) from None
        return AskedRelease(release, person.name or "curator", person.share), person

    async def _planned(self, asked: AskedRelease) -> PlannedAsk:
        book, first = await self._book(), first_by_clock(self.runner.file.stream, self.heard(self.now()))
        over = await self._apart(self.runner.over)
        planning = partial(plan_asked, self.runner.file, asked, book=book, first=first, over=over)
        return await self._apart(planning)

    async def _known(self, asked: AskedRelease) -> PlannedRelease | None:
        """The release, if it is charged already."""
        return await self._apart(asked_before, self.runner.file, asked, await self._book())

    async def _book(self) -> Book:
        """What was charged, as far as it is shown by now; not to be changed."""
        return await self._apart(self.ledger.book)

    async def _apart(self, act: Callable[..., Found], *told: Any) -> Found:
        """Does something in the one thread that analysts have."""
        return await to_thread.run_sync(act, *told, limiter=self._limiter)

    async def in_turn(self, person: Person, act: Callable[..., Future[Found]], *told: Any) -> Found:
        """Does what the run has to be stopped for; whatever comes of it is told on the clock."""
        check_caught_up(self.runner, str(Behind()))
        self.limits.ask(person.client)
        heard: int | None = self.heard(self.now())
        try:
            return await asyncio.shield(asyncio.wrap_future(act(*told)))
        except Refused as refusal:
            raise refused(refusal.reasons) from None
        except KeyAway as away:
            raise later("key_away", str(away), seconds=10) from None
        except Behind as behind:
            heard = None
            raise catching_up(str(behind)) from None
        except Stops:
            heard = None
            raise later("not_running", NO_RUN, seconds=10) from None
        except NotRunning:
            raise later("not_running", NO_RUN, seconds=10) from None
        finally:
            now = self.now()
            if heard is not None:
                await asyncio.sleep((max(heard, self.departs(now)) - now) / 10**6 + MARGIN)


def refused(reasons: Any) -> HttpRefusal:
    told = [str(reason) for reason in reasons]
    return HttpRefusal(409, "refused", "; ".join(told), more={"reasons": told})


def charged(plan: PlannedRelease) -> Response:
    """The answer to who asked: the release as it was charged."""
    href = f"/api/releases/{plan.name}"
    return JSONResponse({"release": release_as_json(plan), "href": href}, 201, headers={"Location": href})


def planned_as_json(planned: PlannedAsk) -> dict[str, Any]:
    return {
        "release": None if planned.plan is None else release_as_json(planned.plan),
        "refused": list(planned.refused),
        "left_after": loss_or_none(planned.left_after),
        "share_left_after": loss_or_none(planned.share_left_after),
    }


def loss_or_none(loss: Loss | Remainder | None) -> dict[str, str] | None:
    return None if loss is None else loss_as_json(loss)


def share_text(share: Fraction | None) -> str | None:
    return None if share is None else str(share)
