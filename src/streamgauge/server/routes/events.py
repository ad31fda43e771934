"""Events by HTTP: the curator's systems post batches, and get a reply when each is on disk.

**Promise.** `"durable": true` follows the commit with the sums of the batch and its key. A batch that is sent
again under its key counts once. After 503, or without a reply, the client sends it again. A refusal with
`"accepted": false` is certain for this request, but covers no earlier one under the same key. Keys belong to
the name on a token, so equal keys of two senders do not collide.

With pan_private = true nothing is durable before the end of a tick, and `"durable": false` says so. Keys are
not stored, so a repeated batch counts again. So a batch that the run does not read in time, or whose client
disconnects, is withdrawn before the reply: the 503 says `"accepted": false`. Only such a refusal invites a
retry. If the run reads the batch at that moment, the reply is 200.

Events are accepted from the time at which one may lie in the first tick until all ticks of all releases are
closed. Reports are accepted in a tick of a release that reads one of their columns, record by record, since
they count in the tick of their arrival.

**Privacy.** All routes here are for the curator. A sender may use those under /api/events. Their replies, and the
state of the inbox, depend on data: a sender learns when its own batches commit, and if the inbox is full. A refused
batch is dropped with its reply. The tick ranges of releases are public. That a run catches up with the clock
(`Progress.catch_up_tick`), stops or has failed depends on the machine. The columns of a device's record are public.
None of this reveals other events.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import ceil
from typing import NoReturn

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.clock import MICROSECONDS_PER_SECOND
from streamgauge.memory import clear_traceback
from streamgauge.optional import MissingPackageError
from streamgauge.runtime.quarantine import UNCOUNTED_TEXT
from streamgauge.runtime.ticks import ReleaseSpans, closed_tick
from streamgauge.server.http.auth import Role, find_person, require_role
from streamgauge.server.http.bodies import NDJSON_TYPE, decompress_body, parse_media_type, read_body, to_lines
from streamgauge.server.http.errors import HttpError, build_retry_error, mark_not_accepted
from streamgauge.server.http.limits import Limits
from streamgauge.server.routes.metrics import PROMETHEUS_TYPE, Metrics, count_dropped
from streamgauge.server.runner import Runner
from streamgauge.sources.http import EventInbox, InboxFullError, InboxPausedError, Ticket

MAX_RETRY_AFTER_SECONDS = 3600  # a longer wait has no Retry-After
NO_RELEASE_RETRY_SECONDS = 60  # after which a release may exist
CATCH_UP_RETRY_SECONDS = 10  # in which a run catches up with many ticks
NO_RELEASE_MESSAGE = "no release is active"
NO_MATCHING_RELEASE_MESSAGE = "no active release reads these columns"
NOT_READING_MESSAGE = "nothing is read for now"
STREAM_ENDED_MESSAGE = "the stream's end has passed"
STOPPING_MESSAGE = "the server is stopping"
STATE_MESSAGES = {"stopping": STOPPING_MESSAGE, "failed": "the run failed"}
CATCHING_UP_RULE = "must be sent once the run has caught up with the clock, got some before: send them again"


@dataclass(frozen=True)
class Arrival:
    """Arrival of a message: its time, its tick, and the tick ranges of releases."""

    moment: int
    tick: int
    spans: ReleaseSpans

    def has_release(self, columns: frozenset[str]) -> bool:
        """Return whether a release of this tick reads one of these columns."""
        return self.spans.next_tick(self.tick, columns) == self.tick


def check_running(runner: Runner, what: str) -> None:
    """Reject data that no release reads now, or ever."""
    if why := STATE_MESSAGES.get(runner.state):
        raise build_not_running_error(what, why)
    if runner.state == "ended":
        end = runner.file.stream.end
        passed = end is not None and runner.now() >= end
        raise build_not_running_error(
            what, STREAM_ENDED_MESSAGE if passed else NO_RELEASE_MESSAGE, NO_RELEASE_RETRY_SECONDS
        )
    check_caught_up(runner, f"{what} {CATCHING_UP_RULE}")


def check_started(runner: Runner, what: str) -> None:
    """Reject data from before the first tick. Reports belong to the tick of their arrival."""
    stream, now = runner.file.stream, runner.now()
    first = stream.start - (0 if stream.has_reports else stream.allowed_earliness)
    if now < first:
        raise build_too_early_error(what, "the stream's start", first - now)


def check_caught_up(runner: Runner, rule: str) -> None:
    """Reject a request that would wait until the run has caught up."""
    if runner.is_catching_up:
        raise build_catching_up_error(rule)


def build_catching_up_error(rule: str) -> HttpError:
    return build_retry_error("catching_up", rule, seconds=CATCH_UP_RETRY_SECONDS)


def check_events(runner: Runner) -> None:
    """Reject events before the first one can count, and after the last one can."""
    check_started(runner, "events")
    check_running(runner, "events")
    if runner.spans.next_tick(closed_tick(runner.file.stream, runner.now()) + 1) is None:
        raise build_not_running_error("events", NO_RELEASE_MESSAGE, NO_RELEASE_RETRY_SECONDS)


def check_reports(runner: Runner, columns: Collection[frozenset[str] | None] = (None,)) -> Arrival:
    """Return the arrival of a message; reject it if no release reads this tick.

    `columns` are the columns of each record, or of all records that are alike.
    """
    now, stream, spans = runner.now(), runner.file.stream, runner.spans
    check_started(runner, "reports")
    if stream.end is not None and now >= stream.end:
        rule = "reports must be sent before the stream's end, got some after it"
        raise HttpError(410, "stream_ended", rule)
    tick = (now - stream.start) // stream.tick + 1
    found = [first for each in set(columns) if (first := spans.next_tick(tick, each)) is not None]
    if not found:
        raise build_not_running_error(
            "reports",
            NO_RELEASE_MESSAGE if spans.next_tick(tick) is None else NO_MATCHING_RELEASE_MESSAGE,
            NO_RELEASE_RETRY_SECONDS,
        )
    if min(found) > tick:
        raise build_too_early_error("reports", "the first tick of a release", stream.tick_start(min(found)) - now)
    return Arrival(now, tick, spans)


def reject_unread(runner: Runner, what: str) -> NoReturn:
    """Reject data that arrived while the run reads nothing.

    That is before the start, or if the run reads the clock slightly later than the route.
    """
    check_started(runner, what)
    raise build_not_running_error(what, NOT_READING_MESSAGE)


def build_too_early_error(what: str, since: str, wait: int) -> HttpError:
    seconds = ceil(wait / MICROSECONDS_PER_SECOND)
    rule = f"{what} must be sent from {since} on, got some before it"
    return HttpError(
        425, "too_early", rule, {"Retry-After": str(seconds)} if seconds <= MAX_RETRY_AFTER_SECONDS else None
    )


def build_not_running_error(what: str, why: str, seconds: int = 1) -> HttpError:
    rule = f"{what} must be sent while a release is active, got some after: {why}"
    return build_retry_error("not_running", rule, seconds=seconds)


KEY_PATTERN = re.compile(r"[!-~]{1,128}")
MAX_INLINE_BYTES = 2**16  # parsed in the event loop; larger bodies in a thread
PENDING_MESSAGE = "the batch waits for its commit: send it again, or read its status"
NO_COMMIT_MESSAGE = "the run ended before the commit: send the batch again"
WITHDRAWN_MESSAGE = "the run did not read the batch, nothing of it is counted: send it again"


def scope_key(request: Request, key: str) -> str:
    """Return the key with the name of its sender. Neither has blanks, so the result is unambiguous."""
    return f"{find_person(request).name} {key}"


class EventRoutes:
    """Routes of senders, and the counters of the curator."""

    scope_key = staticmethod(scope_key)

    def __init__(self, runner: Runner, limits: Limits, metrics: Metrics) -> None:
        self.runner, self.limits, self.metrics = runner, limits, metrics

    def routes(self) -> list[Route]:
        def build_route(path: str, endpoint: str, method: str = "GET", role: Role = Role.CURATOR) -> Route:
            return Route(path, require_role(role, getattr(self, endpoint)), methods=[method])

        return [
            build_route("/api/events", "post_batch", "POST", Role.SENDER),
            build_route("/api/events/{key:path}", "read_status", role=Role.SENDER),
            build_route("/api/quarantine", "read_quarantine"),
            build_route("/api/metrics", "read_metrics"),
            build_route("/metrics", "read_metrics"),
        ]

    async def post_batch(self, request: Request) -> Response:
        """Accept a batch; reply when it is committed."""
        with mark_not_accepted(), self.limits.reserve_body() as hold:
            key = parse_key(request.headers.get("batch-key"))
            inbox = self._find_inbox()
            body = await read_body(
                request, self.limits.max_body_bytes, seconds=self.limits.body_seconds, count_bytes=hold
            )
            lines = await self.parse_lines(request, body)
            try:
                ticket = inbox.put(self.scope_key(request, key), lines)
            except InboxPausedError:
                reject_unread(self.runner, "events")
            except InboxFullError as full:
                raise build_retry_error("busy", str(full)) from None
            del body, lines
        if inbox.is_durable:
            await wait_committed(self.runner, ticket)
        else:
            await wait_until_read(self.runner, request, inbox, ticket)
        return JSONResponse({"batch": key, "durable": inbox.is_durable, "duplicate": ticket.is_duplicate})

    async def parse_lines(self, request: Request, body: bytes) -> bytes:
        """Return the JSON lines of a batch."""
        kind, most = parse_media_type(request), self.limits.max_body_bytes
        encoding = request.headers.get("content-encoding", "")

        def parse() -> bytes | Exception:
            """Return a failure instead of raising it: the frames of a raised one would keep the batch alive."""
            try:
                return to_lines(kind, decompress_body(body, encoding, most), self.runner.file.stream, most)
            except MissingPackageError as missing:
                return HttpError(415, "media_type", str(missing))
            except Exception as failure:
                clear_traceback(failure, keep_lines=False)
                return failure

        at_once = (len(body) <= MAX_INLINE_BYTES or kind == NDJSON_TYPE) and not encoding
        found = parse() if at_once else await self.run_parser(parse)
        try:
            if isinstance(found, bytes):
                return found
            raise found
        finally:
            del found

    async def run_parser(self, parse: Callable[[], bytes | Exception]) -> bytes | Exception:
        """Run a function that parses a batch in a thread."""
        return await run_in_threadpool(parse)

    def _find_inbox(self) -> EventInbox:
        if self.runner.inbox is None or self.runner.file.stream.has_reports:
            rule = 'stream.source must be "http" where events are posted, got another'
            raise HttpError(409, "no_inbox", rule)
        check_events(self.runner)
        return self.runner.inbox

    async def read_status(self, request: Request) -> Response:
        """Return the status of a batch."""
        key = parse_key(request.path_params["key"], "batch key")
        inbox, own = self.runner.inbox, self.scope_key(request, key)
        return JSONResponse({"batch": key, "status": "unknown" if inbox is None else inbox.find_status(own)})

    async def read_quarantine(self, request: Request) -> Response:
        """Return the number of records, and of dropped records by rule, if they are counted."""
        if self.runner.file.stream.pan_private:
            return JSONResponse({"records": None, "drops": None, "shares": None, "reason": UNCOUNTED_TEXT})
        progress = self.runner.progress
        records = 0 if progress is None else progress.events
        counts = {"records": records, "drops": count_dropped(self.runner), "shares": self.runner.shares}
        return JSONResponse(counts)

    async def read_metrics(self, request: Request) -> Response:
        return Response(self.metrics.render(), media_type=PROMETHEUS_TYPE)


def parse_key(text: str | None, name: str = "header Batch-Key") -> str:
    """Return the key of a batch, if it is valid."""
    if text is None or KEY_PATTERN.fullmatch(text) is None:
        rule = f"{name} must be 1 to 128 visible ASCII characters"
        raise HttpError(422, "batch_key", f"{rule}, got {'nothing' if text is None else 'others'}")
    return text


async def wait_committed(
    runner: Runner,
    ticket: Ticket,
    what: str = "events",
    pending_message: str = PENDING_MESSAGE,
    no_commit_message: str = NO_COMMIT_MESSAGE,
) -> None:
    """Wait for the commit. A client that disconnects does not withdraw the batch."""
    done, stopping = await wait_settled(runner, ticket)
    if not done.done():
        raise build_uncommitted_error(pending_message, stopping=stopping)
    if isinstance(done.exception(), InboxPausedError):
        with mark_not_accepted():
            reject_unread(runner, what)
    if done.exception() is not None:
        raise build_retry_error("not_committed", no_commit_message)


async def wait_until_read(runner: Runner, request: Request, inbox: EventInbox, ticket: Ticket) -> None:
    """Wait until the run has read a batch; withdraw it if the run is late, or the client disconnects.

    Raises:
        HttpRefusal: The batch was not read and never will be. It says `"accepted": false`.
        ClientDisconnect: The client is gone. The batch is withdrawn unless the run has read it.
    """
    with mark_not_accepted():
        try:
            done, stopping = await wait_settled(runner, ticket, request)
        except ClientDisconnect:
            inbox.withdraw(ticket)
            raise
        except asyncio.CancelledError:
            if inbox.withdraw(ticket):
                raise build_uncommitted_error(WITHDRAWN_MESSAGE, stopping=True) from None
            raise
        if not done.done():
            if inbox.withdraw(ticket):
                raise build_uncommitted_error(WITHDRAWN_MESSAGE, stopping=stopping)
            await asyncio.wait([done])  # the run is reading it, which takes one block at most
        if isinstance(done.exception(), InboxPausedError):
            reject_unread(runner, "events")
        if done.exception() is not None:
            raise build_uncommitted_error(WITHDRAWN_MESSAGE, stopping=stopping)


def build_uncommitted_error(rule: str, *, stopping: bool) -> HttpError:
    """Build the refusal of a batch that was not committed in time."""
    if stopping:
        return build_retry_error("not_running", f"{STOPPING_MESSAGE}: {rule}")
    return build_retry_error("not_committed", rule)


async def wait_settled(
    runner: Runner, ticket: Ticket, request: Request | None = None
) -> tuple["asyncio.Future[None]", bool]:
    """Wait until a batch is settled, as long as it may take. Return its future, and whether the server stops.

    Raises:
        ClientDisconnect: The client of `request` is gone.
    """
    done, now = asyncio.wrap_future(ticket.done), asyncio.get_running_loop().time
    done.add_done_callback(consume_result)
    tuning = runner.tuning
    until, stopping = now() + tuning.commit_seconds, False
    while not done.done() and now() < until:
        if runner.state == "stopping" and not stopping:
            until, stopping = min(until, now() + tuning.shutdown_commit_seconds), True
        await asyncio.wait([done], timeout=min(tuning.state_poll_seconds, max(0.0, until - now())))
        if request is not None and not done.done() and await request.is_disconnected():
            raise ClientDisconnect
    return done, stopping


def consume_result(done: "asyncio.Future[None]") -> None:
    """Retrieve the exception of a future, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()
