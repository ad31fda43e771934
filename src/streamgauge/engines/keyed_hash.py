"""Keyed hashes, computed by DuckDB: users and `hashed` columns are known by them alone.

A purpose (a column, the users, the order of records) has a key of its own, made from the secret by HMAC; the
hash is SHA-256 of that key followed by the text, cut off. Without the secret nobody can aim at a collision,
nor tell who a hash belongs to.
"""

import hmac

from streamgauge.engines.quoting import text


def key(secret: bytes, purpose: str) -> str:
    """64 hexadecimal digits."""
    return hmac.digest(secret, purpose.encode(), "sha256").hex()


def wide(key: str, value: str) -> str:
    """SQL: 16 bytes as UHUGEINT; NULL of NULL."""
    return f"CAST('0x' || substr(sha256({text(key)} || {value}), 1, 32) AS UHUGEINT)"


def code(key: str, value: str, universe: int) -> str:
    """SQL: a BIGINT below `universe`; NULL of NULL. The first 8 bytes, taken modulo the universe."""
    digits = f"CAST('0x' || substr(sha256({text(key)} || {value}), 1, 16) AS UBIGINT)"
    return f"CAST({digits} % {universe} AS BIGINT)"
