"""POST /api/intrusions: the curator announces an intrusion, which is held while the server goes on.

    {"folder": "for-the-court"} -> the run's next turn -> {"intrusion": 1, "tick": 212, "folder": ...}

What can be refused without a key is refused at once, and again when the run is set down for it. The answer
has names and numbers alone: what was seen lies on the server's disk (`announced`). It leaves by the clock
(`gathering`), when readers see the act in the ledger.
"""

from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.panprivate import NoIntrusionLeft
from streamgauge.pipeline.handed_over import PlaceTaken
from streamgauge.pipeline.intruding import IntrusionRefused, check_intrusion, ordinary
from streamgauge.server.announced import NAME, Announced, NotHandedOver, place_of, why_not
from streamgauge.server.asking import Asking
from streamgauge.server.bodies import json_object
from streamgauge.server.errors import HttpRefusal, later
from streamgauge.server.roles import Role, needs, person_of

BROKEN = {"lost", "failed"}  # another try may be another intrusion, so nobody is told to try again
LATER = {"no_room", "key_away"}


class Intrusions:
    """What a curator talks to when somebody has a right to look."""

    def __init__(self, asking: Asking) -> None:
        self.asking, self.runner = asking, asking.runner

    def routes(self) -> list[Route]:
        return [Route("/api/intrusions", needs(Role.CURATOR, self.announce), methods=["POST"])]

    async def announce(self, request: Request) -> Response:
        """Holds an announced intrusion, and writes what is handed over to a new folder beside the file."""
        name = name_in(await json_object(request))
        if why := ordinary(self.runner.file.stream):
            raise HttpRefusal(409, "not_pan_private", why)
        to = place_of(self.runner.file, name)
        await run_in_threadpool(self._check, to)
        try:
            found = await self.asking.in_turn(person_of(request), self.runner.intruding, to)
        except NotHandedOver as refusal:
            raise refused(refusal) from None
        return JSONResponse(as_json(found), 201)

    def _check(self, to: Path) -> None:
        """What needs no key, before the run is set down."""
        try:
            check_intrusion(self.runner.file, to)
        except (NoIntrusionLeft, IntrusionRefused, PlaceTaken) as refusal:
            raise refused(why_not(refusal)) from None


def name_in(body: dict[str, Any]) -> str:
    """The name of a folder, and of nothing else."""
    name = body.get("folder")
    if set(body) != {"folder"} or not isinstance(name, str) or NAME.fullmatch(name) is None:
        rule = "1 to 100 letters, digits, - and _, and the only key"
        raise HttpRefusal(422, "bad_folder", f"folder must be {rule}, got something else")
    return name


def refused(refusal: NotHandedOver) -> HttpRefusal:
    if refusal.code in LATER:
        return later(refusal.code, str(refusal), seconds=10)
    return HttpRefusal(500 if refusal.code in BROKEN else 409, refusal.code, str(refusal))


def as_json(found: Announced) -> dict[str, Any]:
    return {"intrusion": found.number, "tick": found.tick, "folder": str(found.folder)}
