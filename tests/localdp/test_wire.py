"""Messages: versioned, meant for one collection, whole; settings that make the same claim again."""

import json
from dataclasses import replace
from enum import Enum

import pytest

from streamgauge import Pure
from streamgauge.localdp import CountMeanSketch, HadamardCountMeanSketch, RandomisedResponse, wire
from streamgauge.testing.noise import InsecureNoise
from tests.support.codes import has_code
from tests.support.vector_file import FILE


class Colour(str, Enum):  # noqa: UP042 - what older programs have
    RED = "red"


CLAIM = HadamardCountMeanSketch(Pure("1/2"), hashes=300, width=64, seed=5)
REPORTS = CLAIM.privatise_many(["a", "b", "c"], InsecureNoise(1))


def test_a_message_brings_its_reports():
    sent = wire.pack_message(CLAIM, REPORTS)
    assert sent[:8] == b"SGR1" + wire.compute_fingerprint(CLAIM)
    assert (wire.unpack_message(CLAIM, sent) == REPORTS).all()
    assert wire.unpack_message(CLAIM, wire.pack_message(CLAIM, [])).shape == (0, CLAIM.report_size)


@pytest.mark.parametrize("given", [REPORTS[0], [REPORTS[0]], [b"1"], REPORTS.tobytes()[1:], REPORTS[:, 1:]])
def test_message_with_reports_of_another_size_is_refused(given):
    with pytest.raises(wire.CollectionError, match=f"reports must be of {CLAIM.report_size} bytes each"):
        wire.pack_message(CLAIM, given)


@pytest.mark.parametrize(
    ("change", "refusal", "words"),
    [
        (lambda sent: b"SGR2" + sent[4:], wire.CollectionError, "message must begin with SGR1, got another version"),
        (lambda sent: sent[:3], wire.CollectionError, "message must begin with SGR1"),
        (lambda sent: sent[:4] + b"1234" + sent[8:], wire.CollectionError, "message must be for the collection"),
        (lambda sent: sent[:6], wire.CollectionError, "message must be for the collection"),
        (lambda sent: sent[:-1], wire.CollectionError, "message must hold reports of 2 bytes each, got 5 bytes"),
    ],
)
def test_malformed_message_is_refused_by_public_rules(change, refusal, words):
    claim = replace(CLAIM, hashes=30)
    sent = wire.pack_message(claim, claim.privatise_many(["a", "b", "c"], InsecureNoise(1)))
    with pytest.raises(refusal, match=words):
        wire.unpack_message(claim, change(sent))


def test_settings_make_the_same_claim_again():
    odd = RandomisedResponse(Pure(2), items=("a", 7, 2**53, -(2**60), "\ud800", Colour.RED))
    for claim in (CLAIM, CountMeanSketch(Pure(4)), odd):
        told = json.loads(json.dumps(wire.to_settings(claim)))
        again = wire.parse_mechanism(told)
        assert (again, again.identity()) == (claim, claim.identity())
        assert wire.parse_mechanism({name: told[name] for name in told if name != "fingerprint"}) == claim
    assert odd.items == ("a", 7, str(2**53), str(-(2**60)), "\ufffd", "red")
    assert [odd.find_place(item) for item in (2**53, "\udfff", Colour.RED, "red")] == [2, 4, 5, 5]


def test_every_setting_is_in_the_fingerprint():
    others = [
        CountMeanSketch(Pure("1/2"), hashes=300, width=64, seed=5),
        *(replace(CLAIM, **{name: 128}) for name in ("hashes", "width", "seed")),
        replace(CLAIM, loss=Pure(1)),
    ]
    assert len({wire.compute_fingerprint(claim) for claim in [CLAIM, *others]}) == 6


def test_invalid_protocol_or_fingerprint_is_refused():
    told = wire.to_settings(CLAIM)
    with pytest.raises(wire.CollectionError, match=r"protocol must be one of .*, got 'Telepathy'"):
        wire.parse_mechanism({**told, "protocol": "Telepathy"})
    with pytest.raises(wire.CollectionError, match="fingerprint must be"):
        wire.parse_mechanism({**told, "seed": 6})


@pytest.mark.parametrize("name", ["protocol", "epsilon", "chances", "hashes", "width", "seed", "another"])
@pytest.mark.parametrize("value", [None, True, -1, 1.5, 2.0, "", "1/0", "-1/-2", "2/", [[]], {}, 10**400])
def test_every_invalid_setting_raises_a_collection_error(name, value):
    told = {**wire.to_settings(CLAIM), name: value}
    del told["fingerprint"]
    with pytest.raises(wire.CollectionError, match="must be"):
        wire.parse_mechanism(told)


def test_settings_with_a_missing_key_are_refused():
    listed = wire.to_settings(RandomisedResponse(Pure(2), items=("a", "b")))
    for told in (wire.to_settings(CLAIM), listed):
        for name in set(told) - {"fingerprint"}:
            with pytest.raises(wire.CollectionError, check=has_code("settings")):
                wire.parse_mechanism({each: told[each] for each in told if each != name})
    for nothing in (None, [], "text", 7, {}, {1: 2}):
        with pytest.raises(wire.CollectionError, match="protocol must be one of"):
            wire.parse_mechanism(nothing)
    for items in ("ab", ["a"], ["a", "a"], ["a", ["b"]], {"a": 1, "b": 2}, 7):
        with pytest.raises(wire.CollectionError, check=has_code("settings")):
            wire.parse_mechanism({**listed, "items": items})


def test_shared_vectors_are_read_as_messages():
    vectors = json.loads(FILE.read_text(encoding="ascii"))
    for each in vectors["claims"]:
        claim = wire.parse_mechanism(each["settings"])
        reports = wire.unpack_message(claim, bytes.fromhex(each["message"]))
        assert [row.tobytes().hex() for row in reports] == [case["report"] for case in each["cases"]]
        assert claim.build_collector().add(reports) == len(each["cases"])
