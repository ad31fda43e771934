"""When an event happened: whole microseconds since 1970 (UTC), or NULL if no time can be read.

Promise
    Total: measured, a cast from TIMESTAMP to TIMESTAMPTZ at the end of time not only raises but shuts the
    database. So whatever is not plain text is compared with the declared range before a time zone is applied.
"""

from streamgauge.query.raw_field import FIRST, LAST, ZONED, Raw
from streamgauge.query.settings import Stream

DAY = 86_400_000_000
SCALES = {"epoch s": 1_000_000, "epoch ms": 1_000, "epoch us": 1}
UNITS = {"epoch s": "0.000001", "epoch ms": "0.001", "epoch us": "1", "epoch ns": "1000"}
MANY = 10**30  # a multiple of 1000 beyond any number that is read


def span(stream: Stream) -> tuple[int, int]:
    """The first and the last microsecond of a stream."""
    return stream.start, LAST if stream.end is None else stream.end - 1


def microseconds(raw: Raw, stream: Stream, between: tuple[int, int]) -> str:
    """BIGINT or NULL. Outside of `between` it may be off by a day, but stays outside."""
    if raw.moment is not None:
        return raw.moment if raw.kind in ZONED else _local(raw.moment, stream.timezone, between)
    if stream.time_format == "iso":
        return f"epoch_us(TRY_CAST({raw.text} AS TIMESTAMPTZ))"
    number = f"TRY_CAST({raw.number} AS DECIMAL(30, 9))"
    if stream.time_format == "epoch ns":
        whole = f"(TRY_CAST(floor({number}) AS HUGEINT) + {MANY}) // 1000 - {MANY // 1000}"
    else:
        whole = f"floor({number} * {SCALES[stream.time_format]}::DECIMAL(7, 0))"
    return f"TRY_CAST({whole} AS BIGINT)"


def told(moment: str, time_format: str) -> str:
    """The text that is read as microseconds, within the years that have a text."""
    inside = f"greatest({FIRST}, least({LAST}, {moment}))"
    if time_format == "iso":
        text = f"CAST(make_timestamp({inside}) AS VARCHAR) || '+00'"
    else:
        text = f"CAST(CAST({inside} AS DECIMAL(30, 0)) * {UNITS[time_format]} AS VARCHAR)"  # exact
    return f"CASE WHEN {moment} IS NOT NULL THEN {text} END"


def timestamp(moment: str, timezone: str, between: tuple[int, int]) -> str:
    """A TIMESTAMP as clocks in the time zone show it, or NULL outside of `between`."""
    inside = f"{moment} BETWEEN {between[0]} AND {between[1]}"
    if timezone == "UTC":
        return f"CASE WHEN {inside} THEN make_timestamp({moment}) END"
    return f"CASE WHEN {inside} THEN timezone({_quoted(timezone)}, make_timestamptz({moment})) END"


def _local(moment: str, timezone: str, between: tuple[int, int]) -> str:
    """From what a clock in the time zone shows to microseconds, near the range; no zone is a day off."""
    if timezone == "UTC":
        return moment
    near = f"{moment} BETWEEN {between[0] - DAY} AND {between[1] + DAY}"
    zoned = f"timezone({_quoted(timezone)}, make_timestamp({moment}))"
    return f"CASE WHEN {near} THEN epoch_us({zoned}) ELSE {moment} END"


def _quoted(timezone: str) -> str:
    return "'" + timezone.replace("'", "''") + "'"
