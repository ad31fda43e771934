"""Tokens in a separate database next to the store (`tokens.db`, mode 0600).

    sg_sender_…     sends events, reads nothing      sg_analyst_…    requests releases, up to a share of the budget
    sg_reader_…     reads published releases         sg_curator_…    sends events, reads counters

**Promise.** A secret is 256 random bits, shown once and stored as its SHA-256 only. So the disk contains no
token. A secret is compared with every token in constant time, so the time of a request reveals nothing about
them. A revoked token is rejected from the next request on.
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

from streamgauge.config.rules import NAME, SHARE
from streamgauge.config.settings import PipelineFile
from streamgauge.files import create_file, make_private_folder
from streamgauge.noise.entropy import read_system_key

FILE_NAME = "tokens.db"
ROLES = ("sender", "reader", "analyst", "curator")
CREATE_TABLE_SQL = """CREATE TABLE IF NOT EXISTS tokens (id INTEGER PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL,
share TEXT, digest BLOB NOT NULL UNIQUE, created_at INTEGER NOT NULL, revoked_at INTEGER)"""
TABLE_COLUMNS = "id, name, role, share, created_at, revoked_at, digest"


class TokenError(ValueError):
    """A token that cannot be created or revoked."""


class TokenFileError(OSError):
    """A token file that cannot be read or written."""


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of the database."""
    try:
        yield
    except sqlite3.Error:
        raise TokenFileError(f"tokens must be readable and writable, got a file that is not: {path}") from None


@dataclass(frozen=True)
class Token:
    """A token. Times are microseconds since 1970."""

    id: int
    name: str
    role: str
    share: Fraction | None
    created_at: int
    revoked_at: int | None
    digest: bytes = field(repr=False)


def create_secret() -> str:
    """Return 256 random bits as 43 letters, digits, - and _."""
    return urlsafe_b64encode(read_system_key()).rstrip(b"=").decode()


def compute_digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogatepass")).digest()


def find_token(
    tokens: Sequence[Token], digest: bytes, compare: Callable[[bytes, bytes], bool] = compare_digest
) -> Token | None:
    """Return the token of a digest. All are compared, also after a match."""
    found = None
    for token in tokens:
        if compare(token.digest, digest):
            found = token
    return found


class Tokens:
    """The tokens of one pipeline. Several processes may open them."""

    def __init__(self, folder: Path, *, now: Callable[[], int] = time.time_ns) -> None:
        self.path, self._now = folder / FILE_NAME, now
        if not self.path.exists():
            make_private_folder(folder)
            create_file(self.path)
        self._lock = threading.Lock()
        self._version, self._active = -1, tuple[Token, ...]()
        with translate_errors(self.path):
            self._sql = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._sql.execute("PRAGMA secure_delete = ON")
            self._sql.execute(CREATE_TABLE_SQL)

    @classmethod
    def from_pipeline(cls, file: PipelineFile) -> "Tokens":
        return cls(file.folder)

    def create(self, name: str, role: str, share: Fraction | None = None) -> str:
        """Create a token; return its secret, which is not stored."""
        self._check_new(name, role, share)
        secret = f"sg_{role}_{create_secret()}"
        row = (name, role, None if share is None else str(share), compute_digest(secret), self._now() // 1000)
        with translate_errors(self.path), self._lock, self._sql:
            self._sql.execute("BEGIN IMMEDIATE")
            self._check_share(name, share)
            self._sql.execute("INSERT INTO tokens (name, role, share, digest, created_at) VALUES (?, ?, ?, ?, ?)", row)
            self._version = -1
        return secret

    def revoke(self, name: str) -> None:
        """Revoke the token of this name. A new token of the name inherits its charges."""
        with translate_errors(self.path), self._lock, self._sql:
            ended = self._sql.execute(
                "UPDATE tokens SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL", (self._now() // 1000, name)
            )
            self._version = -1
        if not ended.rowcount:
            raise TokenError(f"name must be that of a token that is not revoked, got {name}")

    def list_all(self) -> tuple[Token, ...]:
        """Return all tokens, revoked ones too, in the order of creation."""
        with self._lock:
            return self._load_all()

    def list_active(self) -> tuple[Token, ...]:
        """Return tokens that are not revoked."""
        with self._lock:
            (version,) = self._sql.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._active = tuple(token for token in self._load_all() if token.revoked_at is None)
                self._version = version
            return self._active

    def find_by_secret(self, secret: str) -> Token | None:
        """Return the token of a secret."""
        return find_token(self.list_active(), compute_digest(secret))

    def find_active(self, number: int) -> Token | None:
        """Return a token by its number, unless it is revoked."""
        return next((token for token in self.list_active() if token.id == number), None)

    def close(self) -> None:
        self._sql.close()

    def _load_all(self) -> tuple[Token, ...]:
        rows = self._sql.execute(f"SELECT {TABLE_COLUMNS} FROM tokens ORDER BY id")
        return tuple(
            Token(number, name, role, None if share is None else Fraction(share), created_at, revoked_at, digest)
            for number, name, role, share, created_at, revoked_at, digest in rows
        )

    def _check_new(self, name: str, role: str, share: Fraction | None) -> None:
        if NAME.parse(name) is None:
            raise TokenError(f"name must be {NAME.words}, got {name!r}")
        if role not in ROLES:
            raise TokenError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
        if (role == "analyst") != (share is not None):
            rule = "given for an analyst" if role == "analyst" else "left out unless the role is analyst"
            raise TokenError(f"share must be {rule}, got {'nothing' if share is None else share}")
        if share is not None and SHARE.parse(share) is None:
            raise TokenError(f"share must be {SHARE.words}, got {share}")

    def _check_share(self, name: str, share: Fraction | None) -> None:
        others = [token for token in self._load_all() if token.revoked_at is None]
        if any(token.name.lower() == name.lower() for token in others):
            raise TokenError(f"name must differ from all others in more than case, got {name} again")
        left = 1 - sum((token.share or Fraction(0) for token in others), Fraction(0))
        if share is not None and share > left:
            raise TokenError(f"share must be at most {left}, what other analysts leave, got {share}")
