"""Authentication, roles and sessions.

    reader < analyst < curator        each has the rights of the one before
    sender                            posts events or reports, and reads the status of its own batches; nothing else

A request has a bearer token or the cookie of a session. Without both it is a reader's if the file says
`anonymous = true`, else it has no role. Only OPEN_PATHS under /api answer requests without a role.

**Promise.** A request with a cookie that changes something must come from our own page. Its browser confirms
that (Sec-Fetch-Site, or an Origin of our host), and it is JSON, which a form of another site cannot send.
Requests that other sites cause are rejected without a cookie, too, as are unknown hosts. Paths of devices use
no token and no cookie. Rejected requests count against the rate of their address.

A page exchanges its token for a session cookie, since an EventSource cannot send bearer tokens. A session id is
256 random bits. Memory has its SHA-256 only, the disk nothing. It ends after SESSION_SECONDS, when it is
closed, when its token is revoked, or with the process. Scripts cannot read the cookie (HttpOnly), other sites
do not send it (SameSite=Strict), and it is not sent unencrypted if the connection is encrypted (Secure).
"""

import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from functools import wraps

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from streamgauge.config.settings import ServerSettings
from streamgauge.server.http.bodies import JSON_TYPE
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.limits import MAX_HEAD_BYTES, Limits, to_client_network
from streamgauge.server.http.middleware import EVENTS_PATH, REPORTS_PATH, AllowedHosts, parse_origin_host
from streamgauge.server.http.tokens import Token, Tokens, compute_digest, create_secret

COOKIE_NAME = "streamgauge"
SESSION_SECONDS = 12 * 3600  # seconds
MAX_SESSIONS = 10_000  # sessions, of all tokens: beyond it the oldest end
MAX_TOKEN_SESSIONS = 100


class Sessions:
    """Open sessions by the hash of their id: the number of the token, and the end time."""

    def __init__(
        self, tokens: Tokens, *, now: Callable[[], float] = time.monotonic, max_per_token: int = MAX_TOKEN_SESSIONS
    ) -> None:
        self._tokens, self._now, self._max_per_token = tokens, now, max_per_token
        self._open: dict[bytes, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def create(self, token: Token) -> str:
        """Open a session; return its id."""
        self._evict_oldest(token.id)
        secret = create_secret()
        self._open[compute_digest(secret)] = (token.id, self._now() + SESSION_SECONDS)
        return secret

    def find_token(self, secret: str) -> Token | None:
        """Return the token of a session that has not ended."""
        digest = compute_digest(secret)
        number, until = self._open.get(digest, (0, 0.0))
        token = self._tokens.find_active(number) if self._now() < until else None
        if token is None:
            self._open.pop(digest, None)
        return token

    def close(self, secret: str) -> None:
        self._open.pop(compute_digest(secret), None)

    def _evict_oldest(self, number: int) -> None:
        """Close the oldest session if there are too many. Sessions of one token never evict those of others."""
        now = self._now()
        for digest in [digest for digest, (_, until) in self._open.items() if until <= now]:
            del self._open[digest]
        own = [digest for digest, (whose, _) in self._open.items() if whose == number]
        if len(own) >= self._max_per_token:
            del self._open[own[0]]
        elif len(self._open) >= MAX_SESSIONS:
            del self._open[next(iter(self._open))]


def set_cookie(reply: Response, secret: str, *, secure: bool) -> None:
    """Set the cookie of a session in a reply."""
    reply.set_cookie(COOKIE_NAME, secret, SESSION_SECONDS, path="/", secure=secure, httponly=True, samesite="strict")


def delete_cookie(reply: Response, *, secure: bool) -> None:
    reply.delete_cookie(COOKIE_NAME, path="/", secure=secure, httponly=True, samesite="strict")


OPEN_PATHS = {"/api/session", "/api/openapi.json"}
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
MAX_TOKEN_CHARS = 200  # characters of a token

Endpoint = Callable[[Request], Awaitable[Response]]


class Role(IntEnum):
    """Roles in ascending order of rights. Only senders and curators may send."""

    ANONYMOUS = 0
    SENDER = 1
    READER = 2
    ANALYST = 3
    CURATOR = 4

    @property
    def word(self) -> str:
        return self.name.lower()

    def includes(self, role: "Role") -> bool:
        """Return whether this role has the rights of another.

        >>> [Role.CURATOR.includes(Role.SENDER), Role.ANALYST.includes(Role.SENDER), Role.SENDER.includes(Role.READER)]
        [True, False, False]
        """
        return self in (role, Role.CURATOR) or (self > role and role is not Role.SENDER)


def is_always_allowed() -> bool:
    """Return True: nothing ends the right."""
    return True


@dataclass(frozen=True)
class Person:
    """A client: `client` is the key of its limits, `is_allowed` says if a long reply may continue."""

    role: Role
    client: str
    name: str | None = None
    share: Fraction | None = None
    is_allowed: Callable[[], bool] = field(default=is_always_allowed, compare=False, repr=False)


def find_person(request: HTTPConnection) -> Person:
    found: Person = request.scope["person"]
    return found


def check_role(request: HTTPConnection, role: Role) -> Person:
    """Return the client of a request if its role suffices."""
    person = find_person(request)
    if person.role == Role.ANONYMOUS:
        rule = "a token must be sent as Authorization: Bearer TOKEN, got none"
        raise HttpError(401, "no_token", rule, {"WWW-Authenticate": "Bearer"})
    if not person.role.includes(role):
        words = "sender or curator" if role is Role.SENDER else f"{role.word} or more"
        rule = f"role must be {words}, got {person.role.word}"
        raise HttpError(403, "wrong_role", rule)
    return person


def require_role(role: Role, endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint with a check of the role."""

    @wraps(endpoint)
    async def checked_endpoint(request: Request) -> Response:
        check_role(request, role)
        return await endpoint(request)

    return checked_endpoint


class AuthMiddleware:
    """Authentication: finds the client, counts the request and checks its origin."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        sessions: Sessions,
        limits: Limits,
        *,
        settings: ServerSettings,
        hosts: AllowedHosts,
        skip_events: bool = False,
        public_paths: Collection[str] = (),
    ) -> None:
        self.app, self.tokens, self.sessions = app, tokens, sessions
        self.limits, self.settings, self.hosts = limits, settings, hosts
        self.skip_events = skip_events  # whether requests with events are not counted
        self.public_paths = frozenset(public_paths)  # paths of devices, without authentication

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            scope["person"] = self._count_request(request)
            path = scope["path"]
            if path.startswith("/api/") and path not in OPEN_PATHS | self.public_paths:
                is_sender = scope["person"].role is Role.SENDER
                check_role(request, Role.SENDER if is_sender and is_sender_path(path) else Role.READER)
        await self.app(scope, receive, send)

    def _count_request(self, request: Request) -> Person:
        try:
            check_head_size(request)
            self.hosts.check(request.headers.get("host"))
            person = self._authenticate(request)
        except HttpError:
            self.limits.count_request(find_client_address(request))
            raise
        if not (self.skip_events and person.role.includes(Role.SENDER) and request.url.path.startswith(EVENTS_PATH)):
            self.limits.count_request(person.client)
        return person

    def _authenticate(self, request: Request) -> Person:
        if request.url.path in self.public_paths:
            return Person(Role.ANONYMOUS, find_client_address(request))
        token = self._find_bearer(request)
        if token is not None:
            number = token.id
            return to_person(token, lambda: self.tokens.find_active(number) is not None)
        check_origin(request, self.hosts)
        secret = request.cookies.get(COOKIE_NAME, "")
        token = self.sessions.find_token(secret)
        if token is not None:
            return to_person(token, lambda: self.sessions.find_token(secret) is not None)
        return Person(Role.READER if self.settings.anonymous else Role.ANONYMOUS, find_client_address(request))

    def _find_bearer(self, request: Request) -> Token | None:
        header = request.headers.get("authorization")
        if header is None:
            return None
        scheme, _, secret = header.partition(" ")
        token = self.tokens.find_by_secret(secret.strip()) if len(secret) < MAX_TOKEN_CHARS else None
        if scheme.lower() != "bearer" or token is None:
            rule = "token must be one that is known and not revoked, got another"
            raise HttpError(401, "bad_token", rule, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        return token


def is_sender_path(path: str) -> bool:
    """Return whether a sender may use a path of the API."""
    return path in (EVENTS_PATH, REPORTS_PATH) or path.startswith(f"{EVENTS_PATH}/")


def to_person(token: Token, is_allowed: Callable[[], bool] = is_always_allowed) -> Person:
    return Person(Role[token.role.upper()], f"token {token.id}", token.name, token.share, is_allowed)


def find_client_address(request: HTTPConnection) -> str:
    """Return the limit key of the address of a request."""
    return f"address {to_client_network('' if request.client is None else request.client.host)}"


def check_head_size(request: Request) -> None:
    """Reject a head that is too long."""
    target = len(request.scope.get("raw_path") or b"") + len(request.scope["query_string"])
    if target + sum(len(name) + len(value) + 4 for name, value in request.headers.raw) > MAX_HEAD_BYTES:
        rule = f"head must be at most {MAX_HEAD_BYTES} bytes, got more"
        raise HttpError(431, "header_too_large", rule, {"Connection": "close"})


def check_origin(request: Request, hosts: AllowedHosts) -> None:
    """Reject a request that another site caused."""
    if request.method in SAFE_METHODS:
        return
    headers, with_cookie = request.headers, COOKIE_NAME in request.cookies
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        here = origin is None or hosts.is_same_host(origin, headers.get("host", ""))
        ours: bool | None = (site == "same-origin" and here) or (site == "none" and not with_cookie)
    else:
        ours = None if origin is None else parse_origin_host(origin) == headers.get("host", "").lower()
    if ours is False or (with_cookie and not ours):
        raise HttpError(403, "cross_site", "a request with a cookie must come from our own page, got another")
    if with_cookie and headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise HttpError(415, "media_type", f"content type must be {JSON_TYPE}, got another")
