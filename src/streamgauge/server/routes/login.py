"""Sessions: a page sends its token once, and gets a cookie."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.runtime.ledger.log import loss_as_json
from streamgauge.server.http.auth import (
    COOKIE_NAME,
    MAX_TOKEN_CHARS,
    Person,
    Role,
    Sessions,
    check_role,
    delete_cookie,
    set_cookie,
    to_person,
)
from streamgauge.server.http.bodies import read_json_object
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.routes.adhoc import AdHocRoutes


class LoginRoutes:
    """Routes of sessions; `is_https` means that a proxy terminates TLS."""

    def __init__(self, tokens: Tokens, sessions: Sessions, adhoc: AdHocRoutes, *, is_https: bool) -> None:
        self.tokens, self.sessions, self.adhoc, self.is_https = tokens, sessions, adhoc, is_https

    def routes(self) -> list[Route]:
        path = "/api/session"
        return [
            Route(path, self.create_session, methods=["POST"]),
            Route(path, self.delete_session, methods=["DELETE"]),
            Route(path, self.read_session, methods=["GET"]),
        ]

    async def create_session(self, request: Request) -> Response:
        """POST /api/session"""
        body = await read_json_object(request)
        secret = body.get("token")
        if set(body) != {"token"} or not isinstance(secret, str):
            raise HttpError(422, "bad_request", "body must have the key token and no other, got others")
        token = self.tokens.find_by_secret(secret) if len(secret) < MAX_TOKEN_CHARS else None
        if token is None:
            rule = "token must be one that is known and not revoked, got another"
            raise HttpError(401, "bad_token", rule, {"WWW-Authenticate": "Bearer"})
        person = to_person(token)
        if not person.role.includes(Role.READER):
            rule = f"role must be reader or more to sign in, got {person.role.word}"
            raise HttpError(403, "wrong_role", f"{rule}, whose token posts events and reads nothing")
        reply = JSONResponse(await self._person_as_json(person))
        self.sessions.close(request.cookies.get(COOKIE_NAME, ""))
        set_cookie(reply, self.sessions.create(token), secure=self._is_secure(request))
        return reply

    async def delete_session(self, request: Request) -> Response:
        """DELETE /api/session"""
        self.sessions.close(request.cookies.get(COOKIE_NAME, ""))
        reply = JSONResponse({"role": None})
        delete_cookie(reply, secure=self._is_secure(request))
        return reply

    async def read_session(self, request: Request) -> Response:
        """GET /api/session"""
        return JSONResponse(await self._person_as_json(check_role(request, Role.READER)))

    async def _person_as_json(self, person: Person) -> dict[str, object]:
        left = loss_as_json(await self.adhoc.compute_remaining(person))
        share = None if person.share is None else str(person.share)
        return {"role": person.role.word, "name": person.name, "share": share, "remaining": left}

    def _is_secure(self, request: Request) -> bool:
        return self.is_https or request.url.scheme == "https"
