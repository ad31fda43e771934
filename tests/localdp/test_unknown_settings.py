"""Settings that no claim has are refused by words that say so."""

import re

import pytest

from streamgauge import Pure
from streamgauge.localdp import HadamardCountMeanSketch, wire

TOLD = wire.to_settings(HadamardCountMeanSketch(Pure(1), hashes=4, width=8))


@pytest.mark.parametrize("value", [1, None, "x", [], {}])
def test_a_setting_that_its_claim_does_not_have_is_named(value):
    words = "settings must be protocol, epsilon, chances, hashes, width, seed and no others, got 'another'"
    with pytest.raises(wire.CollectionError, match=re.escape(words)):
        wire.parse_mechanism({**TOLD, "another": value})


def test_a_setting_that_the_others_contradict_is_told_with_what_they_say():
    with pytest.raises(wire.CollectionError, match=r"chances must be \{'flip': \d+\} by the others, got None"):
        wire.parse_mechanism({name: value for name, value in TOLD.items() if name != "chances"})
