"""Items are private: a device reports the empty text for an item that raises."""

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.localdp import (
    CountMeanSketch,
    Device,
    HadamardCountMeanSketch,
    HadamardResponse,
    HeavyHitters,
    LocalHashing,
    RandomisedResponse,
    UnaryEncoding,
)
from streamgauge.localdp.hashing import encode_item
from streamgauge.testing.noise import InsecureNoise

ITEMS = ("", "a", 7)
CLAIMS = [
    *(kind(Pure(2), items=ITEMS) for kind in (RandomisedResponse, UnaryEncoding, HadamardResponse)),
    *(kind(Pure(2), hashes=4, width=8) for kind in (CountMeanSketch, HadamardCountMeanSketch, LocalHashing)),
    HeavyHitters(Pure(2), length=4),
]


def odd(kind, *names):
    """Return a number of a new class with methods that raise an error with its value."""

    def raises(self, *_):
        raise RuntimeError(f"the item is {kind.__repr__(self)}")

    return type("Odd", (kind,), dict.fromkeys(names, raises))(7)


class NoClass:
    @property
    def __class__(self):
        raise RuntimeError("the item")


ODD = [
    odd(int, "__int__", "__abs__", "__index__"),
    odd(float, "__float__", "__abs__"),
    odd(np.int64, "__int__"),
    odd(np.float64, "__float__"),
    NoClass(),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
def test_item_that_raises_is_reported_as_the_empty_text(claim):
    for item in ODD:
        assert encode_item(item) == b""
        sent = [Device(claim, noise=InsecureNoise(1)).report(each) for each in (item, "")]
        assert sent[0] == sent[1]
