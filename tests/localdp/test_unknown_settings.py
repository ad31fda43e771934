"""Settings that no mechanism has: refused with their name."""

import re

import pytest

from streamgauge import Pure
from streamgauge.localdp import HadamardCountMeanSketch, wire

TOLD = wire.to_settings(HadamardCountMeanSketch(Pure(1), hashes=4, width=8))


@pytest.mark.parametrize("value", [1, None, "x", [], {}])
def test_unknown_setting_is_named_in_the_refusal(value):
    words = "settings must be protocol, epsilon, chances, hashes, width, seed and no others, got 'another'"
    with pytest.raises(wire.CollectionError, match=re.escape(words)):
        wire.parse_mechanism({**TOLD, "another": value})


def test_missing_chances_are_refused_with_the_derived_ones():
    with pytest.raises(wire.CollectionError, match=r"chances must be \{'flip': \d+\} by the others, got None"):
        wire.parse_mechanism({name: value for name, value in TOLD.items() if name != "chances"})
