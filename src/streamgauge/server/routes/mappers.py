"""POST /api/mappers/check: the refusal of a mapper with its line, and a dry run on typed rows.

**Privacy.** Nothing here reads the stream, the store or the ledger. The rows are those of the request.
"""

from collections.abc import Mapping
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.config.errors import PipelineFileError
from streamgauge.config.mapper import MAPPER_KEYS, MapperSourceError, parse_mapper_table
from streamgauge.config.settings import Stream
from streamgauge.config.toml_table import TomlTable
from streamgauge.mapreduce.dry_run import MAX_ROWS, TriedRow, try_rows
from streamgauge.server.http.auth import Role, find_person, require_role
from streamgauge.server.http.bodies import read_json_object
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.limits import Limits
from streamgauge.server.runner import Runner

BODY_KEYS = ("map", "rows")


class MapperRoutes:
    """Route of the page's editor."""

    def __init__(self, runner: Runner, limits: Limits) -> None:
        self.runner, self.limits = runner, limits
        self._limiter = CapacityLimiter(1)

    def routes(self) -> list[Route]:
        check = require_role(Role.ANALYST, self.check_mapper)
        return [Route("/api/mappers/check", check, methods=["POST"])]

    async def check_mapper(self, request: Request) -> Response:
        """Return the refusal of a mapper, or the pairs of the typed rows."""
        body, person = await read_json_object(request), find_person(request)
        self.limits.count_plan(person.client)
        found = await to_thread.run_sync(check_mapper_body, body, self.runner.file.stream, limiter=self._limiter)
        return JSONResponse(found)


def check_mapper_body(body: Mapping[str, Any], stream: Stream) -> dict[str, Any]:
    """Return the reply to a checked mapper.

    Raises:
        HttpError: The body has other keys, or rows that are not objects.
    """
    rows = body.get("rows", [])
    if "map" not in body or set(body) - set(BODY_KEYS) or not isinstance(rows, list) or len(rows) > MAX_ROWS:
        raise HttpError(422, "bad_mapper", f"body must have map and at most {MAX_ROWS} rows, got another")
    if not all(isinstance(row, Mapping) for row in rows):
        raise HttpError(422, "bad_mapper", "rows must be objects with a value for each column, got others")
    try:
        mapper = parse_mapper_table("map", TomlTable.parse("map", body["map"], MAPPER_KEYS), None, stream)
    except PipelineFileError as refusal:
        line = refusal.line if isinstance(refusal, MapperSourceError) else None
        return {"refusal": {"message": str(refusal), "line": line}, "rows": []}
    return {"refusal": None, "rows": [row_as_json(each) for each in try_rows(mapper.program, rows, mapper.bounds)]}


def row_as_json(row: TriedRow) -> dict[str, Any]:
    pairs = [{"key": key, "value": value} for key, value in row.pairs]
    return {"pairs": pairs, "steps": row.steps, "is_complete": row.is_complete}
