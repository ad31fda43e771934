"""Roles: who asks, and what they may do.

    reader < analyst < curator        each may do what the one before may

A request comes with a bearer token or with the cookie of a session; without both it is a reader's where the
file says `anonymous = true`, and nobody's elsewhere. Nothing under /api answers to nobody but what is OPEN.

**Promise.** A request with a cookie that changes something must come from our own page: its browser says so
(Sec-Fetch-Site, or an Origin that is our own host), and it is JSON, which a form of another site cannot send.
What other sites make a browser send is refused without a cookie as well.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import wraps
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from streamgauge.query.settings import ServerSettings
from streamgauge.server.bodies import JSON
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.limits import Limits
from streamgauge.server.sessions import COOKIE, Sessions
from streamgauge.server.tokens import Token, Tokens

OPEN = {"/api/session", "/api/openapi.json"}
SAFE = {"GET", "HEAD", "OPTIONS"}
LONGEST = 200  # characters of a token

Endpoint = Callable[[Request], Awaitable[Response]]


class Role(IntEnum):
    """In the order of what they may do."""

    NOBODY = 0
    READER = 1
    ANALYST = 2
    CURATOR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Person:
    """Who asks: `client` is what limits are counted by."""

    role: Role
    client: str
    name: str | None = None
    share: Fraction | None = None


def person_of(request: HTTPConnection) -> Person:
    found: Person = request.scope["person"]
    return found


def admit(request: HTTPConnection, role: Role) -> Person:
    """Who asks, if they may."""
    person = person_of(request)
    if person.role == Role.NOBODY:
        rule = "a token must be sent as Authorization: Bearer TOKEN, got none"
        raise HttpRefusal(401, "no_token", rule, {"WWW-Authenticate": "Bearer"})
    if person.role < role:
        rule = f"role must be {role.word} or more, got {person.role.word}"
        raise HttpRefusal(403, "wrong_role", rule)
    return person


def needs(role: Role, endpoint: Endpoint) -> Endpoint:
    """An endpoint for those who may."""

    @wraps(endpoint)
    async def entered(request: Request) -> Response:
        admit(request, role)
        return await endpoint(request)

    return entered


class Admission:
    """At the door: finds out who asks, counts the request, and looks where it comes from."""

    def __init__(
        self, app: ASGIApp, tokens: Tokens, sessions: Sessions, limits: Limits, settings: ServerSettings
    ) -> None:
        self.app, self.tokens, self.sessions = app, tokens, sessions
        self.limits, self.settings = limits, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            scope["person"] = self._person(request)
            path = scope["path"]
            if path.startswith("/api/") and path not in OPEN:
                admit(request, Role.READER)
        await self.app(scope, receive, send)

    def _person(self, request: Request) -> Person:
        try:
            token = self._bearer(request)
        except HttpRefusal:
            self.limits.turn(address(request))
            raise
        if token is None:
            from_our_page(request)
            token = self.sessions.token(request.cookies.get(COOKIE, ""))
        nobody = Role.READER if self.settings.anonymous else Role.NOBODY
        person = Person(nobody, address(request)) if token is None else known(token)
        self.limits.turn(person.client)
        return person

    def _bearer(self, request: Request) -> Token | None:
        told = request.headers.get("authorization")
        if told is None:
            return None
        scheme, _, secret = told.partition(" ")
        token = self.tokens.known(secret.strip()) if len(secret) < LONGEST else None
        if scheme.lower() != "bearer" or token is None:
            rule = "token must be one that is known and not revoked, got another"
            raise HttpRefusal(401, "bad_token", rule, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        return token


def known(token: Token) -> Person:
    return Person(Role[token.role.upper()], f"token {token.id}", token.name, token.share)


def address(request: HTTPConnection) -> str:
    """Where a request comes from; of the sixth version the half that one customer has.

    >>> address(HTTPConnection({"type": "http", "client": ("2001:db8::7", 1)}))
    'address 2001:db8::'
    """
    host = "" if request.client is None else request.client.host
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return f"address {host}"
    if found.version == 6:
        return f"address {ip_network((found, 64), strict=False).network_address}"
    return f"address {found}"


def from_our_page(request: Request) -> None:
    """Refuses what another site made a browser send."""
    if request.method in SAFE:
        return
    headers, with_cookie = request.headers, COOKIE in request.cookies
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        ours: bool | None = site == "same-origin" or (site == "none" and not with_cookie)
    else:
        ours = None if origin is None else urlsplit_host(origin) == headers.get("host", "").lower()
    if ours is False or (with_cookie and not ours):
        raise HttpRefusal(
            403, "cross_site", "a request with a cookie must come from our own page, got another"
        )
    if with_cookie and headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HttpRefusal(415, "media_type", f"content type must be {JSON}, got another")


def urlsplit_host(origin: str) -> str:
    """Host and port of an origin, nothing of what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
