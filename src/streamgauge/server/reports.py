"""Reports by HTTP: devices, or a gateway of the curator's, send what is private already.

    POST /api/reports       a binary message (`localdp.wire`), or JSON: records with codes and other columns
    GET /api/collection     all that a device has to know: the settings of every column of reports
    GET /client.js          a device for browsers (`localdp/client.js`)

**Promise.** A message is refused or taken by rules that look at it alone, at public settings and at the
clock. What arrives before the stream's start (425), from its end on (410), or in a tick that no release takes
which reads one of its columns (503, or 425 where one will), is refused; of a message some of whose records
are taken, the others are left out of `accepted` and counted for the curator. So what is acknowledged came in
a tick that a release takes which reads it. What is stamped in the last tick of all releases and is read after
that closed is never committed, and so never acknowledged; in the last tick of those alone that read it, it is
carried into a later one, where they do not count it. A report that no device can have made is dropped by
itself and counted for the curator; any other moves an estimate by no more than an honest one. `"durable":
true` is said after the commit; a refusal that says `"taken": false` was said before any of this request was
taken. A message that is sent again under its key, with the same content, is counted once, as long as its key
is among the newest that are remembered (`inbox_of`), and answered as the first time: what was left out of it
stays left out. One without a key is not remembered.

**Privacy.** Where senders = "anyone", no token is asked, no cookie is looked at, and pages of all sites may
send (`Shared`). The address of a device is known to the limits and to nothing else: the access log has none.
Nobody is told whether a message was sent before, for whoever guesses one would learn of its plain columns:
not by the reply, as long as releases read the same columns, nor by when it comes (`Inbox.put`), nor by the
public number of reports, since keys must be too long to be guessed.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib.resources import files

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.localdp import wire
from streamgauge.pipeline.book import report_as_json
from streamgauge.pipeline.clock import SECOND
from streamgauge.query.report_texts import text_size
from streamgauge.query.server_table import MOST_RECORDS
from streamgauge.server.accepting import arrival_of_reports, check_running, refuse_unread
from streamgauge.server.access_log import CLIENT, COLLECTION, REPORTS
from streamgauge.server.bodies import media_type, unpacked, whole_body
from streamgauge.server.errors import HttpRefusal, later, nothing_taken
from streamgauge.server.events import AT_ONCE, committed, key_of, own_key
from streamgauge.server.limits import Limits
from streamgauge.server.page_files import TYPES, PageFile, send
from streamgauge.server.report_records import Sent, records_of
from streamgauge.server.roles import Endpoint, Role, needs
from streamgauge.server.runner import Runner
from streamgauge.sources.inbox import Inbox, InboxFull, NotRead, Ticket

EACH = 2**10  # bytes of a message for each record that it may have, beside vectors
MALFORMED, UNTAKEN = "no report", "no release"  # the rules by which records are dropped here
KEY = re.compile(r"[!-~]{22,128}")  # of strangers: 22 letters and digits have room for 128 bits
NO_ROOM = "reports that wait must leave room for others, got too many: send the message again"
WAITS = "the message waits for its commit: send it again, under the same key"
NO_COMMIT = "the run ended before the commit: send the message again"


@dataclass(frozen=True)
class Batch:
    """What a message brings to the inbox."""

    content: str  # stands for all that was sent, and the column that it was sent for
    records: int
    dropped: Counter[str]  # records, by the rule
    lines: bytes = field(repr=False)
    instead: bytes | None = field(default=None, repr=False)  # if the message was sent before


class Collecting:
    """What devices talk to."""

    def __init__(self, runner: Runner, limits: Limits) -> None:
        self.runner, self.limits = runner, limits
        self.stream = runner.file.stream
        self.anyone = self.stream.senders == "anyone"
        settings = runner.file.server
        self.most = settings.max_reports if self.anyone else MOST_RECORDS
        vectors = [report for report in self.stream.reports.values() if report.is_vector]
        each = EACH + sum(text_size(report.claim.report_size) for report in vectors)
        self.largest = min(settings.max_body, each * self.most)

    def routes(self) -> list[Route]:
        return [
            Route(REPORTS, self._for(Role.CURATOR, self.post), methods=["POST"]),
            Route(COLLECTION, self._for(Role.READER, self.tell), methods=["GET"]),
            *([] if self.stream.senders is None else [Route(CLIENT, partial(send, client()), name="client")]),
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
        told = {"name": self.stream.name, "senders": self.stream.senders}
        times = {"start": self.stream.start / SECOND, "tick": self.stream.tick / SECOND}
        return JSONResponse({**told, **times, "columns": columns}, headers={"Cache-Control": "no-cache"})

    async def post(self, request: Request) -> Response:
        """Takes a message; answers when its records are committed."""
        with nothing_taken(), self.limits.holding() as hold:
            key, inbox = self._key(request), self._inbox()
            arrival_of_reports(self.runner)
            check_running(self.runner, "reports")
            body = await whole_body(request, self.largest, seconds=self.limits.body_seconds, hold=hold)
            batch = await self._batch(request, body)
            self.runner.dropped += batch.dropped
            if not batch.records:
                return self._told(inbox, 0, repeated=False)
            ticket = self._put(inbox, key and f"{key} {batch.content}", batch)
        await committed(self.runner, ticket, "reports", WAITS, NO_COMMIT)
        return self._told(inbox, ticket.records, repeated=ticket.repeated)

    def _told(self, inbox: Inbox, accepted: int, *, repeated: bool) -> Response:
        told = {"accepted": accepted, "durable": inbox.durable}
        return JSONResponse(told if self.anyone else {**told, "repeated": repeated})

    def _put(self, inbox: Inbox, key: str | None, batch: Batch) -> Ticket:
        try:
            return inbox.put(key, batch.lines, records=batch.records, instead=batch.instead)
        except NotRead:
            refuse_unread(self.runner, "reports")
        except InboxFull:
            raise later("busy", NO_ROOM) from None

    def _key(self, request: Request) -> str | None:
        """Who does not choose one sends a message that is never taken for another."""
        told = request.headers.get("batch-key")
        if told is None:
            return None
        if self.anyone and KEY.fullmatch(told) is None:
            rule = "22 to 128 visible ASCII characters, drawn at random, or left out"
            raise HttpRefusal(422, "batch_key", f"batch key must be {rule}, got others")
        return f"anyone {told}" if self.anyone else own_key(request, key_of(told))

    def _inbox(self) -> Inbox:
        inbox = self.runner.inbox
        if not isinstance(inbox, Inbox) or self.stream.senders is None:
            rule = 'stream.source must be "reports" where reports are sent, got another'
            raise HttpRefusal(409, "no_inbox", rule)
        return inbox

    async def _batch(self, request: Request, body: bytes) -> Batch:
        kind, encoding = media_type(request), request.headers.get("content-encoding", "")
        column, most = request.query_params.get("column"), self.most

        def made() -> Batch:
            sent = records_of(kind, unpacked(body, encoding, self.largest), self.stream, column, most)
            return self._stamped(sent, f"{sha256(body).hexdigest()} {column}")

        at_once = len(body) <= AT_ONCE and not encoding
        return made() if at_once else await run_in_threadpool(made)

    def _stamped(self, sent: Sent, content: str) -> Batch:
        """The records that are taken now. What a stranger sends again is read as if it had come before the
        start: it counts for nothing."""
        if not sent.count:
            return Batch(content, 0, Counter({MALFORMED: sent.dropped}), b"")
        arrival = arrival_of_reports(self.runner, sent.columns)
        taken = sent.only(arrival.takes)
        dropped = Counter({MALFORMED: sent.dropped, UNTAKEN: sent.count - taken.count})
        instead = taken.lines(self.stream.start - 1) if self.anyone else None
        return Batch(content, taken.count, dropped, taken.lines(arrival.moment), instead)


def public_paths(runner: Runner) -> frozenset[str]:
    """What is anybody's, by the file."""
    return frozenset({REPORTS, COLLECTION, CLIENT} if runner.file.stream.senders == "anyone" else ())


def client() -> PageFile:
    """A device for browsers, for any page."""
    return PageFile(files("streamgauge.localdp").joinpath("client.js").read_bytes(), TYPES[".js"])
