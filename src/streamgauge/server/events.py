"""Events by HTTP: the curator's systems post batches, and hear when each is on disk.

**Promise.** `"durable": true` is said after the commit that has the batch's sums and its key, never before; a
batch that is sent again under its key is counted once. Who hears nothing, or 503, sends it again; a refusal
that says `"taken": false` is certain of this request, and says nothing of one before under the same key. Keys
are those of the name on a token: two senders that choose the same one do not know of each other.

With pan_private = true nothing is durable before a tick's end, and `"durable": false` says so; no key is
kept, and a batch that is sent again is counted again. So a batch that the run does not read in time, or whose
client disconnects, is withdrawn before the reply: the 503 says `"taken": false`. Only such a refusal invites
to send the batch again. If the run reads the batch at that moment, the reply is 200.

**Privacy.** All roads here are the curator's: what they tell, how full the inbox is too, depends on data. A
batch that is refused is gone with its answer.
"""

import asyncio
import re

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.pipeline.quarantine import UNCOUNTED
from streamgauge.query.formats import HTTP
from streamgauge.query.packages import MissingPackage
from streamgauge.server.accepting import STOPPING, check_events, refuse_unread
from streamgauge.server.batches import LINES, lines_of
from streamgauge.server.bodies import media_type, unpacked, whole_body
from streamgauge.server.emptied import let_go
from streamgauge.server.errors import HttpRefusal, later, nothing_taken
from streamgauge.server.limits import Limits
from streamgauge.server.metrics import TYPE, Metrics, dropped_by
from streamgauge.server.roles import Role, needs, person_of
from streamgauge.server.runner import Runner
from streamgauge.sources.inbox import Inbox, InboxFull, NotRead, Ticket
from streamgauge.sources.passing_inbox import PassingInbox

KEY = re.compile(r"[!-~]{1,128}")
COMMIT_SECONDS = 30.0  # that a commit may take before a client is told to ask again
LAST_SECONDS = 2.0  # the same, once the server stops: less than replies are given then
LOOK = 0.5  # seconds after which it is looked whether it does
AT_ONCE = 2**16  # bytes that are parsed in the event loop; more in a thread
WAITS = "the batch waits for its commit: send it again, or ask for its fate"
NO_COMMIT = "the run ended before the commit: send the batch again"
WITHDRAWN = "the run did not read the batch, nothing of it is counted: send it again"


class Events:
    """What the curator's systems talk to."""

    def __init__(self, runner: Runner, limits: Limits, metrics: Metrics) -> None:
        self.runner, self.limits, self.metrics = runner, limits, metrics

    def routes(self) -> list[Route]:
        def curators(path: str, endpoint: str, method: str = "GET") -> Route:
            return Route(path, needs(Role.CURATOR, getattr(self, endpoint)), methods=[method])

        return [
            curators("/api/events", "post", "POST"),
            curators("/api/events/{key:path}", "fate"),
            curators("/api/quarantine", "quarantine"),
            curators("/api/metrics", "tell_metrics"),
            curators("/metrics", "tell_metrics"),
        ]

    async def post(self, request: Request) -> Response:
        """Takes a batch; answers when it is committed."""
        with nothing_taken(), self.limits.holding() as hold:
            key = key_of(request.headers.get("batch-key"))
            inbox = self._inbox()
            body = await whole_body(request, self.limits.body, seconds=self.limits.body_seconds, hold=hold)
            lines = await self._lines(request, body)
            try:
                ticket = inbox.put(own_key(request, key), lines)
            except NotRead:
                refuse_unread(self.runner, "events")
            except InboxFull as full:
                raise later("busy", str(full)) from None
            del body, lines
        if isinstance(inbox, PassingInbox):
            await wait_until_read(self.runner, request, inbox, ticket)
        else:
            await committed(self.runner, ticket)
        return JSONResponse({"batch": key, "durable": inbox.durable, "repeated": ticket.repeated})

    async def _lines(self, request: Request, body: bytes) -> bytes:
        kind, most = media_type(request), self.limits.body
        encoding = request.headers.get("content-encoding", "")

        def made() -> bytes | Exception:
            """A failure is told and not raised: a thread's would keep the frames that have the batch."""
            try:
                return lines_of(kind, unpacked(body, encoding, most), self.runner.file.stream, most)
            except MissingPackage as missing:
                return HttpRefusal(415, "media_type", str(missing))
            except Exception as failure:
                let_go(failure, where=False)
                return failure

        at_once = (len(body) <= AT_ONCE or kind == LINES) and not encoding
        found = made() if at_once else await run_in_threadpool(made)
        try:
            if isinstance(found, bytes):
                return found
            raise found
        finally:
            del found

    def _inbox(self) -> Inbox | PassingInbox:
        if self.runner.inbox is None or self.runner.file.stream.source != HTTP:
            rule = 'stream.source must be "http" where events are posted, got another'
            raise HttpRefusal(409, "no_inbox", rule)
        check_events(self.runner)
        return self.runner.inbox

    async def fate(self, request: Request) -> Response:
        """What has become of a batch."""
        key = key_of(request.path_params["key"])
        inbox, own = self.runner.inbox, own_key(request, key)
        return JSONResponse({"batch": key, "fate": "unknown" if inbox is None else inbox.fate(own)})

    async def quarantine(self, request: Request) -> Response:
        """How many records were read, and how many were dropped by which rule, where that is counted."""
        if self.runner.file.stream.pan_private:
            return JSONResponse({"records": None, "dropped": None, "shares": None, "reason": UNCOUNTED})
        progress = self.runner.progress
        records = 0 if progress is None else progress.events
        shares = {} if self.runner.shares is None else self.runner.shares.shares()
        return JSONResponse({"records": records, "dropped": dropped_by(self.runner), "shares": shares})

    async def tell_metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type=TYPE)


def key_of(text: str | None) -> str:
    """The key of a batch, if it is one."""
    if text is None or KEY.fullmatch(text) is None:
        rule = "1 to 128 visible ASCII characters"
        raise HttpRefusal(
            422, "batch_key", f"batch key must be {rule}, got {'nothing' if text is None else 'others'}"
        )
    return text


def own_key(request: Request, key: str) -> str:
    """The key as one sender's: neither names nor keys have blanks, so no two pairs are the same text."""
    return f"{person_of(request).name} {key}"


async def committed(
    runner: Runner, ticket: Ticket, what: str = "events", waits: str = WAITS, ended: str = NO_COMMIT
) -> None:
    """Waits for the commit. A client that goes away does not take the batch back."""
    done, stopping = await settle(runner, ticket)
    if not done.done():
        raise later("not_running", f"{STOPPING}: {waits}") if stopping else later("not_committed", waits)
    if isinstance(done.exception(), NotRead):
        with nothing_taken():
            refuse_unread(runner, what)
    if done.exception() is not None:
        raise later("not_committed", ended)


async def wait_until_read(runner: Runner, request: Request, inbox: PassingInbox, ticket: Ticket) -> None:
    """Wait until the run has read a batch; withdraw it if the run is late, or the client disconnects.

    Raises:
        HttpRefusal: The batch was not read and never will be. It says `"taken": false`.
        ClientDisconnect: The client is gone. The batch is withdrawn unless the run has read it.
    """
    with nothing_taken():
        try:
            done, stopping = await settle(runner, ticket, request)
        except ClientDisconnect:
            inbox.withdraw(ticket)
            raise
        except asyncio.CancelledError:
            if inbox.withdraw(ticket):
                raise withdrawn(stopping=True) from None
            raise
        if not done.done():
            if inbox.withdraw(ticket):
                raise withdrawn(stopping=stopping)
            await asyncio.wait([done])  # it is being read: not longer than one block takes
        if isinstance(done.exception(), NotRead):
            refuse_unread(runner, "events")
        if done.exception() is not None:
            raise withdrawn(stopping=stopping)


def withdrawn(*, stopping: bool) -> HttpRefusal:
    """Build the refusal of a batch that was not read."""
    return later("not_running", f"{STOPPING}: {WITHDRAWN}") if stopping else later("not_committed", WITHDRAWN)


async def settle(
    runner: Runner, ticket: Ticket, request: Request | None = None
) -> tuple["asyncio.Future[None]", bool]:
    """Wait until a batch is settled, as long as it may take. Return its future, and whether the server stops.

    Raises:
        ClientDisconnect: The client of `request` is gone.
    """
    done, now = asyncio.wrap_future(ticket.done), asyncio.get_running_loop().time
    done.add_done_callback(heard)
    until, stopping = now() + COMMIT_SECONDS, False
    while not done.done() and now() < until:
        if runner.state == "stopping" and not stopping:
            until, stopping = min(until, now() + LAST_SECONDS), True
        await asyncio.wait([done], timeout=min(LOOK, max(0.0, until - now())))
        if request is not None and not done.done() and await request.is_disconnected():
            raise ClientDisconnect
    return done, stopping


def heard(done: "asyncio.Future[None]") -> None:
    """Whatever came of it was looked at, if only by nobody."""
    if not done.cancelled():
        done.exception()
