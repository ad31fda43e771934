"""Releases for the tests of sinks: two measures, hostile labels, numbers of every kind."""

import numpy as np

from streamgauge.releases.release import Group, ReleaseSchema, TickRelease
from streamgauge.sinks import WideCsv

HOUR = 3_600 * 10**6
HOSTILE = (
    "north",
    'quote " and "" quotes',
    "comma, semicolon; 'single'",
    "line\nbreak\r\nand\ttab\0",
    "back\\slash \\n \\u0041",
    "Zürich 東京 🦠 \u2028\u2029\x85",
    "</script><script>alert(1)</script>",
    "=1+1",
    "",
    "lone \udc80 surrogate",
)
LABELS: tuple[str | int | float | bool, ...] = (*HOSTILE, 7, 0.5, True)
WARDS = ReleaseSchema("fever, by ward", ("count", 'mean "t"'), tuple(Group(1, (("ward", x),)) for x in LABELS))
ROLLED = ReleaseSchema("rolled", ("count",), (Group(1, (("ward", "a"),)), Group(0, ())))
TORN = ReleaseSchema("torn", ("count",), tuple(Group(1, (("ward", x),)) for x in ('"', "東\n")))


class Wide(WideCsv):
    """The wide form of all examples, as a sink has it."""

    def __init__(self) -> None:
        super().__init__([WARDS, ROLLED, TORN], has_stamp=True)


def released(shape: ReleaseSchema, tick: int) -> TickRelease:
    """Return a release with whole numbers, fractions and unknown values."""
    size = (len(shape.measures), len(shape.groups))
    rng = np.random.default_rng(tick)
    value = np.round(rng.normal(100, 30, size))
    value[-1] = rng.normal(37, 1, size[1])
    stddev = np.full(size, 3.125)
    low, high = value - 2 * stddev, value + 2 * stddev
    value[0, -1] = low[-1, -1] = high[-1, -1] = stddev[-1, -1] = np.nan
    reliable = rng.random(size) < 0.7
    return TickRelease(shape, tick, HOUR * (tick - 1), HOUR * tick, value, stddev, low, high, reliable)


def writes(
    ticks: int = 3, shapes: tuple[ReleaseSchema, ...] = (WARDS, ROLLED)
) -> list[tuple[list[TickRelease], int, str]]:
    """Return the arguments of writes to a sink: the releases of some ticks, a number and a chain."""
    return [([released(shape, t) for shape in shapes], t, f"{t:016x}{t:048x}") for t in range(1, ticks + 1)]
