"""Roads that pages of other sites may take: those of devices, and of readers whom nobody asks who they are.

    senders = "anyone"     /api/reports, /api/collection, /client.js
    anonymous = true       GET of releases, the live stream and the ledger, without a token or a cookie

A browser asks first (OPTIONS) whether a page of another site may send; the roads of devices say yes, to all
of them, and those of readers to what reads. Never with cookies: a reply to a reader whose request has one,
or a token, says nothing of other sites, which is no. So do all other roads.
"""

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SENDING = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Content-Type, Content-Encoding, Batch-Key",
    "Access-Control-Max-Age": "86400",
}
READING = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "If-None-Match",
    "Access-Control-Max-Age": "86400",
}
READ = {"/api/releases", "/api/live", "/api/ledger", "/api/ledger/acts"}
RELEASE = "/api/releases/"
METHODS = {"GET", "HEAD"}


class Shared:
    """Around the application; `paths` are devices', and `readable` says whether anybody may read."""

    def __init__(self, app: ASGIApp, paths: Collection[str], *, readable: bool = False) -> None:
        self.app, self.paths, self.readable = app, frozenset(paths), readable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shared = self._shared(scope) if scope["type"] == "http" else None
        if shared is None:
            await self.app(scope, receive, send)
            return
        exposed = "Retry-After" if shared is SENDING else "Retry-After, ETag, Link, Row-Count, Tick-Count"

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Access-Control-Allow-Origin"] = "*"
                headers["Access-Control-Expose-Headers"] = exposed
            await send(message)

        asked = scope["method"] == "OPTIONS"
        answer: ASGIApp = Response(status_code=204, headers=shared) if asked else self.app
        await answer(scope, receive, sending)

    def _shared(self, scope: Scope) -> dict[str, str] | None:
        """What other sites may do on a road; None is nothing."""
        path = scope["path"]
        if path in self.paths:
            return SENDING
        road = path in READ or path.startswith(RELEASE)
        return READING if self.readable and road and is_anybodys(scope) else None


def is_anybodys(scope: Scope) -> bool:
    """Whether a request reads, or asks whether it may, and nothing in it says of whom it is."""
    headers, method = Headers(scope=scope), scope["method"]
    wanted = headers.get("access-control-request-method") if method == "OPTIONS" else method
    return wanted in METHODS and not {"authorization", "cookie"} & set(headers)
