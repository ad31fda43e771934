"""Signing in: a page shows its token once, and has a session from then on."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.server.asking import Asking, loss_or_none, share_text
from streamgauge.server.bodies import json_object
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.roles import LONGEST, Person, Role, admit, known
from streamgauge.server.sessions import COOKIE, Sessions, give, take_back
from streamgauge.server.tokens import Tokens


class SigningIn:
    """The roads of a session; `https` says that TLS ends in front of the server."""

    def __init__(self, tokens: Tokens, sessions: Sessions, asking: Asking, *, https: bool) -> None:
        self.tokens, self.sessions, self.asking, self.https = tokens, sessions, asking, https

    def routes(self) -> list[Route]:
        path = "/api/session"
        return [
            Route(path, self.open, methods=["POST"]),
            Route(path, self.close, methods=["DELETE"]),
            Route(path, self.tell, methods=["GET"]),
        ]

    async def open(self, request: Request) -> Response:
        """A session for a token."""
        body = await json_object(request)
        secret = body.get("token")
        if set(body) != {"token"} or not isinstance(secret, str):
            raise HttpRefusal(422, "bad_request", "body must have the key token and no other, got others")
        token = self.tokens.known(secret) if len(secret) < LONGEST else None
        if token is None:
            rule = "token must be one that is known and not revoked, got another"
            raise HttpRefusal(401, "bad_token", rule, {"WWW-Authenticate": "Bearer"})
        reply = JSONResponse(await self._told(known(token)))
        self.sessions.close(request.cookies.get(COOKIE, ""))
        give(reply, self.sessions.open(token), secure=self._secure(request))
        return reply

    async def close(self, request: Request) -> Response:
        """Ends a session, if there is one."""
        self.sessions.close(request.cookies.get(COOKIE, ""))
        reply = JSONResponse({"role": None})
        take_back(reply, secure=self._secure(request))
        return reply

    async def tell(self, request: Request) -> Response:
        """Who asks."""
        return JSONResponse(await self._told(admit(request, Role.READER)))

    async def _told(self, person: Person) -> dict[str, object]:
        left = loss_or_none(await self.asking.left(person))
        return {
            "role": person.role.word,
            "name": person.name,
            "share": share_text(person.share),
            "left": left,
        }

    def _secure(self, request: Request) -> bool:
        return self.https or request.url.scheme == "https"
