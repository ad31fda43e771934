"""The hash family: one file of vectors, plain arithmetic and arrays agree; three items are independent."""

import json

import numpy as np
import pytest

from streamgauge import Pure, localdp
from streamgauge.localdp import hashing
from streamgauge.localdp.hashing import HashFamily, compute_powers, encode_item, polynomial
from streamgauge.prime_field import P
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_report import through
from tests.support.vector_file import FILE, made, written

EDGES = [0, 1, 2, 2**30, 2**31 - 1, 2**31, 2**60, P - 2, P - 1]
CLAIMS = [
    *(kind(Pure(1), hashes=4, width=16) for kind in (localdp.CountMeanSketch, localdp.LocalHashing)),
    localdp.HadamardCountMeanSketch(Pure(1), hashes=4, width=16),
    *(
        kind(Pure(1), items=(7, 8, "a"))
        for kind in (localdp.RandomisedResponse, localdp.UnaryEncoding, localdp.HadamardResponse)
    ),
    localdp.HeavyHitters(Pure(1), alphabet="0123456789", length=4, hashes=4, width=16),
]


class Hostile(str):
    def encode(self, *_):
        raise RuntimeError("an item must not speak")


def test_file_of_vectors_equals_computed_ones():
    assert FILE.read_text(encoding="ascii") == written(made())
    assert json.loads(FILE.read_text(encoding="ascii")) == json.loads(json.dumps(made()))


def test_arrays_equal_plain_arithmetic_at_the_edges_of_field():
    a, b, c, x = (part.ravel() for part in np.meshgrid(*[np.array(EDGES, np.uint64)] * 4))
    found = polynomial(np.array([a, b, c]), compute_powers(x))
    plain = [(i * z * z + j * z + k) % P for i, j, k, z in zip(*(e.tolist() for e in (a, b, c, x)), strict=True)]
    assert found.tolist() == plain


@pytest.mark.parametrize("width", [2, 3, 1000, 1024])
def test_columns_of_many_items_equal_single_ones(width):
    family, items = HashFamily(9, width, 3), ["a", "b", 7, "🔥"]
    found = family.columns(np.arange(9)[:, None], family.words(items))
    assert found.tolist() == [[family.column(row, item) for item in items] for row in range(9)]


def test_three_items_fall_anywhere_by_exactly_one_polynomial():
    """So uniform coefficients give uniform columns of any three items."""
    for points, values in [([5, 9, 1], (0, 0, 0)), ([0, 1, P - 1], (P - 1, 3, 4)), ([2**60, 77, 3], (1, 2, P - 2))]:
        row = through(points, values)
        found = polynomial(np.array(row, np.uint64)[:, None], compute_powers(np.array(points, np.uint64)))
        assert tuple(found.tolist()) == values


def test_sums_do_not_depend_on_the_block_size(monkeypatch):
    family, items = HashFamily(50, 8, 1), ["a", "b", "c"]
    table = np.random.default_rng(1).integers(-9, 9, (50, 8))
    plain = [sum(table[row, family.column(row, item)] for row in range(50)) for item in items]
    for block in (1, 24, 10**6):
        monkeypatch.setattr(hashing, "BLOCK_HASHES", block)
        assert family.sums(items, lambda first, last: table[first:last]).tolist() == plain
    assert family.sums([], lambda first, last: table[first:last]).tolist() == []


def test_item_encoding_never_raises():
    read = {
        b"a": ["a", Hostile("a")],
        b"1": [1, "1", np.int8(1), 1.0, np.float32(1)],
        b"0": [0, 0.0, -0.0],
        b"-9007199254740991": [1 - 2**53, 1.0 - 2**53],
        b"9007199254740992": [2**53],
        b"": [2.0**53, True, np.True_, 1.5, None, b"a", float("nan"), float("-inf"), 1e300, 10**5000, []],
        "\ufffd".encode(): ["\ud800"],
    }
    items, texts = zip(*((item, text) for text, alike in read.items() for item in alike), strict=True)
    family = HashFamily(4, 16, 0)
    assert [encode_item(item) for item in items] == list(texts)
    assert family.words(items).tolist() == [family.word(item) for item in items]
    assert encode_item("\ud83d\udd25") == encode_item("🔥")


@pytest.mark.parametrize("items", ["the item", b"the item", 7, None])
def test_value_that_is_no_list_is_refused_without_quoting(items):
    words = f"items must be a list, one for each device, got {type(items).__name__}$"
    for claim in CLAIMS:
        with pytest.raises(ValueError, match=words):
            claim.privatise_many(items)
        with pytest.raises(ValueError, match="noise must be a source with coins and uniform, got 5"):
            claim.privatise_many(["a"], 5)


def test_float_column_with_gaps_is_read_as_whole_numbers():
    column = np.array([7, np.nan, 8.0])
    for claim in CLAIMS:
        sent = [claim.privatise_many(items, InsecureNoise(1)) for items in (column, [7, "", 8], iter(column))]
        assert (sent[0] == sent[1]).all()
        assert (sent[0] == sent[2]).all()


def test_a_coefficient_is_never_p(monkeypatch):
    """Words that are p are drawn again."""
    asked = []

    def digest(data, **_):
        asked.append(data[-1])
        return type("Drawn", (), {"digest": lambda self: (P if data[-1] < 2 else 7).to_bytes(8, "little") * 3})()

    monkeypatch.setattr(hashing, "blake2b", digest)
    assert hashing.compute_row_coefficients(0, 0) == [7, 7, 7]
    assert asked == [0, 1, 2]
