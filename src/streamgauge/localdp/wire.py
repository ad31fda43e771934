"""Messages with reports: a version, the fingerprint of a collection, and reports.

    "SGR1" | fingerprint (4 bytes) | reports, one after the other

A fingerprint is the first 4 bytes of BLAKE2b (digest of 32) of the settings, without it, as JSON with sorted keys and
no spaces, in UTF-8. `to_settings` returns all that a client needs: the name of the protocol, epsilon as "p/q", the k
of every chance k/2^32, and all other settings by name. The fingerprint prevents mixing collections by mistake. It is
no protection against a forger, whose reports count for no more than an honest device's.

A message is rejected as a whole for its version, its fingerprint or its length, which are public. The content of its
reports never matters here.
"""

import json
import re
from dataclasses import fields
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np

from streamgauge.localdp.heavy_hitters import HeavyHitters
from streamgauge.localdp.mechanism import LocalMechanism
from streamgauge.localdp.protocols.count_mean_sketch import CountMeanSketch
from streamgauge.localdp.protocols.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.protocols.hadamard_response import HadamardResponse
from streamgauge.localdp.protocols.local_hashing import LocalHashing
from streamgauge.localdp.protocols.randomised_response import RandomisedResponse
from streamgauge.localdp.protocols.unary_encoding import UnaryEncoding
from streamgauge.localdp.report_bytes import ReportInput, Reports, parse_rows
from streamgauge.noise.bernoulli import WORD_RANGE
from streamgauge.privacy import Pure

VERSION = b"SGR1"
FINGERPRINT_BYTES = 4  # bytes
LOSS_PATTERN = re.compile(r"[1-9][0-9]*(/[1-9][0-9]*)?")  # "p" or "p/q": no sign, no zero
PROTOCOLS: dict[str, type[LocalMechanism]] = {
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


class CollectionError(ValueError):
    """A message or settings that are not of this collection.

    Codes: `message` (another version, or no whole number of reports), `mismatch` (a claim of other settings),
    `settings` (those of no claim), `loss_not_agreed` (a loss above that of the owner of the device).
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def to_settings(mechanism: LocalMechanism) -> dict[str, Any]:
    """Return all that a client has to know, as JSON has it."""
    settings = _to_plain_settings(mechanism)
    return {**settings, "fingerprint": _digest(settings).hex()}


def compute_fingerprint(mechanism: LocalMechanism) -> bytes:
    return _digest(_to_plain_settings(mechanism))


def parse_mechanism(settings: Any) -> LocalMechanism:
    """Return the claim of some settings, all of which must be present.

    Raises:
        CollectionError: the settings make no claim (`settings`), or the fingerprint is that of others (`mismatch`).
    """
    named = isinstance(settings, dict) and all(isinstance(name, str) for name in settings)
    given = {name: value for name, value in settings.items() if name != "fingerprint"} if named else {}
    try:
        claim = _build_mechanism(given)
    except (TypeError, ValueError) as refusal:
        raise CollectionError(str(refusal), "settings") from None
    known = _to_plain_settings(claim)
    for name in sorted(known.keys() | given):
        if name not in known:
            raise CollectionError(f"settings must be {', '.join(known)} and no others, got {name!r}", "settings")
        if known[name] != given.get(name):
            raise CollectionError(f"{name} must be {known[name]!r} by the others, got {given.get(name)!r}", "settings")
    own = _digest(known).hex()
    if settings.get("fingerprint", own) != own:
        raise CollectionError(f"fingerprint must be {own}, got {settings['fingerprint']!r}", "mismatch")
    return claim


def _build_mechanism(settings: dict[str, Any]) -> LocalMechanism:
    name, epsilon = settings.get("protocol"), settings.get("epsilon")
    if not (isinstance(name, str) and name in PROTOCOLS):
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {name!r}")
    if not (isinstance(epsilon, str) and LOSS_PATTERN.fullmatch(epsilon)):
        raise ValueError(f"epsilon must be p or p/q as text, of whole numbers above 0, got {epsilon!r}")
    kind = PROTOCOLS[name]
    for each in fields(kind)[1:]:
        if settings.get(each.name) is None:
            raise ValueError(f"{each.name} must be among the settings of {name}, got {sorted(settings)}")
    values = {each.name: settings[each.name] for each in fields(kind)[1:]}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return kind(Pure(Fraction(epsilon)), **values | lists)


def pack_message(mechanism: LocalMechanism, reports: ReportInput) -> bytes:
    """Return reports in one message; reject reports of another size."""
    found, others = parse_rows(reports, mechanism.report_size)
    if others:
        raise CollectionError(f"reports must be of {mechanism.report_size} bytes each, got others", "message")
    return VERSION + compute_fingerprint(mechanism) + found.tobytes()


def unpack_message(mechanism: LocalMechanism, message: bytes) -> Reports:
    """Return the reports of a message to a claim."""
    start, own = len(VERSION) + FINGERPRINT_BYTES, compute_fingerprint(mechanism)
    if message[: len(VERSION)] != VERSION:
        raise CollectionError(f"message must begin with {VERSION.decode()}, got another version", "message")
    if message[len(VERSION) : start] != own:
        raise CollectionError(f"message must be for the collection {own.hex()}, got another", "mismatch")
    payload, size = message[start:], mechanism.report_size
    if len(payload) % size:
        raise CollectionError(
            f"message must hold reports of {size} bytes each, got {len(payload)} bytes of them", "message"
        )
    return np.frombuffer(payload, np.uint8).reshape(-1, size)


def _to_plain_settings(claim: LocalMechanism) -> dict[str, Any]:
    values = {each.name: getattr(claim, each.name) for each in fields(claim) if each.name != "loss"}
    return {
        "protocol": type(claim).__name__,
        "epsilon": str(claim.loss.epsilon),
        "chances": {name: int(chance * WORD_RANGE) for name, chance in claim.chances.items()},
        **{name: list(value) if isinstance(value, tuple) else value for name, value in values.items()},
    }


def _digest(settings: dict[str, Any]) -> bytes:
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return blake2b(text.encode(), digest_size=32).digest()[:FINGERPRINT_BYTES]
