"""Requests of analysts: plan, add and end releases.

**Privacy.** Plans, costs and refusals follow from declarations and the published ledger. The run applies a command
after a round, whose duration depends on data. So the reply leaves by the clock (`CommandSchedule`). A plan begins by
the clock, since the open tick of the store would show that events arrived. Failures of the run become a state.

Two replies leave at once: the server stops, and the run catches up (docs/limits.md). Plans use processor time of the
run. So one plan is made at a time, and their number is bounded (`adhoc.max_plans_per_minute`).

**Promise.** A request that waits for the run uses no thread. Planning has one thread with a short queue
(`max_waiting_plans`), so readers never wait for analysts. The wait for a plan does not count: a release is added at
the multiple after its request arrived, or as soon as it is planned. A repeated request for a charged release, or for an
end, gets the first reply again, since a reply may be lost. While the run catches up, requests to add or end a
release return 503 `catching_up`. When the server stops, waiting requests get a reply, too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.config.errors import PipelineFileError
from streamgauge.plan.planner import ReleasePlan
from streamgauge.privacy import Loss, Remainder
from streamgauge.runtime.adhoc.planning import (
    AdHocPlan,
    charge_request,
    check_text_lengths,
    find_same_request,
    plan_adhoc,
)
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import CatchingUpError, CommandRefusedError, NotRunningError, RunStoppingError
from streamgauge.runtime.ledger.log import LedgerLog, loss_as_json
from streamgauge.runtime.ledger.shares import remaining_share
from streamgauge.runtime.plan.plan import ReleaseForecast, forecast_release
from streamgauge.runtime.plan.render import price_as_json, release_as_json
from streamgauge.runtime.ticks import next_start_tick
from streamgauge.server.http.auth import Person, Role, find_person, require_role
from streamgauge.server.http.bodies import read_json_object
from streamgauge.server.http.errors import HttpError, build_retry_error
from streamgauge.server.http.limits import Limits
from streamgauge.server.routes.events import build_catching_up_error, check_caught_up
from streamgauge.server.routes.ledger import PublicLedger
from streamgauge.server.runner import Runner

Result = TypeVar("Result")
NO_RUN_MESSAGE = "the run must be active to accept commands, got one that is not"
CLOCK_MARGIN_SECONDS = 0.01  # a clock that is slewed may be behind the one that wakes us


class AdHocRoutes:
    """Routes of analysts."""

    plan, charge = staticmethod(plan_adhoc), staticmethod(charge_request)

    def __init__(
        self,
        runner: Runner,
        ledger: PublicLedger,
        limits: Limits,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.runner, self.ledger, self.limits = runner, ledger, limits
        self.now, self.find_publish_time = runner.now, ledger.find_publish_time
        self.find_reply_time = runner.command_queue.schedule.find_reply_time
        self._plan_limiter, self._ledger_limiter = CapacityLimiter(1), CapacityLimiter(1)
        self._plan_count, self._sleep = 0, sleep

    def routes(self) -> list[Route]:
        return [
            Route("/api/plan", require_role(Role.ANALYST, self.plan_release), methods=["POST"]),
            Route("/api/releases", require_role(Role.ANALYST, self.add_release), methods=["POST"]),
            Route("/api/releases/{name}", require_role(Role.ANALYST, self.end_release), methods=["DELETE"]),
        ]

    async def plan_release(self, request: Request) -> Response:
        """Return the predicted cost and error of a release; spend nothing."""
        requested, person = await self._parse_release(request)
        with self._count_plan(person):
            return JSONResponse(plan_as_json(await self._plan_in_thread(self._compute_plan, requested)))

    async def add_release(self, request: Request) -> Response:
        """Charge a release and start it."""
        arrived_at = self.now()
        requested, person = await self._parse_release(request)
        with self._count_plan(person):
            found = await self._plan_in_thread(self._judge, requested)
        if isinstance(found, ReleasePlan):
            found = await self._add(requested, found, person, arrived_at)
        href = f"/api/releases/{found.name}"
        return JSONResponse({"release": release_as_json(found), "href": href}, 201, headers={"Location": href})

    async def _add(
        self, requested: AdHocRelease, plan: ReleasePlan, person: Person, arrived_at: int
    ) -> ReleaseForecast:
        """Let the run add a release. It may be charged already, by an earlier request whose client disconnected."""
        try:
            await self.run_command(person, self.runner.submit_release, requested, plan, arrived_at, moment=arrived_at)
        except HttpError:
            ledger_log = await self._load_ledger()
            if known := await self._run_in_thread(find_same_request, self.runner.file, requested, ledger_log):
                return known
            raise
        first = self._find_first_tick()
        return await self._run_in_thread(forecast_release, plan, await self._load_ledger(), first)

    def _judge(self, requested: AdHocRelease) -> ReleaseForecast | ReleasePlan:
        """Return the plan of a release that can be charged, or the forecast of one that is charged already."""
        file, ledger_log = self.runner.file, self.ledger.load_ledger()
        if known := find_same_request(file, requested, ledger_log):
            return known
        first, finished = self._find_first_tick(), self.runner.find_finished()
        plan, refused, _ = self.charge(file, requested, ledger_log.copy(), first, finished)
        if plan is None or refused:
            raise build_refused_error(refused)
        return plan

    def _find_first_tick(self) -> int:
        """Return the first tick of a release that is requested now, by the clock."""
        return next_start_tick(self.runner.file.stream, self.find_reply_time(self.now()))

    async def end_release(self, request: Request) -> Response:
        """End a requested release: an analyst's own, or any for the curator."""
        name, person = request.path_params["name"], find_person(request)
        entry = (await self._load_ledger()).latest_releases().get(name)
        if name in {release.name for release in self.runner.file.releases}:
            raise build_refused_error([f"release must be a requested one, got {name}, which is in the file"])
        if entry is None or entry.requested_by is None:
            raise HttpError(404, "not_found", "release must be a requested one, got another")
        if person.role < Role.CURATOR and person.name != entry.requested_by:
            raise HttpError(403, "wrong_role", "release must be one's own to be ended, got another's")
        if entry.end_tick is None:
            await self.run_command(person, self.runner.submit_end, name)
        return JSONResponse({"release": name, "is_ended": True})

    async def compute_remaining(self, person: Person) -> Loss | Remainder | None:
        """Return the rest of a client's share, for a release that begins now."""
        if person.share is None or person.name is None:
            return None
        ledger_log, first = await self._load_ledger(), next_start_tick(self.runner.file.stream, self.now())
        return await self._run_in_thread(remaining_share, ledger_log, person.name, person.share, first)

    @contextmanager
    def _count_plan(self, person: Person) -> Iterator[None]:
        """Count a plan while it lasts; refuse one too many."""
        most = self.runner.tuning.max_waiting_plans
        if self._plan_count >= most:
            raise build_retry_error("busy", f"plans that wait must be at most {most}, got one more")
        self.limits.count_plan(person.client)
        self._plan_count += 1
        try:
            yield
        finally:
            self._plan_count -= 1

    async def _parse_release(self, request: Request) -> tuple[AdHocRelease, Person]:
        body, person = await read_json_object(request), find_person(request)
        try:
            file = self.runner.file
            limit, mappers = file.server.adhoc_max_groups, file.mappers
            release = check_text_lengths(parse_adhoc_release(body, file.stream, limit, mappers))
        except PipelineFileError as bad:
            raise HttpError(422, "bad_release", str(bad)) from None
        return AdHocRelease(release, person.name or "curator", person.share), person

    def _compute_plan(self, requested: AdHocRelease) -> AdHocPlan:
        ledger_log, finished = self.ledger.load_ledger(), self.runner.find_finished()
        return self.plan(
            self.runner.file, requested, ledger_log=ledger_log, first=self._find_first_tick(), finished=finished
        )

    async def _load_ledger(self) -> LedgerLog:
        """Return the ledger that is published by now. Callers must not change it."""
        return await self._run_in_thread(self.ledger.load_ledger)

    async def _plan_in_thread(self, act: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function in the one thread of plans."""
        return await to_thread.run_sync(act, *arguments, limiter=self._plan_limiter)

    async def _run_in_thread(self, act: Callable[..., Result], *arguments: Any) -> Result:
        """Run a short function in a thread that waits for no plan."""
        return await to_thread.run_sync(act, *arguments, limiter=self._ledger_limiter)

    async def run_command(
        self, person: Person, submit: Callable[..., Future[Result]], *arguments: Any, moment: int | None = None
    ) -> Result:
        """Submit a command of a moment, by default now, and wait for its outcome; the reply leaves by the clock."""
        check_caught_up(self.runner, str(CatchingUpError()))
        self.limits.count_command(person.client)
        reply_time: int | None = self.find_reply_time(self.now() if moment is None else moment)
        try:
            return await asyncio.shield(asyncio.wrap_future(submit(*arguments)))
        except CommandRefusedError as refusal:
            raise build_refused_error(refusal.reasons) from None
        except CatchingUpError as behind:
            reply_time = None
            raise build_catching_up_error(str(behind)) from None
        except NotRunningError as failure:
            reply_time = None if isinstance(failure, RunStoppingError) else reply_time
            raise build_retry_error("not_running", NO_RUN_MESSAGE, seconds=10) from None
        finally:
            now = self.now()
            if reply_time is not None:
                await self._sleep((max(reply_time, self.find_publish_time(now)) - now) / 10**6 + CLOCK_MARGIN_SECONDS)


def build_refused_error(reasons: Any) -> HttpError:
    reasons_text = [str(reason) for reason in reasons]
    return HttpError(409, "release_rejected", "; ".join(reasons_text), extra={"reasons": reasons_text})


def plan_as_json(planned: AdHocPlan) -> dict[str, Any]:
    return {
        "release": None if planned.plan is None else release_as_json(planned.plan),
        "refusals": list(planned.refusals),
        "remaining_budget": loss_as_json(planned.remaining_budget),
        "remaining_share": loss_as_json(planned.remaining_share),
        "affordable": [price_as_json(price) for price in planned.affordable],
    }
