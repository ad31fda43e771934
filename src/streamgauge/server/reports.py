"""Reports by HTTP: devices, or a gateway of the curator's, send what is private already.

    POST /api/reports       a binary message (`localdp.wire`), or JSON: records with codes and other columns
    GET /api/collection     all that a device has to know: the settings of every column of reports

**Promise.** A message is refused or taken by rules that look at it alone, and at public settings. A report
that no device can have made is dropped by itself and counted for the curator; any other moves an estimate by
no more than an honest one. `"durable": true` is said after the commit. A message that is sent again under its
key, with the same content, is counted once, as long as its key is among the newest that are remembered
(`inbox_of`).

**Privacy.** Where senders = "anyone", no token is asked, no cookie is looked at, and pages of all sites may
send (`Shared`). The address of a device is known to the limits and to nothing else: the access log has none.
"""

from collections import Counter
from hashlib import sha256

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.localdp import wire
from streamgauge.noise.entropy import system_key
from streamgauge.pipeline.book import report_as_json
from streamgauge.pipeline.clock import SECOND
from streamgauge.query.server_table import MOST_RECORDS
from streamgauge.server.access_log import REPORTS
from streamgauge.server.bodies import media_type, unpacked, whole_body
from streamgauge.server.errors import HttpRefusal, later
from streamgauge.server.events import AT_ONCE, committed, key_of, not_running, own_key
from streamgauge.server.limits import Limits
from streamgauge.server.report_records import Sent, records_of
from streamgauge.server.roles import Endpoint, Role, needs
from streamgauge.server.runner import Runner
from streamgauge.sources.inbox import Inbox, InboxFull
from streamgauge.sources.passing_inbox import PassingInbox

COLLECTION = "/api/collection"
EACH = 2**10  # bytes of a record in a message that anyone sends
MALFORMED = "no report"  # the rule by which records are dropped here


class Collecting:
    """What devices talk to; `dropped` is counted for the curator."""

    def __init__(self, runner: Runner, limits: Limits, dropped: Counter[str]) -> None:
        self.runner, self.limits, self.dropped = runner, limits, dropped
        self.stream = runner.file.stream
        self.anyone = self.stream.senders == "anyone"
        settings = runner.file.server
        self.most = settings.max_reports if self.anyone else MOST_RECORDS
        self.largest = min(settings.max_body, EACH * self.most)

    def routes(self) -> list[Route]:
        return [
            Route(REPORTS, self._for(Role.CURATOR, self.post), methods=["POST"]),
            Route(COLLECTION, self._for(Role.READER, self.tell), methods=["GET"]),
        ]

    def _for(self, role: Role, endpoint: Endpoint) -> Endpoint:
        return endpoint if self.anyone else needs(role, endpoint)

    async def tell(self, request: Request) -> Response:
        """The settings of all columns of reports."""
        self._inbox()
        columns = {
            name: {
                **report_as_json(report),
                "values": list(report.values),
                "settings": wire.settings(report.claim),
            }
            for name, report in self.stream.reports.items()
        }
        told = {"name": self.stream.name, "senders": self.stream.senders, "tick": self.stream.tick / SECOND}
        return JSONResponse({**told, "columns": columns}, headers={"Cache-Control": "no-cache"})

    async def post(self, request: Request) -> Response:
        """Takes a message; answers when its records are committed."""
        key, inbox = self._key(request), self._inbox()
        if why := not_running(self.runner):
            raise why
        with self.limits.holding() as hold:
            body = await whole_body(request, self.largest, seconds=self.limits.body_seconds, hold=hold)
            sent = await self._records(request, body)
            self.dropped[MALFORMED] += sent.dropped
            told = {"accepted": sent.count, "durable": inbox.durable}
            if not sent.count:
                return JSONResponse({**told, "repeated": False})
            own = f"anyone {key} {sha256(body).hexdigest()}" if self.anyone else own_key(request, key)
            try:
                ticket = inbox.put(own, sent.lines(self.runner.now()))
            except InboxFull as full:
                raise later("busy", str(full)) from None
        await committed(ticket)
        return JSONResponse({**told, "repeated": ticket.repeated})

    def _key(self, request: Request) -> str:
        """Who does not choose one sends a message that is never taken for another."""
        told = request.headers.get("batch-key")
        return system_key().hex() if told is None else key_of(told)

    def _inbox(self) -> Inbox | PassingInbox:
        if self.runner.inbox is None or self.stream.senders is None:
            rule = 'stream.source must be "reports" where reports are sent, got another'
            raise HttpRefusal(409, "no_inbox", rule)
        return self.runner.inbox

    async def _records(self, request: Request, body: bytes) -> Sent:
        kind, encoding = media_type(request), request.headers.get("content-encoding", "")
        column, most = request.query_params.get("column"), self.most

        def made() -> Sent:
            return records_of(kind, unpacked(body, encoding, self.largest), self.stream, column, most)

        at_once = len(body) <= AT_ONCE and not encoding
        return made() if at_once else await run_in_threadpool(made)


def public_paths(runner: Runner) -> frozenset[str]:
    """What is anybody's, by the file."""
    return frozenset({REPORTS, COLLECTION} if runner.file.stream.senders == "anyone" else ())
