"""The server as one application: routes and middleware.

    access log > security headers > CORS > errors > authentication > routes

The order matters. Requests that authentication rejects are logged and have all headers. No exception passes the
error middleware with its text.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from streamgauge.config.settings import ServerSettings
from streamgauge.server.http.auth import AuthMiddleware, Sessions
from streamgauge.server.http.errors import ErrorMiddleware, Log, render_starlette_error
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.middleware import AccessLog, AllowedHosts, CorsMiddleware, SecurityHeaders
from streamgauge.server.http.read_worker import ReadWorker
from streamgauge.server.http.serving import FoldedLog
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.routes import intrusions as rehearsal
from streamgauge.server.routes import static as page_files
from streamgauge.server.routes.adhoc import AdHocRoutes
from streamgauge.server.routes.events import EventRoutes
from streamgauge.server.routes.intrusions import IntrusionRoutes
from streamgauge.server.routes.ledger import PublicLedger
from streamgauge.server.routes.live import LiveRoutes
from streamgauge.server.routes.login import LoginRoutes
from streamgauge.server.routes.mappers import MapperRoutes
from streamgauge.server.routes.metrics import Metrics
from streamgauge.server.routes.releases import ReleaseRoutes
from streamgauge.server.routes.reports import ReportRoutes, list_public_paths
from streamgauge.server.runner import Runner


def discard_line(line: str) -> None:
    """Discard a log line."""


def build_app(
    runner: Runner,
    tokens: Tokens,
    settings: ServerSettings,
    *,
    extra_routes: Sequence[BaseRoute] = (),
    hosts: AllowedHosts = AllowedHosts(),  # noqa: B008 - frozen
    log: Log = discard_line,
    access: Log = discard_line,
    limits: Limits | None = None,
    sessions: Sessions | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Starlette:
    """Return the application.

    Args: `log` gets messages for the curator, `access` a line for each request; `hosts` are the names of the
    server. Extra routes come first, so they can replace others. Replies that leave by the clock await `sleep`.
    """
    limits = Limits(settings) if limits is None else limits
    sessions = Sessions(tokens) if sessions is None else sessions  # no sessions are false
    forgets = runner.file.stream.pan_private
    metrics, ledger = Metrics(runner, limits, sessions), PublicLedger(runner)
    asking, worker = AdHocRoutes(runner, ledger, limits, sleep), ReadWorker()
    signing_in = LoginRoutes(tokens, sessions, asking, is_https=settings.https)
    public = list_public_paths(runner)
    routes = [
        *extra_routes,
        *EventRoutes(runner, limits, metrics).routes(),
        *ReportRoutes(runner, limits).routes(),
        *asking.routes(),
        *MapperRoutes(runner, limits).routes(),
        *IntrusionRoutes(asking).routes(),
        *ledger.routes(),
        *signing_in.routes(),
        *ReleaseRoutes(runner, settings, limits, worker).routes(),
        *LiveRoutes(runner, limits, worker).routes(),
        *rehearsal.routes(runner),
        Route("/api/openapi.json", read_openapi),
        Route("/healthz", partial(read_health, runner), name="health"),
        *page_files.routes(),
    ]
    in_front = [
        Middleware(AccessLog, log=access, count_request=metrics.count_reply, skip_events=forgets),
        Middleware(SecurityHeaders),
        Middleware(CorsMiddleware, paths=public, is_readable=settings.anonymous),
        Middleware(ErrorMiddleware, log=FoldedLog(log).write),
        Middleware(
            AuthMiddleware,
            tokens=tokens,
            sessions=sessions,
            limits=limits,
            settings=settings,
            hosts=hosts,
            skip_events=forgets,
            public_paths=public,
        ),
    ]
    app = Starlette(routes=routes, middleware=in_front, exception_handlers={HTTPException: render_starlette_error})
    app.router.redirect_slashes = False
    return app


@cache
def load_openapi() -> dict[str, Any]:
    """Return the OpenAPI document, which is the same for every server."""
    document: dict[str, Any] = json.loads(files("streamgauge.server").joinpath("openapi.json").read_bytes())
    return document


async def read_openapi(request: Request) -> Response:
    """GET /api/openapi.json"""
    return JSONResponse(load_openapi(), headers={"Cache-Control": "no-cache"})


async def read_health(runner: Runner, request: Request) -> Response:
    """GET /healthz: the state of the run. The reply depends on the clock and on failures only."""
    if runner.state == "failed":
        return JSONResponse({"status": "failed"}, 503)
    return JSONResponse({"status": "ended" if runner.state == "ended" else "ok"})
