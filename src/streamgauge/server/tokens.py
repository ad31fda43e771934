"""Tokens: who may come in, in a database of its own beside the store (`tokens.db`, mode 0600).

    sg_reader_…     reads what was published         sg_curator_…    sends events, sees counters
    sg_analyst_…    asks for releases, up to a share of the budget

**Promise.** A secret is 256 random bits, shown once and kept as its SHA-256 only: who has the disk has no
token, since nobody finds 256 random bits from their hash. A secret that is shown is compared with all tokens
in constant time each, none left out, so that the time taken tells nothing of any of them. A token that is
revoked opens nothing from the next request on.
"""

import sqlite3
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from streamgauge.noise.entropy import system_key
from streamgauge.pipeline.durable import new_file, private_folder
from streamgauge.query.settings import PipelineFile
from streamgauge.query.toml_rules import NAME, SHARE

FILE = "tokens.db"
ROLES = ("reader", "analyst", "curator")
TABLE = """CREATE TABLE IF NOT EXISTS tokens (id INTEGER PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL,
share TEXT, digest BLOB NOT NULL UNIQUE, created INTEGER NOT NULL, revoked INTEGER)"""
COLUMNS = "id, name, role, share, created, revoked, digest"


class BadToken(ValueError):  # noqa: N818 - refusals are named by what they say
    """A token that cannot be made or revoked."""


class TokensUnusable(OSError):  # noqa: N818 - the same
    """The file of the tokens cannot be read or written."""


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Around what is done with the file."""
    try:
        yield
    except sqlite3.Error:
        raise TokensUnusable(
            f"tokens must be readable and writable, got a file that is not: {path}"
        ) from None


@dataclass(frozen=True)
class Token:
    """Somebody who may come in. Times are microseconds since 1970."""

    id: int
    name: str
    role: str
    share: Fraction | None
    created: int
    revoked: int | None
    digest: bytes = field(repr=False)


def fresh_secret() -> str:
    """256 random bits in 43 letters, digits, - and _."""
    return urlsafe_b64encode(system_key()).rstrip(b"=").decode()


def digest_of(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogatepass")).digest()


def matching(tokens: Sequence[Token], digest: bytes) -> Token | None:
    """The token of a digest; all are compared, whichever it is."""
    found = None
    for token in tokens:
        if compare_digest(token.digest, digest):
            found = token
    return found


class Tokens:
    """The tokens of one pipeline; several processes may hold them at once."""

    def __init__(self, folder: Path, *, now: Callable[[], int] = time.time_ns) -> None:
        self.path, self._now = folder / FILE, now
        if not self.path.exists():
            private_folder(folder)
            new_file(self.path)
        self._lock = threading.Lock()
        self._version, self._known = -1, tuple[Token, ...]()
        with usable(self.path):
            self._sql = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._sql.execute("PRAGMA secure_delete = ON")
            self._sql.execute(TABLE)

    @classmethod
    def of(cls, file: PipelineFile) -> "Tokens":
        return cls(file.folder)

    def create(self, name: str, role: str, share: Fraction | None = None) -> str:
        """A new token; returns its secret, which is kept nowhere."""
        self._check(name, role, share)
        secret = f"sg_{role}_{fresh_secret()}"
        row = (name, role, None if share is None else str(share), digest_of(secret), self._now() // 1000)
        with usable(self.path), self._lock, self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
            self._fits(name, share)
            self._sql.execute(
                "INSERT INTO tokens (name, role, share, digest, created) VALUES (?, ?, ?, ?, ?)", row
            )
            self._version = -1
        return secret

    def revoke(self, name: str) -> None:
        """Ends the token of this name; another may be made under it, with the charges that it made."""
        with usable(self.path), self._lock, self._sql:
            ended = self._sql.execute(
                "UPDATE tokens SET revoked = ? WHERE name = ? AND revoked IS NULL",
                (self._now() // 1000, name),
            )
            self._version = -1
        if not ended.rowcount:
            raise BadToken(f"name must be that of a token that is not revoked, got {name}")

    def all(self) -> tuple[Token, ...]:
        """Every token that ever was, in the order in which they were made."""
        with self._lock:
            return self._all()

    def open(self) -> tuple[Token, ...]:
        """Those that are not revoked."""
        with self._lock:
            (version,) = self._sql.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._known = tuple(token for token in self._all() if token.revoked is None)
                self._version = version
            return self._known

    def known(self, secret: str) -> Token | None:
        """Whose secret this is."""
        return matching(self.open(), digest_of(secret))

    def still(self, number: int) -> Token | None:
        """A token by its number, unless it was revoked."""
        return next((token for token in self.open() if token.id == number), None)

    def close(self) -> None:
        self._sql.close()

    def _all(self) -> tuple[Token, ...]:
        rows = self._sql.execute(f"SELECT {COLUMNS} FROM tokens ORDER BY id")
        return tuple(
            Token(number, name, role, None if share is None else Fraction(share), created, revoked, digest)
            for number, name, role, share, created, revoked, digest in rows
        )

    def _check(self, name: str, role: str, share: Fraction | None) -> None:
        if NAME.parse(name) is None:
            raise BadToken(f"name must be {NAME.words}, got {name!r}")
        if role not in ROLES:
            raise BadToken(f"role must be one of {', '.join(ROLES)}, got {role!r}")
        if (role == "analyst") != (share is not None):
            rule = "given for an analyst" if role == "analyst" else "left out unless the role is analyst"
            raise BadToken(f"share must be {rule}, got {'nothing' if share is None else share}")
        if share is not None and SHARE.parse(share) is None:
            raise BadToken(f"share must be {SHARE.words}, got {share}")

    def _fits(self, name: str, share: Fraction | None) -> None:
        others = [token for token in self._all() if token.revoked is None]
        if any(token.name.lower() == name.lower() for token in others):
            raise BadToken(f"name must differ from all others in more than case, got {name} again")
        left = 1 - sum((token.share or Fraction(0) for token in others), Fraction(0))
        if share is not None and share > left:
            raise BadToken(f"share must be at most {left}, what other analysts leave, got {share}")
