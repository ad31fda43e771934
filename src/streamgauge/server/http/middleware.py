"""Middleware: access log, security headers, CORS and allowed hosts.

**Access log.** One line for each request, in a file that only the curator can read:

    2026-01-05T00:00:00Z ana GET /api/releases/fever 200 3 ms

A line has no query string, no header and no body. A path is shortened and cannot begin a new line. The file is
not curator.log, so frequent requests cannot displace the curator's counters. With pan_private = true no line
shows that events arrived, or when. Devices that send a report, or read its settings, are logged without name
and address.

**Security headers.** The page contacts this server only, runs only script files of ours, and cannot be framed.
Inline styles are allowed, since plotly needs them.

**CORS.** Pages of other sites may use these paths:

    allow_reports_from = "anyone"    /api/reports, /api/collection, /client.js
    anonymous = true                 GET of releases, the live stream and the ledger, without a token or a cookie

A browser first sends a preflight request (OPTIONS). Paths of devices allow all methods of theirs, paths of readers
allow reads. Cookies are never allowed: a reply to a request with a cookie or a token has no CORS headers.

**Hosts.** Another site can point its own name at this machine (DNS rebinding). Its browser then sends that name
as Host, so a server that knows its names rejects it:

    [server] hosts = ["clinic.example"]    these
    absent, on loopback                    localhost only
    absent, behind a proxy or beyond       any: the proxy knows the names

Numeric addresses are always allowed, since no name points there, as are requests without a Host. A Host is a
name, an IPv4 address or `[IPv6]`, with or without a port. Any other Host (with a user, blanks, a path, an empty
port) is malformed and rejected everywhere, since parsers disagree on `evil@localhost`.
"""

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgauge.config.settings import ServerSettings
from streamgauge.config.toml_table import escape_line
from streamgauge.server.http.errors import HttpError, Log
from streamgauge.server.http.limits import parse_address

MAX_PATH_CHARS = 200  # characters of a path
EVENTS_PATH = "/api/events"
REPORTS_PATH = "/api/reports"
COLLECTION_PATH = "/api/collection"
CLIENT_PATH = "/client.js"
DEVICE_PATHS = (REPORTS_PATH, COLLECTION_PATH, CLIENT_PATH)  # paths that are logged without name and address
CLIENT_CLOSED_STATUS = 499  # logged for a request without a reply

RequestCounter = Callable[[str, str, int, float], None]  # method, route, status, seconds


class AccessLog:
    """Access log and request counter."""

    def __init__(self, app: ASGIApp, log: Log, count_request: RequestCounter, skip_events: bool = False) -> None:
        self.app, self.log, self.count_request = app, log, count_request
        self.skip_events = skip_events  # whether nothing is written of requests that bring events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, begun = CLIENT_CLOSED_STATUS, time.perf_counter()

        async def send_wrapper(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_wrapper)
        finally:
            seconds = time.perf_counter() - begun
            if not (self.skip_events and scope["path"].startswith(EVENTS_PATH)):
                self.log(format_line(scope, status, seconds))
            route = str(getattr(scope.get("route"), "path_format", "none"))  # as declared
            self.count_request(scope["method"], route, status, seconds)


def format_line(scope: Scope, status: int, seconds: float) -> str:
    """
    >>> format_line({"client": ("10.0.0.7", 1), "method": "GET", "path": "/a" + chr(10)}, 404, 0.0031)
    '10.0.0.7 GET /a\\\\u000a 404 3 ms'
    """
    person = scope.get("person")
    name = person.name if person is not None and person.name else (scope["client"] or ("-",))[0]
    name = "-" if scope["path"].rstrip("/") in DEVICE_PATHS else name
    who, path = escape_line(name[:MAX_PATH_CHARS]), escape_line(scope["path"][:MAX_PATH_CHARS])
    return f"{who} {scope['method']} {path} {status} {seconds * 1000:.0f} ms"


CONTENT_SECURITY_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
SECURITY_HEADERS: Sequence[tuple[str, str]] = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
)


class SecurityHeaders:
    """Security headers, and `no-store` if a reply does not say otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_wrapper(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS:
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if scope["path"].startswith("/api/"):
                    headers.add_vary_header("Authorization, Cookie")
            await send(message)

        await self.app(scope, receive, send_wrapper)


DEVICE_CORS_HEADERS = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Content-Type, Content-Encoding, Batch-Key",
    "Access-Control-Max-Age": "86400",
}
READER_CORS_HEADERS = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "If-None-Match",
    "Access-Control-Max-Age": "86400",
}
READABLE_PATHS = {"/api/releases", "/api/live", "/api/ledger", "/api/ledger/entries"}
RELEASE_PREFIX = "/api/releases/"
READ_METHODS = {"GET", "HEAD"}


class CorsMiddleware:
    """CORS headers. `paths` are the paths of devices; `is_readable` allows anonymous readers."""

    def __init__(self, app: ASGIApp, paths: Collection[str], *, is_readable: bool = False) -> None:
        self.app, self.paths, self.is_readable = app, frozenset(paths), is_readable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shared = self._find_headers(scope) if scope["type"] == "http" else None
        if shared is None:
            await self.app(scope, receive, send)
            return
        exposed = "Retry-After" if shared is DEVICE_CORS_HEADERS else "Retry-After, ETag, Link, Row-Count, Tick-Count"

        async def send_wrapper(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Access-Control-Allow-Origin"] = "*"
                headers["Access-Control-Expose-Headers"] = exposed
            await send(message)

        is_preflight = scope["method"] == "OPTIONS"
        answer: ASGIApp = Response(status_code=204, headers=shared) if is_preflight else self.app
        await answer(scope, receive, send_wrapper)

    def _find_headers(self, scope: Scope) -> dict[str, str] | None:
        """Return the CORS headers of a path; None if other sites may do nothing."""
        path = scope["path"]
        if path in self.paths:
            return DEVICE_CORS_HEADERS
        is_readable_path = path in READABLE_PATHS or path.startswith(RELEASE_PREFIX)
        return READER_CORS_HEADERS if self.is_readable and is_readable_path and is_anonymous_read(scope) else None


def is_anonymous_read(scope: Scope) -> bool:
    """Return whether a request reads, or is a preflight for a read, without a token or a cookie."""
    headers, method = Headers(scope=scope), scope["method"]
    wanted = headers.get("access-control-request-method") if method == "OPTIONS" else method
    return wanted in READ_METHODS and not {"authorization", "cookie"} & set(headers)


LOCAL_HOST = "localhost"
MAX_NAME_CHARS = 253  # characters
MAX_PORT = 65535
LABEL_PATTERN = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST_PATTERN = re.compile(
    rf"(?:(?P<name>{LABEL_PATTERN}(?:\.{LABEL_PATTERN})*)\.?|\[(?P<six>[0-9a-f:.]{{2,45}})\])(?::(?P<port>[0-9]{{1,5}}))?",
    re.ASCII | re.IGNORECASE,
)
NUMBER_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)  # a last label that makes a name an address


@dataclass(frozen=True)
class AllowedHosts:
    """Names of the server; None allows any."""

    names: frozenset[str] | None = None

    def check(self, host: str | None) -> None:
        """Reject a Host that is malformed or unknown; None is an HTTP/1.0 request without one."""
        if host is not None and not parse_host_name(host):
            rule = "host must be a name or an address, with a port or without, got something else"
            raise HttpError(400, "malformed_request", rule)
        if not self.is_allowed(host or ""):
            rule = "host must be localhost, an address or one of [server] hosts, got another"
            raise HttpError(403, "unknown_host", rule)

    def is_allowed(self, host: str) -> bool:
        """
        >>> ours = AllowedHosts(frozenset({"clinic.example"}))
        >>> [ours.is_allowed(host) for host in ("Clinic.example:8765", "[::1]:8765", "evil.example")]
        [True, True, False]
        """
        name = parse_host_name(host)
        local = name == LOCAL_HOST or name.endswith(f".{LOCAL_HOST}")
        return self.names is None or not host or local or name in self.names or parse_address(name) is not None

    def is_same_host(self, origin: str, host: str) -> bool:
        """Return whether an origin has the host of the request, on any port."""
        name = parse_host_name(parse_origin_host(origin))
        return bool(name) and (name == parse_host_name(host) or name in (self.names or ()))


def build_allowed_hosts(settings: ServerSettings, listening: str, *, proxied: bool) -> AllowedHosts:
    """Return the names of a server that listens at an address."""
    found = parse_address(listening)
    alone = found is not None and found.is_loopback and not (proxied or settings.https)
    return AllowedHosts(frozenset(settings.hosts)) if settings.hosts or alone else AllowedHosts()


def parse_host_name(host: str) -> str:
    """Return the name or address in a Host, without its port; empty if it is malformed.

    >>> [parse_host_name(host) for host in ("Clinic.example.:443", "[::1]:80", "127.0.0.1")]
    ['clinic.example', '::1', '127.0.0.1']
    >>> [parse_host_name(host) for host in ("evil@localhost", "127.1", "")]
    ['', '', '']
    """
    found = HOST_PATTERN.fullmatch(host)
    if found is None or int(found["port"] or 0) > MAX_PORT:
        return ""
    try:
        if found["six"] is not None:
            return str(IPv6Address(found["six"]))
        name = found["name"].lower()
        if NUMBER_PATTERN.fullmatch(name.rpartition(".")[2]):
            return str(IPv4Address(name))
    except ValueError:
        return ""
    return name if len(name) <= MAX_NAME_CHARS else ""


def parse_origin_host(origin: str) -> str:
    """Return host and port of an origin; empty if it is malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
