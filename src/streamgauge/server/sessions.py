"""Sessions: a page swaps its token for a cookie, since an EventSource cannot send bearer tokens.

**Promise.** A session id is 256 random bits; memory holds its SHA-256 only, and the disk nothing. It ends
after LASTS seconds, when it is closed, when its token is revoked, or with the process. The cookie cannot be
read by scripts (HttpOnly), is not sent by other sites (SameSite=Strict), nor in the clear where the
connection is encrypted (Secure).
"""

import time
from collections.abc import Callable

from starlette.responses import Response

from streamgauge.server.tokens import Token, Tokens, digest_of, fresh_secret

COOKIE = "streamgauge"
LASTS = 12 * 3600  # seconds
MOST = 10_000  # sessions, of all tokens: beyond it the oldest end
MOST_OF_ONE = 100


class Sessions:
    """Who is in, by the hash of a session id: the token's number, and until when."""

    def __init__(self, tokens: Tokens, *, now: Callable[[], float] = time.monotonic) -> None:
        self._tokens, self._now = tokens, now
        self._open: dict[bytes, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, token: Token) -> str:
        """A new session; returns its id."""
        self._make_room(token.id)
        secret = fresh_secret()
        self._open[digest_of(secret)] = (token.id, self._now() + LASTS)
        return secret

    def token(self, secret: str) -> Token | None:
        """Whose session this is, while it lasts."""
        digest = digest_of(secret)
        number, until = self._open.get(digest, (0, 0.0))
        token = self._tokens.still(number) if self._now() < until else None
        if token is None:
            self._open.pop(digest, None)
        return token

    def close(self, secret: str) -> None:
        self._open.pop(digest_of(secret), None)

    def _make_room(self, number: int) -> None:
        """The oldest ends where there are too many; those of one token never push others out."""
        now = self._now()
        for digest in [digest for digest, (_, until) in self._open.items() if until <= now]:
            del self._open[digest]
        own = [digest for digest, (whose, _) in self._open.items() if whose == number]
        if len(own) >= MOST_OF_ONE:
            del self._open[own[0]]
        elif len(self._open) >= MOST:
            del self._open[next(iter(self._open))]


def give(reply: Response, secret: str, *, secure: bool) -> None:
    """Puts the cookie of a session into a reply."""
    reply.set_cookie(COOKIE, secret, LASTS, path="/", secure=secure, httponly=True, samesite="strict")


def take_back(reply: Response, *, secure: bool) -> None:
    reply.delete_cookie(COOKIE, path="/", secure=secure, httponly=True, samesite="strict")
