"""Announced intrusions and rehearsals.

POST /api/intrusions    {"folder": "for-the-court"} -> next round -> {"intrusion": 1, "tick": 212, "folder": ...}
GET /api/rehearsal      an intrusion rehearsed with synthetic people

A refusal by the ledger or the disk is returned at once, and checked again between two rounds of the run. The export
goes to a new folder on the server's disk and never over the network: CLINIC.intrusions/NAME. A client with a
curator's token names the folder, but cannot choose its place. The same name never causes a second intrusion: its
folder exists, or a part of a failed one does. The reply has names and numbers only. It leaves by the clock
(`CommandSchedule`), when readers see the entry in the ledger.

The rehearsal shows declarations of the served file only: the kind of its memory and the protected unit. Looking
at the memory of a real run would be an intrusion.
"""

from functools import partial
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.config.settings import PipelineFile, Stream
from streamgauge.panprivate import LimitExceededError
from streamgauge.panprivate.intrusion_demo import run_intrusion_demo
from streamgauge.privacy import XAdjacent
from streamgauge.runtime.intrusion.export import FOLDER_NAME_PATTERN, build_export_path
from streamgauge.runtime.intrusion.intrude import (
    PUBLIC_CODES,
    IntrusionError,
    check_intrusion,
    find_stream_refusal,
    to_public_intrusion_error,
)
from streamgauge.server.http.auth import Role, find_person, require_role
from streamgauge.server.http.bodies import read_json_object
from streamgauge.server.http.errors import HttpError, build_retry_error
from streamgauge.server.routes.adhoc import AdHocRoutes
from streamgauge.server.runner import Runner
from streamgauge.store.errors import StoreError

FATAL_CODES = {"export_failed", "intrusion_failed"}  # a retry may be another intrusion, so replies request none
RETRY_CODES = {"no_disk_space"}


class IntrusionRoutes:
    """Route of announced intrusions."""

    def __init__(self, adhoc: AdHocRoutes) -> None:
        self.adhoc, self.runner = adhoc, adhoc.runner

    def routes(self) -> list[Route]:
        return [Route("/api/intrusions", require_role(Role.CURATOR, self.announce_intrusion), methods=["POST"])]

    async def announce_intrusion(self, request: Request) -> Response:
        """Run an announced intrusion, and write its export to a new folder next to the file."""
        name = parse_folder_name(await read_json_object(request))
        if why := find_stream_refusal(self.runner.file.stream):
            raise HttpError(409, "not_pan_private", why)
        to = build_export_path(self.runner.file, name)
        await run_in_threadpool(self._check_export, to)
        try:
            found = await self.adhoc.run_command(find_person(request), self.runner.submit_intrusion, to)
        except IntrusionError as refusal:
            raise build_export_refusal(refusal) from None
        return JSONResponse({"intrusion": found.number, "tick": found.tick, "folder": str(found.folder)}, 201)

    def _check_export(self, to: Path) -> None:
        """Check the ledger and the folder, before the command is submitted."""
        try:
            check_intrusion(self.runner.file, to)
        except (LimitExceededError, IntrusionError, StoreError) as refusal:
            if refusal.code not in PUBLIC_CODES:
                raise
            raise build_export_refusal(to_public_intrusion_error(refusal)) from None


def parse_folder_name(body: dict[str, Any]) -> str:
    """Return the name of a folder, without any path."""
    name = body.get("folder")
    if set(body) != {"folder"} or not isinstance(name, str) or FOLDER_NAME_PATTERN.fullmatch(name) is None:
        rule = "1 to 100 letters, digits, - and _, and the only key"
        raise HttpError(422, "bad_folder", f"folder must be {rule}, got something else")
    return name


def build_export_refusal(refusal: IntrusionError) -> HttpError:
    if refusal.code in RETRY_CODES:
        return build_retry_error(refusal.code, str(refusal), seconds=10)
    return HttpError(500 if refusal.code in FATAL_CODES else 409, refusal.code, str(refusal))


REHEARSAL_COUNT = 200  # rehearsals in one answer: Robin came in every other one


def is_rehearsal_visible(file: PipelineFile) -> bool:
    """Return whether readers see the rehearsal: if memory is pan-private, or the file says so."""
    return file.stream.pan_private or file.server.show_intruder


def routes(runner: Runner) -> list[Route]:
    """Return the route of the rehearsal; without one its path is not found."""
    if not is_rehearsal_visible(runner.file):
        return []
    declared = describe_memory(runner.file.stream)

    async def read_rehearsal(request: Request) -> JSONResponse:
        rehearsal = await run_in_threadpool(partial(run_intrusion_demo, REHEARSAL_COUNT))
        return JSONResponse(rehearsal | declared, headers={"Cache-Control": "no-store"})

    return [Route("/api/rehearsal", read_rehearsal, name="rehearsal")]


def describe_memory(stream: Stream) -> dict[str, Any]:
    """Return the kind of memory of a stream, and the rehearsal that is like it."""
    return {
        "this_stream": _name_memory(stream),
        "reports": list(stream.reports),
        "like": "table" if isinstance(stream.unit, XAdjacent) else "counter",
    }


def _name_memory(stream: Stream) -> str:
    if stream.reports:
        return "reports" if len(stream.reports) == len(stream.columns) else "mixed"
    return "pan-private" if stream.pan_private else "ordinary"
