"""GET /api/rehearsal: an intrusion rehearsed over made-up people (`streamgauge.panprivate.rehearsal`).

Of the run behind the server it tells what its file declares, whether its memory is pan-private, or of reports
that devices have made private, and whom it protects, and nothing else: looking at the memory of a real run
would be an intrusion.
"""

from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from streamgauge.panprivate.rehearsal import rehearsed
from streamgauge.privacy import XAdjacent
from streamgauge.query.settings import PipelineFile, Stream
from streamgauge.server.runner import Runner

TIMES = 200  # rehearsals in one answer: Robin came in every other one


def shows_intruder(file: PipelineFile) -> bool:
    """Return whether readers see the rehearsal: if memory is pan-private, or the file says so."""
    return file.stream.pan_private or file.server.show_intruder


def routes(runner: Runner) -> list[Route]:
    """Return the route of the rehearsal; without one its path is not found."""
    if not shows_intruder(runner.file):
        return []
    declared = about(runner.file.stream)

    async def rehearsal(request: Request) -> JSONResponse:
        told = await run_in_threadpool(partial(rehearsed, TIMES))
        return JSONResponse(told | declared, headers={"Cache-Control": "no-store"})

    return [Route("/api/rehearsal", rehearsal, name="rehearsal")]


def about(stream: Stream) -> dict[str, Any]:
    """Which memory a stream has, and which of the rehearsals is like it."""
    return {
        "this_stream": _memory(stream),
        "reports": list(stream.reports),
        "like": "table" if isinstance(stream.unit, XAdjacent) else "counter",
    }


def _memory(stream: Stream) -> str:
    if stream.reports:
        return "reports" if len(stream.reports) == len(stream.columns) else "mixed"
    return "pan-private" if stream.pan_private else "ordinary"
