"""Records on their way from a source to an engine: whole physical lines."""

from dataclasses import dataclass, field

MAX_RECORD_BYTES = 2**20  # bytes of a record; longer ones are dropped


@dataclass(frozen=True)
class DroppedRecord:
    """A record that is none: where, how long, and by which rule. Never its text."""

    offset: int
    length: int
    rule: str
    file: str = ""  # its name, where a source has several


@dataclass(frozen=True)
class Block:
    """Clean lines: UTF-8, each at most MAX_RECORD_BYTES and ended by one line feed, no carriage returns."""

    data: bytes = field(repr=False)
    offset: int  # of its beginning in the source, decompressed
    dropped_records: tuple[DroppedRecord, ...] = ()
