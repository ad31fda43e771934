"""The whole server as one application: its routes, and what stands in front of them.

    access log > security headers > shared > guard > admission > routes

The order matters: what is refused at the door is logged and has all headers, and no exception leaves the
guard with its words.
"""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from streamgauge.query.settings import ServerSettings
from streamgauge.server import live, page_files, reading, rehearsal
from streamgauge.server.access_log import AccessLog
from streamgauge.server.asking import Asking
from streamgauge.server.errors import Guard, Log, http_error
from streamgauge.server.events import Events
from streamgauge.server.folded_log import FoldedLog
from streamgauge.server.hosts import Hosts
from streamgauge.server.intrusions import Intrusions
from streamgauge.server.limits import Limits
from streamgauge.server.metrics import Metrics
from streamgauge.server.openapi import document
from streamgauge.server.public_ledger import PublicLedger
from streamgauge.server.read_worker import ReadWorker
from streamgauge.server.reports import Collecting, public_paths
from streamgauge.server.roles import Admission
from streamgauge.server.runner import Runner
from streamgauge.server.security_headers import SecurityHeaders
from streamgauge.server.sessions import Sessions
from streamgauge.server.shared import Shared
from streamgauge.server.signing_in import SigningIn
from streamgauge.server.tokens import Tokens


def unheard(line: str) -> None:
    """Nobody listens."""


def app_of(
    runner: Runner,
    tokens: Tokens,
    settings: ServerSettings,
    *,
    extra_routes: Sequence[BaseRoute] = (),
    hosts: Hosts = Hosts(),  # noqa: B008 - frozen
    log: Log = unheard,
    access: Log = unheard,
) -> Starlette:
    """`log` takes what the curator should look at, `access` a line per request; `hosts` are our names."""
    limits, sessions, forgets = Limits(settings), Sessions(tokens), runner.file.stream.pan_private
    metrics, ledger = Metrics(runner, limits, sessions), PublicLedger(runner)
    asking, worker = Asking(runner, ledger, limits), ReadWorker()
    signing_in = SigningIn(tokens, sessions, asking, https=settings.https)
    public = public_paths(runner)
    routes = [
        *Events(runner, limits, metrics).routes(),
        *Collecting(runner, limits).routes(),
        *asking.routes(),
        *Intrusions(asking).routes(),
        *ledger.routes(),
        *signing_in.routes(),
        *reading.routes(runner, settings, limits, worker),
        *live.routes(runner, limits, worker),
        *rehearsal.routes(runner),
        Route("/api/openapi.json", described),
        Route("/healthz", Health(runner).tell),
        *extra_routes,
        *page_files.routes(),
    ]
    in_front = [
        Middleware(AccessLog, log=access, counted=metrics.answered, forgets=forgets),
        Middleware(SecurityHeaders),
        Middleware(Shared, paths=public, readable=settings.anonymous),
        Middleware(Guard, log=FoldedLog(log).line),
        Middleware(
            Admission,
            tokens=tokens,
            sessions=sessions,
            limits=limits,
            settings=settings,
            hosts=hosts,
            forgets=forgets,
            public=public,
        ),
    ]
    app = Starlette(routes=routes, middleware=in_front, exception_handlers={HTTPException: http_error})
    app.router.redirect_slashes = False
    return app


async def described(request: Request) -> Response:
    """GET /api/openapi.json"""
    return JSONResponse(document(), headers={"Cache-Control": "no-cache"})


class Health:
    """GET /healthz: whether the run goes on. What it says follows from the clock, or from a failure."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    async def tell(self, request: Request) -> Response:
        state = self.runner.state
        if state == "failed":
            return JSONResponse({"status": "failed"}, 503)
        return JSONResponse({"status": "ended" if state == "ended" else "ok"})
