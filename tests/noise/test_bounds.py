"""The certified numbers under the sampler, against mpmath and by enumeration."""

import ast
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamgauge.noise
from streamgauge.noise import bernoulli_exp, sampler
from streamgauge.noise.bernoulli import draw_below
from streamgauge.noise.sampler import BucketPosition, resolve_draw, resolve_outcome, wrap_int64
from streamgauge.noise.sampler_table import (
    SLOW_CODE,
    BucketPartition,
    Enclosure,
    GaussianLaw,
    LaplaceLaw,
    OutcomeMasses,
    bucket_at,
    bucket_start,
    build_table,
    enclose_exp_minus,
)
from streamgauge.testing.noise import InsecureKeystream

LAWS = [
    LaplaceLaw(Fraction(1, 1000)),
    LaplaceLaw(Fraction(7, 3)),
    LaplaceLaw(Fraction(100)),
    LaplaceLaw(Fraction(10**4, 7)),
    LaplaceLaw(Fraction(2**40)),
    LaplaceLaw(Fraction(2**54)),
    GaussianLaw(Fraction(1, 2)),
    GaussianLaw(Fraction(400)),
    GaussianLaw(Fraction(10**9, 7)),
    GaussianLaw(Fraction(2**84)),
    GaussianLaw(Fraction(2**90)),
    GaussianLaw(Fraction(2**108)),
]


class Script:
    """Entropy that repeats scripted numbers."""

    def __init__(self, *numbers):
        self.bytes = b"".join(numbers)
        self.at = 0

    def fill(self, out):
        for i in range(len(out)):
            out[i] = self.bytes[self.at % len(self.bytes)]
            self.at += 1


ZEROS, ONES = Script(b"\0"), Script(b"\xff")


@given(st.fractions(min_value=0, max_value=3000, max_denominator=10**12), st.sampled_from([1, 8, 16, 64, 112, 300]))
@settings(max_examples=200, deadline=None)
def test_enclosures_of_exp_hold_and_are_tight(exponent, bits):
    with mpmath.workprec(6000):
        true = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * mpmath.mpf(2) ** bits
        low, high = enclose_exp_minus(exponent, bits)
        assert low <= true <= high
        assert high - low <= 2


def mass(law, number, shift):
    value = law.exponent(bucket_start(number, shift))
    return mpmath.exp(-mpmath.mpf(value.numerator) / value.denominator)


def true_bounds(law):
    """Return the bounds between outcomes, summed by mpmath from the definition."""
    cut = build_table(law).partition
    deep = [mass(law, bucket_at(i), cut.shift) for i in range(3 * cut.inner_count + 40)]
    total = mpmath.fsum(deep)
    tops, nexts = deep[: cut.inner_count], deep[2 : cut.inner_count + 2]
    masses = tops if cut.shift == 0 else nexts + [w - v for w, v in zip(tops, nexts, strict=True)]
    bounds, so_far = [], mpmath.mpf(0)
    for one in masses:
        so_far += one
        bounds.append(so_far / total)
    return bounds


@pytest.mark.one_of_each
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_bounds_are_enclosed_and_decided_cells_have_one_outcome(law):
    with mpmath.workprec(320):
        built, bounds = build_table(law), true_bounds(law)
        scaled = [min(int(bound * 2**64), 2**64 - 1) for bound in bounds]
    floors, ceilings = built.floors.tolist(), built.ceilings.tolist()
    assert all(low <= b <= high for low, b, high in zip(floors, scaled, ceilings, strict=True))
    assert int((built.ceilings - built.floors).max()) <= 1
    bucket_of = {bucket_at(i): i for i in range(built.partition.inner_count)}
    for cell in np.flatnonzero(built.codes != SLOW_CODE).tolist():
        outcome = bucket_of[int(built.codes[cell])]
        assert scaled[outcome] >= (cell + 1) << 48 or scaled[outcome] == 2**64 - 1
        assert outcome == 0 or scaled[outcome - 1] < cell << 48


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_few_cells_are_left_undecided(law):
    assert (build_table(law).codes == SLOW_CODE).mean() < 0.05


@pytest.mark.parametrize("law", [LaplaceLaw(Fraction(10**4, 7)), GaussianLaw(Fraction(2**84))], ids=str)
def test_wedge_decisions_match_exact_arithmetic(law):
    built = build_table(law)
    rng = Script(bytes(range(7, 256, 3)))
    size = 400
    raw = np.empty(20 * size, np.uint8)
    InsecureKeystream("wedge").fill(raw)
    place = raw[: 4 * size].view(np.uint32).astype(np.int64) % built.partition.inner_count
    offset = raw[4 * size : 12 * size].view(np.int64) & ((1 << built.partition.shift) - 1)
    uniform = raw[12 * size : 16 * size].copy()
    dropped = sampler.reject_wedge(built, Script(uniform.tobytes()), place, offset)
    for lane in range(size):
        number = bucket_at(int(place[lane]))
        inwards = int(offset[lane]) if number >= 0 else (1 << built.partition.shift) - 1 - int(offset[lane])
        prefix = int(uniform.view(np.uint32)[lane] >> 1)
        assert dropped[lane] == BucketPosition(built.partition, number, inwards).is_rejected_by_wedge(rng, prefix, 31)


@pytest.mark.parametrize("law", [LaplaceLaw(Fraction(10**4, 7)), GaussianLaw(Fraction(2**40))], ids=str)
def test_fixed_point_in_the_wedge_keeps_its_margin(law):
    built, size = build_table(law), 500
    raw = np.empty(12 * size, np.uint8)
    InsecureKeystream("margin").fill(raw)
    place = raw[: 4 * size].view(np.uint32).astype(np.int64) % built.partition.inner_count
    offset = raw[4 * size :].view(np.int64) & ((1 << built.partition.shift) - 1)
    for p, o in zip(place.tolist(), offset.tolist(), strict=True):
        number = bucket_at(p)
        inwards = o if number >= 0 else (1 << built.partition.shift) - 1 - o
        with mpmath.workprec(200):
            so_far, whole = (built.partition.rise(number, n) for n in (inwards, 1 << built.partition.shift))
            chance = mpmath.expm1(-mpmath.mpf(so_far.numerator) / so_far.denominator) / mpmath.expm1(
                -mpmath.mpf(whole.numerator) / whole.denominator
            )
            near = int(chance * 2**31)
        for delta in (-1100, 1100):
            uniform = near + delta
            if 0 <= uniform < 2**31:
                entropy = Script((uniform << 1).to_bytes(4, "little"))
                assert sampler.reject_wedge(built, entropy, np.array([p]), np.array([o]))[0] == (delta < 0)


def test_lazy_comparison_of_all_prefixes_has_exact_mass():
    for exponent in (Fraction(1, 7), Fraction(1), Fraction(3), Fraction(40)):
        chance = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)

        def threshold(bits, exponent=exponent):
            return enclose_exp_minus(exponent, bits)

        surely = sum(draw_below(threshold, ONES, prefix, 10) for prefix in range(1024))
        perhaps = sum(draw_below(threshold, ZEROS, prefix, 10) for prefix in range(1024))
        assert surely <= chance * 1024 <= perhaps <= surely + 1


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    "law", [LaplaceLaw(Fraction(7, 3)), LaplaceLaw(Fraction(1000)), GaussianLaw(Fraction(9))], ids=str
)
def test_tie_at_64_bits_is_resolved_by_following_bits(law):
    built = build_table(law)
    for index in (0, 1, 2, 5, 17):
        floor = int(built.floors[index])
        assert resolve_outcome(built.partition, floor, ZEROS)[0] == index
        assert resolve_outcome(built.partition, floor, ONES)[0] == index + 1


@pytest.mark.parametrize(
    "law",
    [LaplaceLaw(Fraction(5)), GaussianLaw(Fraction(9)), LaplaceLaw(Fraction(2**20)), GaussianLaw(Fraction(2**40))],
    ids=str,
)
def test_the_tail_is_not_cut(law):
    cut = build_table(law).partition
    place, number = resolve_outcome(cut, 2**64 - 1, Script(b"\xff" * 16 + b"\x00"))
    assert place >= (cut.inner_count if cut.shift == 0 else 2 * cut.inner_count)
    beyond = law.exponent(bucket_start(number, cut.shift))
    assert abs(beyond - 172) < 12  # 248 leading ones: a tail of 2^-248 = exp(-172)


def test_a_draw_beyond_64_bits_wraps():
    assert wrap_int64(2**63) == -(2**63)
    assert wrap_int64(-(2**63) - 1) == 2**63 - 1
    cut = BucketPartition(LaplaceLaw(Fraction(2**54)), 54, 64)
    for ones, number in ((88, 532), (96, -577)):  # tails of exp(-533) and exp(-577); 2^63 is at 512
        bits = b"\xff" * ones + b"\x00" * 400
        assert resolve_outcome(cut, 2**64 - 1, Script(bits))[1] == number
        inside = number - 1024 if number > 0 else number + 1024
        assert resolve_draw(cut, 2**64 - 1, 5, Script(bits)) == (inside << 54) + 5


def test_exact_bernoulli_has_the_right_rate():
    for exponent in (Fraction(0), Fraction(1, 3), Fraction(2), Fraction(100), Fraction(10**6)):
        hits = int(bernoulli_exp(InsecureKeystream("bernoulli"), exponent, 1 << 18).sum())
        chance = float(mpmath.exp(-float(exponent)))
        assert abs(hits - chance * 2**18) <= 6.5 * (chance * (1 - chance) * 2**18) ** 0.5
    with pytest.raises(ValueError, match="exponent must be at least 0, got -1"):
        bernoulli_exp(InsecureKeystream(""), Fraction(-1), 1)


def test_rows_at_higher_precision_only_narrow():
    cut = build_table(LaplaceLaw(Fraction(50))).partition
    coarse, fine = OutcomeMasses(cut, 112).bounds(64), OutcomeMasses(cut, 240).bounds(64)
    assert all(c.low <= f.low <= f.high <= c.high for c, f in zip(coarse, fine, strict=False))
    assert isinstance(coarse[0], Enclosure)


ROOM = Path(streamgauge.noise.__file__).parent
PATH_OF_A_DRAW = ["entropy", "bernoulli", "sampler_table", "sampler", "source"]


@pytest.mark.parametrize("name", PATH_OF_A_DRAW)
def test_drawing_uses_no_floats(name):
    tree = ast.parse((ROOM / f"{name}.py").read_text())
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), ast.dump(node)
        assert not (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div) and name == "sampler")
        assert not (isinstance(node, ast.Name) and node.id == "float")
        assert not (isinstance(node, ast.Attribute) and re.match(r"float|exp$|log|sqrt|expm1|divide", node.attr))


def test_divisions_in_drawing_use_fractions():
    for law in LAWS:
        assert isinstance(law.exponent(3), Fraction)
        assert isinstance(build_table(law).partition.rise(0, 1), Fraction)


CHANCE = {"random", "secrets", "uuid", "rvs", "default_rng", "RandomState", "SystemRandom", "urandom", "getrandom"}
LOADERS = {"__import__", "import_module"}


def sources_of_chance(text):
    """Return all names in a module that give access to randomness."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=aliases):
                names |= {part for alias in aliases for part in alias.name.split(".")}
            case ast.ImportFrom(module=module, names=aliases):
                names |= {*(module or "").split("."), *(alias.name for alias in aliases)}
            case ast.Attribute(attr=name) | ast.Name(id=name):
                names.add(name)
            case ast.Constant(value=str(told)) if re.search(r"^/dev/(?!fd$)|\brandom\.\w+\(", told):
                names.add("random")
    return names & (CHANCE | LOADERS)


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "import os, random",
        "import random as r",
        "from random import gauss",
        "from numpy import random as r",
        "import numpy.random as r",
        "import numpy as np\nnp.random.laplace()",
        "from numpy.random import laplace",
        "from scipy.stats import laplace\nlaplace.rvs()",
        "from os import urandom as r",
        "def f():\n    import secrets",
        "__import__('ran' + 'dom')",
        "from importlib import import_module",
        "open('/dev/urandom', 'rb')",
        "eval('random.random()')",
    ],
)
def test_every_access_to_randomness_is_found(text):
    assert sources_of_chance(text)


def test_src_has_no_other_source_of_randomness():
    found = {
        str(path.relative_to(ROOM.parent)): sources_of_chance(path.read_text()) for path in ROOM.parent.rglob("*.py")
    }
    imports = {"__init__.py", "audit/__init__.py", "runtime/__init__.py", "sql/functions.py", "registry.py"}
    assert {name: chance for name, chance in found.items() if chance} == {
        "noise/entropy.py": {"urandom"},
        **{name: {"import_module"} for name in imports},  # modules of this package, and of packages that a file allows
    }
