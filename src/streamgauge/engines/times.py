"""When an event happened: whole microseconds since 1970 (UTC), or NULL if no time can be read.

Promise
    Total: measured, a cast from TIMESTAMP to TIMESTAMPTZ at the end of time not only raises but shuts the
    database. So whatever is not plain text is compared with the declared range before a time zone is applied.
"""

from streamgauge.engines.fields import Raw
from streamgauge.engines.quoting import text
from streamgauge.query.settings import Stream

DAY = 86_400_000_000
FIRST = -62_135_596_800_000_000  # year 1
LAST = 253_402_300_799_999_999  # year 9999
NAIVE = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATE")
ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS")
SCALES = {"epoch s": 1_000_000, "epoch ms": 1_000, "epoch us": 1}
MANY = 10**30  # a multiple of 1000 beyond any number that is read


def span(stream: Stream) -> tuple[int, int]:
    """The first and the last microsecond of a stream."""
    return stream.start, LAST if stream.end is None else stream.end - 1


def microseconds(raw: Raw, stream: Stream, between: tuple[int, int]) -> str:
    """BIGINT or NULL. Outside of `between` it may be off by a day, but stays outside."""
    if raw.kind in ZONED:
        return f"epoch_us(TRY_CAST({raw.sql} AS TIMESTAMPTZ))"
    if raw.kind in NAIVE:
        return _local(f"epoch_us(TRY_CAST({raw.sql} AS TIMESTAMP))", stream.timezone, between)
    if stream.time_format == "iso":
        return f"epoch_us(TRY_CAST({raw.text} AS TIMESTAMPTZ))"
    number = f"TRY_CAST({raw.number} AS DECIMAL(30, 9))"
    if stream.time_format == "epoch ns":
        whole = f"(TRY_CAST(floor({number}) AS HUGEINT) + {MANY}) // 1000 - {MANY // 1000}"
    else:
        whole = f"floor({number} * {SCALES[stream.time_format]}::DECIMAL(7, 0))"
    return f"TRY_CAST({whole} AS BIGINT)"


def timestamp(moment: str, timezone: str, between: tuple[int, int]) -> str:
    """A TIMESTAMP as clocks in the time zone show it, or NULL outside of `between`."""
    inside = f"{moment} BETWEEN {between[0]} AND {between[1]}"
    if timezone == "UTC":
        return f"CASE WHEN {inside} THEN make_timestamp({moment}) END"
    return f"CASE WHEN {inside} THEN timezone({text(timezone)}, make_timestamptz({moment})) END"


def _local(moment: str, timezone: str, between: tuple[int, int]) -> str:
    """From what a clock in the time zone shows to microseconds, near the range; no zone is a day off."""
    if timezone == "UTC":
        return moment
    near = f"{moment} BETWEEN {between[0] - DAY} AND {between[1] + DAY}"
    zoned = f"timezone({text(timezone)}, make_timestamp({moment}))"
    return f"CASE WHEN {near} THEN epoch_us({zoned}) ELSE {moment} END"
