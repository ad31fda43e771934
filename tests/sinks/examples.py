"""Releases for the tests of sinks: two measures, hostile labels, numbers of every kind."""

import numpy as np

from streamgauge.query.released import Place, Released, Shape
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
WARDS = Shape("fever, by ward", ("count", 'mean "t"'), tuple(Place(1, (("ward", x),)) for x in LABELS))
ROLLED = Shape("rolled", ("count",), (Place(1, (("ward", "a"),)), Place(0, ())))
TORN = Shape("torn", ("count",), tuple(Place(1, (("ward", x),)) for x in ('"', "東\n")))


class Wide(WideCsv):
    """The wide form of all examples, as a sink has it."""

    def __init__(self) -> None:
        super().__init__([WARDS, ROLLED, TORN], stamped=True)


def released(shape: Shape, tick: int) -> Released:
    """Whole numbers, fractions, and what is not known."""
    size = (len(shape.measures), len(shape.places))
    rng = np.random.default_rng(tick)
    value = np.round(rng.normal(100, 30, size))
    value[-1] = rng.normal(37, 1, size[1])
    stddev = np.full(size, 3.125)
    low, high = value - 2 * stddev, value + 2 * stddev
    value[0, -1] = low[-1, -1] = high[-1, -1] = stddev[-1, -1] = np.nan
    enough = rng.random(size) < 0.7
    return Released(shape, tick, HOUR * (tick - 1), HOUR * tick, value, stddev, low, high, enough)


def writes(
    ticks: int = 3, shapes: tuple[Shape, ...] = (WARDS, ROLLED)
) -> list[tuple[list[Released], int, str]]:
    """What a run gives to a sink: the releases of some ticks, a number and a chain."""
    return [([released(shape, t) for shape in shapes], t, f"{t:016x}{t:048x}") for t in range(1, ticks + 1)]
