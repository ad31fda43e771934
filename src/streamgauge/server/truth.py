"""The truth beside what was released: for demonstrations alone, where nobody real is in the stream.

Privacy
    There is no truth unless whoever builds the server brings one: `serve` never does, so that a real server
    has no such route. What brings it must not have real people in it.
"""

from typing import Any, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from streamgauge.server.errors import HttpRefusal

MOST = 10_000  # ticks of one answer


class Truth(Protocol):
    """What the demonstration's own records say."""

    def columns(self, release: str, first: int, last: int) -> dict[str, Any] | None:
        """In the columns form, with values alone; none of a release that there is not."""
        ...


def routes(truth: Truth) -> list[Route]:
    """GET /api/truth?release=&from=&to="""

    async def tell(request: Request) -> JSONResponse:
        asked = request.query_params
        first, last = _whole(asked.get("from")), _whole(asked.get("to"))
        if first is None or last is None or not 1 <= first <= last < first + MOST:
            rule = f"from and to must be ticks in order, at most {MOST:,} of them, got others"
            raise HttpRefusal(422, "bad_request", rule)
        told = await run_in_threadpool(truth.columns, asked.get("release", ""), first, last)
        if told is None:
            raise HttpRefusal(404, "not_found", "release must be one that was charged, got another")
        return JSONResponse(told)

    return [Route("/api/truth", tell, name="truth")]


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None
