"""Releases as lines of text, and what all sinks share: what goes into them, and how far they are.

The pair that tells a rolled-back store from a good one, a number and the chain that goes with it, is in the
lines themselves, as a *stamp*: "17:9f86d081884c7d65:3b1c77aa". All lines of a write have its stamp, so that
any whole line tells, even if the write was torn after it. Its last part is of the identity of the store that
the sink belongs to: a sink has one owner for ever. A sink that was written without an owner is any store's.

A stamp has the first 64 bits of the chain and the first 32 of the identity; store and witness have all of
them. Two histories that differ agree in 64 bits of SHA-256 with probability 2^-64 for each comparison. Stamps
guard against accident: a copy that was put back, a second run. They do not guard against a person who can
write the sink or has the key: that person could as well cut the file, or change all stamps, of any length.
If two stores agree in 32 bits of identity, the chain of the other one is still unknown, and the start is
refused as a rollback.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from streamgauge.query.packed import Floats
from streamgauge.query.released import Bools, Released
from streamgauge.sinks.failures import ForeignSink

FARTHEST = 2**62  # ticks that any store can count
CHAIN_DIGITS, OWNER_DIGITS = 16, 8  # hexadecimal digits in a stamp
TEXT = re.compile(
    rf"(\d{{1,{len(str(FARTHEST))}}}):([0-9a-f]{{{CHAIN_DIGITS}}})(?::([0-9a-f]{{{OWNER_DIGITS}}}))?"
)
Trace = tuple[int, str]
Column = str | Sequence[str]


class Stamp(NamedTuple):
    """What a line tells of its write: a tick, and the beginnings of chain and owner."""

    number: int
    chain: str
    owner: str = ""

    @classmethod
    def of(cls, text: str) -> "Stamp | None":
        """What `str` gave; nothing if it was not."""
        found = TEXT.fullmatch(text)
        known = found is not None and found[0].isascii() and int(found[1]) < FARTHEST
        return cls(int(found[1]), found[2], found[3] or "") if found and known else None

    def __str__(self) -> str:
        parts = (str(self.number), self.chain[:CHAIN_DIGITS], self.owner[:OWNER_DIGITS])
        return ":".join(filter(None, parts))

    def of_owner(self, owner: str, name: str) -> Trace:
        """The trace, unless another store wrote it."""
        if self.owner and owner and self.owner != owner[:OWNER_DIGITS]:
            raise ForeignSink(
                f"sink {name} must be this pipeline's own, got one that another store wrote: name another; "
                "or, if that store was this pipeline's, bring it back, for what it published is spent"
            )
        return self.trace

    @property
    def trace(self) -> Trace:
        return self.number, self.chain


class Form(Protocol):
    """How releases are written as whole lines."""

    @property
    def header(self) -> bytes:
        """The first line, if there is one."""
        ...

    @property
    def opening(self) -> bytes:
        """What every file begins with."""
        ...

    def lines(self, released: Released, stamp: str | None) -> bytes: ...

    def stamp(self, line: bytes) -> Stamp | None:
        """The stamp of a line; nothing if the line, given without its end, is not one of ours."""
        ...


def in_order(releases: Sequence[Released]) -> list[Released]:
    """Tick after tick."""
    return sorted(releases, key=lambda item: item.tick)


def told(trace: Trace, length: int) -> bytes:
    """A position."""
    return json.dumps({"tick": trace[0], "length": length}).encode()


def length_of(position: bytes | None) -> int:
    """How much of a sink is committed."""
    return 0 if position is None else int(json.loads(position)["length"])


def numbers(row: Floats, known: Bools, unknown: str) -> Column:
    """The shortest texts that mean the numbers, or `unknown`; one text if they are all the same."""
    bits = row.view(np.int64)
    if len(row) and (bits == bits[0]).all():
        return repr(float(row[0])) if known[0] else unknown
    texts = list(map(repr, row.tolist()))
    for place in np.flatnonzero(~known).tolist():
        texts[place] = unknown
    return texts


def flags(row: Bools) -> Column:
    """Truths as JSON has them."""
    if row.all():
        return "true"
    return ["true" if flag else "false" for flag in row.tolist()]


def interleaved(columns: Sequence[Column], count: int) -> bytes:
    """`count` lines made of columns; a column that is one text is the same in every line."""
    merged: list[Column] = []
    for column in columns:
        if isinstance(column, str) and merged and isinstance(merged[-1], str):
            merged[-1] += column
        else:
            merged.append(column)
    pieces = len(merged)
    flat = [""] * (pieces * count)
    for at, column in enumerate(merged):
        flat[at::pieces] = [column] * count if isinstance(column, str) else column
    return "".join(flat).encode()
