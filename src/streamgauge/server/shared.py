"""Roads that pages of other sites may take: those of devices, where the file says senders = "anyone".

A browser asks first (OPTIONS) whether a page of another site may send; these roads say yes, to all of them,
and never with cookies. All other roads say nothing, which is no.
"""

from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALLOWED = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Content-Type, Content-Encoding, Batch-Key",
    "Access-Control-Max-Age": "86400",
}


class Shared:
    """Around the application; `paths` are shared."""

    def __init__(self, app: ASGIApp, paths: Collection[str]) -> None:
        self.app, self.paths = app, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in self.paths:
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Access-Control-Allow-Origin"] = "*"
                headers["Access-Control-Expose-Headers"] = "Retry-After"
            await send(message)

        asked = scope["method"] == "OPTIONS"
        answer: ASGIApp = Response(status_code=204, headers=ALLOWED) if asked else self.app
        await answer(scope, receive, sending)
