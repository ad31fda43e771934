"""Reports on their way: a message is a version, the collection that it is meant for, and reports.

    "SGR1" | fingerprint (4 bytes) | reports, one after the other

A fingerprint is the first 4 bytes of BLAKE2b (digest of 32) of the settings, without it, as JSON with
sorted keys and no spaces, in UTF-8. `settings` tells a client all that it needs: the name of the protocol,
epsilon as "p/q", the k of every chance k/2^32, and all other settings by name. It keeps reports of one
collection out of another by mistake; it is no protection against a forger, whose reports count for no more
than an honest device's anyway.

A message is refused as a whole for its version, its fingerprint or its length, which are public; what its
reports say never matters here.
"""

import json
from dataclasses import fields
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from streamgauge.localdp.claim import LocalClaim
from streamgauge.localdp.count_mean_sketch import CountMeanSketch
from streamgauge.localdp.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.hadamard_response import HadamardResponse
from streamgauge.localdp.hashing import text_of
from streamgauge.localdp.heavy_hitters import HeavyHitters
from streamgauge.localdp.local_hashing import LocalHashing
from streamgauge.localdp.randomised_response import RandomisedResponse
from streamgauge.localdp.reports import Given, Reports, rows
from streamgauge.localdp.unary_encoding import UnaryEncoding
from streamgauge.noise.chance import WORD
from streamgauge.privacy import Pure

VERSION = b"SGR1"
FINGERPRINT = 4  # bytes
SAFE = 2**53  # whole numbers below it are the same in every client
PROTOCOLS: dict[str, type[LocalClaim]] = {
    kind.__name__: kind
    for kind in (
        CountMeanSketch,
        HadamardCountMeanSketch,
        LocalHashing,
        RandomisedResponse,
        UnaryEncoding,
        HadamardResponse,
        HeavyHitters,
    )
}


class OtherVersion(ValueError):  # noqa: N818 - named for what it is
    """A message of another version, or none at all."""


class OtherCollection(ValueError):  # noqa: N818
    """A message for a claim of other settings."""


class BadLength(ValueError):  # noqa: N818
    """A message that holds no whole number of reports."""


class Sent(Protocol):
    """A claim whose reports are sent: a dataclass of settings."""

    @property
    def loss(self) -> Pure: ...

    @property
    def chances(self) -> dict[str, Fraction]: ...

    @property
    def report_size(self) -> int: ...


def settings(claim: Sent) -> dict[str, Any]:
    """All that a client has to know, as JSON has it."""
    told = _told(claim)
    return {**told, "fingerprint": _digest(told).hex()}


def fingerprint(claim: Sent) -> bytes:
    return _digest(_told(claim))


def claim_of(told: dict[str, Any]) -> LocalClaim:
    """The claim of some settings; whole numbers beyond 2^53 come back as text."""
    kind = PROTOCOLS.get(told.get("protocol", ""))
    if kind is None:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {told.get('protocol')!r}")
    named = {each.name for each in fields(kind)} & set(told)
    given: dict[str, Any] = {
        name: tuple(told[name]) if isinstance(told[name], list) else told[name] for name in sorted(named)
    }
    claim = kind(Pure(Fraction(told["epsilon"])), **given)
    if told.get("fingerprint", fingerprint(claim).hex()) != fingerprint(claim).hex():
        raise OtherCollection(f"fingerprint must be {fingerprint(claim).hex()}, got {told['fingerprint']!r}")
    return claim


def message(claim: Sent, reports: Given) -> bytes:
    """Reports in one message; those of another size are left out."""
    return VERSION + fingerprint(claim) + rows(reports, claim.report_size)[0].tobytes()


def reports_of(claim: Sent, sent: bytes) -> Reports:
    """The reports of a message to a claim."""
    start = len(VERSION) + FINGERPRINT
    if sent[: len(VERSION)] != VERSION:
        raise OtherVersion(f"message must begin with {VERSION.decode()}, got another version")
    if sent[len(VERSION) : start] != fingerprint(claim):
        raise OtherCollection(f"message must be for the collection {fingerprint(claim).hex()}, got another")
    payload, size = sent[start:], claim.report_size
    if len(payload) % size:
        raise BadLength(f"message must hold reports of {size} bytes each, got {len(payload)} bytes of them")
    return np.frombuffer(payload, np.uint8).reshape(-1, size)


def _told(claim: Any) -> dict[str, Any]:
    named = {each.name: getattr(claim, each.name) for each in fields(claim) if each.name != "loss"}
    return {
        "protocol": type(claim).__name__,
        "epsilon": str(claim.loss.epsilon),
        "chances": {name: int(chance * WORD) for name, chance in claim.chances.items()},
        **{name: _plain(value) for name, value in named.items()},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return text_of(value).decode()
    return str(value) if isinstance(value, int) and abs(value) >= SAFE else value


def _digest(told: dict[str, Any]) -> bytes:
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return blake2b(text.encode(), digest_size=32).digest()[:FINGERPRINT]
