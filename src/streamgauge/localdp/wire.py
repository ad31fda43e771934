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
import re
from dataclasses import fields
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from streamgauge.localdp.claim import LocalClaim
from streamgauge.localdp.count_mean_sketch import CountMeanSketch
from streamgauge.localdp.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.hadamard_response import HadamardResponse
from streamgauge.localdp.heavy_hitters import HeavyHitters
from streamgauge.localdp.local_hashing import LocalHashing
from streamgauge.localdp.randomised_response import RandomisedResponse
from streamgauge.localdp.reports import Given, Reports, rows
from streamgauge.localdp.unary_encoding import UnaryEncoding
from streamgauge.noise.chance import WORD
from streamgauge.privacy import Pure

VERSION = b"SGR1"
FINGERPRINT = 4  # bytes
LOSS = re.compile(r"[1-9][0-9]*(/[1-9][0-9]*)?")  # "p" or "p/q": no sign, no zero
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


class BadSettings(ValueError):  # noqa: N818
    """Settings of no claim."""


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


def claim_of(told: Any) -> LocalClaim:
    """The claim of some settings, all of which must be there; BadSettings or OtherCollection if there is
    none."""
    given = {name: value for name, value in told.items() if name != "fingerprint"} if _is_named(told) else {}
    try:
        claim = _made(given)
    except (TypeError, ValueError) as refusal:
        raise BadSettings(str(refusal)) from None
    known = _told(claim)
    for name in sorted(known.keys() | given):
        if name not in known:
            raise BadSettings(f"settings must be {', '.join(known)} and no others, got {name!r}")
        if known[name] != given.get(name):
            raise BadSettings(f"{name} must be {known[name]!r} by the others, got {given.get(name)!r}")
    own = _digest(known).hex()
    if told.get("fingerprint", own) != own:
        raise OtherCollection(f"fingerprint must be {own}, got {told['fingerprint']!r}")
    return claim


def _is_named(told: Any) -> bool:
    return isinstance(told, dict) and all(isinstance(name, str) for name in told)


def _made(given: dict[str, Any]) -> LocalClaim:
    name, epsilon = given.get("protocol"), given.get("epsilon")
    if not (isinstance(name, str) and name in PROTOCOLS):
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {name!r}")
    if not (isinstance(epsilon, str) and LOSS.fullmatch(epsilon)):
        raise ValueError(f"epsilon must be p or p/q as text, of whole numbers above 0, got {epsilon!r}")
    kind = PROTOCOLS[name]
    for each in fields(kind)[1:]:
        if given.get(each.name) is None:
            raise ValueError(f"{each.name} must be among the settings of {name}, got {sorted(given)}")
    told = {each.name: _tuple(given[each.name]) for each in fields(kind)[1:]}
    return kind(Pure(Fraction(epsilon)), **told)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def message(claim: Sent, reports: Given) -> bytes:
    """Reports in one message; refused if they are not all of the claim's size."""
    found, others = rows(reports, claim.report_size)
    if others:
        raise BadLength(f"reports must be of {claim.report_size} bytes each, got others")
    return VERSION + fingerprint(claim) + found.tobytes()


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
    return list(value) if isinstance(value, tuple) else value


def _digest(told: dict[str, Any]) -> bytes:
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return blake2b(text.encode(), digest_size=32).digest()[:FINGERPRINT]
