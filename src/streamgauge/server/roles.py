"""Roles: who asks, and what they may do.

    reader < analyst < curator        each may do what the one before may

A request comes with a bearer token or with the cookie of a session; without both it is a reader's where the
file says `anonymous = true`, and nobody's elsewhere. Nothing under /api answers to nobody but what is OPEN.

**Promise.** A request with a cookie that changes something must come from our own page: its browser says so
(Sec-Fetch-Site, or an Origin that is our own host), and it is JSON, which a form of another site cannot send.
What other sites make a browser send is refused without a cookie as well, and what is asked under a name that
is not ours (`hosts`). Where devices may send reports, nobody is anybody: no token and no cookie counts there.
Whatever is refused at the door counts against the rate of its address.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from functools import wraps

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from streamgauge.query.settings import ServerSettings
from streamgauge.server.access_log import EVENTS
from streamgauge.server.addresses import neighbourhood
from streamgauge.server.bodies import JSON
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.hosts import Hosts, urlsplit_host
from streamgauge.server.limits import LARGEST_HEAD, Limits
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


def always() -> bool:
    """Nothing ends it."""
    return True


@dataclass(frozen=True)
class Person:
    """Who asks: `client` is what limits are counted by, `still` whether they may go on with what lasts."""

    role: Role
    client: str
    name: str | None = None
    share: Fraction | None = None
    still: Callable[[], bool] = field(default=always, compare=False, repr=False)


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
        self,
        app: ASGIApp,
        tokens: Tokens,
        sessions: Sessions,
        limits: Limits,
        *,
        settings: ServerSettings,
        hosts: Hosts,
        forgets: bool = False,
        public: Collection[str] = (),
    ) -> None:
        self.app, self.tokens, self.sessions = app, tokens, sessions
        self.limits, self.settings, self.hosts = limits, settings, hosts
        self.forgets = forgets  # whether it is not remembered how often events came, nor when
        self.public = frozenset(public)  # paths where nobody is asked who they are: devices send there

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            scope["person"] = self._counted(request)
            path = scope["path"]
            if path.startswith("/api/") and path not in OPEN | self.public:
                admit(request, Role.READER)
        await self.app(scope, receive, send)

    def _counted(self, request: Request) -> Person:
        try:
            short_head(request)
            self.hosts.check(request.headers.get("host"))
            person = self._person(request)
        except HttpRefusal:
            self.limits.turn(address(request))
            raise
        if not (self.forgets and person.role == Role.CURATOR and request.url.path.startswith(EVENTS)):
            self.limits.turn(person.client)
        return person

    def _person(self, request: Request) -> Person:
        if request.url.path in self.public:
            return Person(Role.NOBODY, address(request))
        token = self._bearer(request)
        if token is not None:
            number = token.id
            return known(token, lambda: self.tokens.still(number) is not None)
        from_our_page(request, self.hosts)
        secret = request.cookies.get(COOKIE, "")
        token = self.sessions.token(secret)
        if token is not None:
            return known(token, lambda: self.sessions.token(secret) is not None)
        return Person(Role.READER if self.settings.anonymous else Role.NOBODY, address(request))

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


def known(token: Token, still: Callable[[], bool] = always) -> Person:
    return Person(Role[token.role.upper()], f"token {token.id}", token.name, token.share, still)


def address(request: HTTPConnection) -> str:
    """Where a request comes from."""
    return f"address {neighbourhood('' if request.client is None else request.client.host)}"


def short_head(request: Request) -> None:
    """Refuses a head that is too long."""
    target = len(request.scope.get("raw_path") or b"") + len(request.scope["query_string"])
    if target + sum(len(name) + len(value) + 4 for name, value in request.headers.raw) > LARGEST_HEAD:
        rule = f"head must be at most {LARGEST_HEAD} bytes, got more"
        raise HttpRefusal(431, "head", rule, {"Connection": "close"})


def from_our_page(request: Request, hosts: Hosts) -> None:
    """Refuses what another site made a browser send."""
    if request.method in SAFE:
        return
    headers, with_cookie = request.headers, COOKIE in request.cookies
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        here = origin is None or hosts.same(origin, headers.get("host", ""))
        ours: bool | None = (site == "same-origin" and here) or (site == "none" and not with_cookie)
    else:
        ours = None if origin is None else urlsplit_host(origin) == headers.get("host", "").lower()
    if ours is False or (with_cookie and not ours):
        raise HttpRefusal(
            403, "cross_site", "a request with a cookie must come from our own page, got another"
        )
    if with_cookie and headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HttpRefusal(415, "media_type", f"content type must be {JSON}, got another")
