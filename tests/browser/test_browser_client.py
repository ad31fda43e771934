"""client.js, a device in a browser: equal to Python bit for bit, random by the platform's generator only."""

import json
import re
from itertools import product
from math import log

import numpy as np
import pytest
from scipy import stats

import streamgauge as sg
from streamgauge.localdp import wire
from streamgauge.localdp.protocols.hadamard_response import negative_signs
from streamgauge.localdp.report_bytes import unpack_codes
from streamgauge.noise.bernoulli import WORD_RANGE
from tests.support.browser_client import SOURCE, altered
from tests.support.every_report import law
from tests.support.vector_file import FILE

VECTORS = json.loads(FILE.read_text())
SURE = 1e-9
REPORTS, OF_A = 16_000, 9_000  # enough to reject other chances than the claim's
ITEMS = ("a", "🔥", 7)
SMALL = [
    sg.localdp.CountMeanSketch(sg.Pure(1), hashes=2, width=3),
    sg.localdp.HadamardCountMeanSketch(sg.Pure(1), hashes=2, width=4),
    sg.localdp.LocalHashing(sg.Pure(1), hashes=2),
    sg.localdp.RandomisedResponse(sg.Pure(1), items=ITEMS),
    sg.localdp.UnaryEncoding(sg.Pure(1), items=ITEMS),
    sg.localdp.HadamardResponse(sg.Pure(1), items=ITEMS),
    sg.localdp.HeavyHitters(sg.Pure(1), alphabet="a🔥7", length=2, step=1, hashes=2, width=4),
]
EACH = pytest.mark.parametrize("claim", SMALL, ids=lambda claim: type(claim).__name__)
WORDS = """crypto.getRandomValues = (array) => { array.fill(1); array[0] = given.shift(); return array; };"""


@pytest.fixture
def fresh(client):
    """The same page with empty storage, reloaded after the test to restore its generator."""
    client.clear()
    yield client
    client.page.reload()


def test_hashes_and_columns_equal_the_shared_vectors(client):
    details = client(
        """return given.hashes.map(({seed, coefficients, columns}) => ({
        seed,
        words: given.items.map((item) => String(client.hashItem(seed, item))),
        coefficients: Object.fromEntries(Object.keys(coefficients).map(
          (row) => [row, client.coefficients(seed, Number(row)).map(String)])),
        columns: Object.fromEntries(Object.keys(columns).map((width) => [width, given.items.map((item) =>
          given.rows.map((row) => client.findColumn({seed, width: Number(width)}, row, item)))])),
      }));""",
        VECTORS,
    )
    assert details == VECTORS["hashes"]


def test_reports_and_messages_equal_the_shared_vectors(client):
    known = {type(claim).__name__ for claim in SMALL}
    claims = [each for each in VECTORS["claims"] if each["settings"]["protocol"] in known]
    details = client(
        """return given.claims.map(({settings, cases}) => {
        const claim = client.parseMechanism(settings);
        const reports = cases.map(({item, drawn}) => claim.encode(item, ...drawn));
        return [claim.size, reports.map(hex), hex(client.message(claim, reports))]; });""",
        {"claims": claims},
    )
    assert details == [
        [each["report_size"], [case["report"] for case in each["cases"]], each["message"]] for each in claims
    ]
    assert {each["settings"]["protocol"] for each in claims} == known
    for other in (set(wire.PROTOCOLS) | {"toString", "None"}) - known:
        assert client("return client.parseMechanism(given)", {"protocol": other}) == {"refused": "Error"}


@EACH
def test_likelihood_of_report_follows_the_exact_law(client, claim):
    """In proportion to the exact law, for every report and item."""
    laws = [law(claim, item) for item in ITEMS]
    reports = sorted(laws[0])
    details = client(
        """const claim = client.parseMechanism(given[0]);
        return given[1].map((report) => given[2].map((item) => claim.likelihood(item, unhex(report))));""",
        [wire.to_settings(claim), [report.hex() for report in reports], list(ITEMS)],
    )
    exact = np.array([[float(each[report]) for each in laws] for report in reports])
    np.testing.assert_allclose(np.array(details) / np.array(details)[:, :1], exact / exact[:, :1], rtol=1e-9)
    worst = (exact.max(1) / exact.min(1)).max()
    assert log(worst) - SURE < client("return client.parseMechanism(given).loss", wire.to_settings(claim)) <= 1 + SURE


@EACH
def test_chances_with_larger_loss_than_epsilon_are_refused(client, claim):
    settings = wire.to_settings(claim)
    known = settings["chances"]
    for name, k in known.items():
        ways = {0, WORD_RANGE, k // 2 if name == "flip" else (k + WORD_RANGE) // 2, k + 0.5}
        for way in ways:
            details = client("return client.parseMechanism(given)", altered(settings, chances=known | {name: way}))
            assert details == {"refused": "Error"}, (name, way)
    other = settings | {"fingerprint": "00000000"}
    assert client("return client.parseMechanism(given)", other) == {"refused": "mismatch"}


HASHED, LISTED, SPELT = (wire.to_settings(SMALL[place]) for place in (1, 3, 6))
NO_LOSS = ["-8/-1", "1/-1", "4/", "4/ ", "1/0", "0", "", "0x8", "1/1/9", " 4", "4.5", "1e3", 4, True, None]
MEMORY = {
    "spent_epsilon": "2",
    "last_report": "00",
    "collection": "0" * 8,
    "key": "0" * 32,
    "reports_sent": 1,
    "last_sent_at": 0,
    "is_accepted": False,
    "open_attempts": 1,
    "first_attempt_at": 0,
}
NO_MEMORY = [
    *({each: value for each, value in MEMORY.items() if each != name} for name in MEMORY),
    *(MEMORY | {"last_report": report} for report in ("xyz", "0", "")),
    *(MEMORY | {"reports_sent": sent} for sent in (0, 1.5, "1")),
    *(MEMORY | {"open_attempts": tries} for tries in (-1, 0.5, None)),
    *(MEMORY | {name: None} for name in ("last_sent_at", "first_attempt_at", "is_accepted", "collection", "key")),
]
NO_CLAIM = [
    *(altered(HASHED, hashes=value) for value in (0, 2**40, 1.5, "2", True, None)),
    *(altered(HASHED, width=value) for value in (0, 1, 12, 2**21, None)),
    *(altered(HASHED, seed=value) for value in (-1, 2**53, None)),
    altered(HASHED, hashes=2**20, width=2**20),
    *(altered(HASHED, **{name: 0}) for name in ("loss", "size", "privatise", "another")),
    altered(HASHED, chances=None),
    altered(HASHED, chances={}),
    *(altered(LISTED, items=items) for items in ([], ["a"], ["a", "a"], ["7", 7], "ab", ["a", None], None)),
    *(altered(SPELT, **{name: 0}) for name in ("alphabet", "length", "step")),
    *(altered(SPELT, alphabet=alphabet) for alphabet in ("aba", "a\0")),
    altered(SPELT, step=3),
    altered(SPELT, alphabet="".join(map(chr, range(200, 500))), length=9, step=2),
    *(altered(SPELT, seed=2**53 - 1 - levels) for levels in (0, 1)),
]


def refused(client, act, given):
    """Return the errors that an act raises for each value, None for success."""
    details = f"""const found = [];
    for (const each of given) {{
      try {{ {act} found.push(null); }} catch (error) {{ found.push(refusal(error)); }}
    }}
    return found;"""
    return set(client(details, given))


def test_malformed_loss_is_refused_in_settings_policy_and_memory(fresh):
    details = wire.to_settings(sg.localdp.HadamardCountMeanSketch(sg.Pure(8), hashes=16, width=16))
    claims = [altered(details, epsilon=epsilon) for epsilon in NO_LOSS]
    assert refused(fresh, "client.parseMechanism(each);", claims) == {"Error"}
    assert refused(fresh, "new client.ChargeEachReport(each);", NO_LOSS) == {"Error"}
    charged = """await client.disk.update('streamgauge m', () => each[1]);
    const again = new client.ChargeEachReport('99');
    await new client.Device(client.parseMechanism(each[0]), {policy: again, name: 'm'}).report('a');"""
    assert refused(fresh, charged, [[details, json.dumps(MEMORY)]]) == {None}
    stored = [json.dumps(MEMORY | {"spent_epsilon": spent}) for spent in [*NO_LOSS, "-99"]]
    assert refused(fresh, charged, [[details, each] for each in stored]) == {"InvalidSaveError"}
    spoilt = ["null", "", "{}", "[]", "7", '"2"', "{", *map(json.dumps, NO_MEMORY)]
    assert refused(fresh, charged, [[details, each] for each in spoilt]) == {"InvalidSaveError"}


def test_invalid_settings_are_refused_at_parsing(client):
    assert refused(client, "client.parseMechanism(each);", NO_CLAIM) == {"Error"}
    proto = json.dumps(HASHED)[:-1] + ', "__proto__": {"loss": 0}}'
    assert client("return client.parseMechanism(JSON.parse(given))", proto) == {"refused": "Error"}


def test_claim_is_a_frozen_copy_of_its_settings(client):
    changed = """const claim = client.parseMechanism(given); given.chances.stored = 1; given.items[0] = 'b';
    const frozen = [claim, claim.chances, claim.items].every(Object.isFrozen);
    return [frozen, claim.items[0], claim.loss < 1.1];"""
    assert client(changed, LISTED) == [True, "a", True]


def test_coins_compare_words_and_dice_reject_excess_words(fresh):
    claim = sg.localdp.RandomisedResponse(sg.Pure(1), items=(*ITEMS, "z"))
    k = int(claim.chances["kept"] * WORD_RANGE)
    draw = f"{WORDS} return hex(client.parseMechanism(given.shift()).privatise('🔥'));"
    settings = wire.to_settings(claim)
    assert fresh(draw, [settings, k - 1, 0, 0]) == "01"
    assert fresh(draw, [settings, k, 0, 0]) == "00"
    assert fresh(draw, [settings, k, 1, 0]) == "02"
    assert fresh(draw, [settings, k, WORD_RANGE - 1, 2, 0]) == "03"  # of 3 sides: the last word is one too many


@pytest.fixture(scope="module")
def sent(client):
    """A claim, and reports of two items that Chromium drew."""
    claim = sg.localdp.HadamardCountMeanSketch(sg.Pure(2), hashes=16, width=16, seed=7)
    details = client(
        """const claim = client.parseMechanism(given[0]);
        const draw = (item, times) => Array.from({length: times}, () => hex(claim.privatise(item))).join('');
        return draw('a', given[1]) + draw('🔥', given[2]);""",
        [wire.to_settings(claim), OF_A, REPORTS - OF_A],
    )
    return claim, np.frombuffer(bytes.fromhex(details), np.uint8).reshape(REPORTS, claim.report_size)


def chance_of(claim, reports, flip):
    """Return a p-value for rows, lines and flips, each alone and all together."""
    codes = unpack_codes(reports).astype(np.int64)
    row, line = np.divmod(codes >> 1, claim.width)
    words = claim.family.words(["a"] * OF_A + ["🔥"] * (REPORTS - OF_A))
    flipped = (1 - (codes & 1)) ^ negative_signs(line, claim.family.columns(row, words))
    cells = np.bincount(2 * (codes >> 1) + flipped, minlength=claim.codes)
    expected = np.tile([1 - flip, flip], claim.codes // 2) * (2 * REPORTS / claim.codes)
    together = stats.chisquare(cells, expected).pvalue
    dice = stats.chisquare(cells.reshape(-1, 2).sum(1)).pvalue
    coins = stats.binomtest(int(flipped.sum()), REPORTS, flip).pvalue
    return 3 * float(min(together, dice, coins))


def test_rows_lines_and_flips_have_the_claimed_chances(sent):
    claim, reports = sent
    flip = float(claim.chances["flip"])
    assert chance_of(claim, reports, flip) > SURE
    assert chance_of(claim, reports, 0.7 * flip) < SURE
    assert chance_of(claim, reports, 1.3 * flip) < SURE
    assert chance_of(claim, reports[np.argsort(unpack_codes(reports) & 1)], flip) < SURE  # attributed to the wrong item


def test_python_collector_counts_browser_reports_up_to_its_error(sent):
    claim, reports = sent
    collector = claim.build_collector()
    assert collector.add(wire.unpack_message(claim, wire.pack_message(claim, reports))) == REPORTS
    found = collector.estimate(["a", "🔥", "z"])
    far = stats.norm.isf(SURE / 2)
    assert (np.abs(found.count - [OF_A, REPORTS - OF_A, 0]) < far * found.stddev).all()
    assert (found.stddev < REPORTS / 20).all()


@pytest.mark.parametrize(
    "broken",
    ["Object.defineProperty(globalThis, 'crypto', {value: {}});", "crypto.getRandomValues = (array) => array;"],
    ids=["missing", "silent"],
)
def test_device_without_platform_generator_draws_and_stores_nothing(fresh, broken):
    for claim, again in product(SMALL, ("Repeat()", "ChargeEachReport('9')")):
        device = f"new client.Device(client.parseMechanism(given), {{policy: new client.{again}}})"
        requested = f"{broken} return {device}.report('a');"
        assert fresh(requested, wire.to_settings(claim)) == {"refused": "EntropyError"}
    assert fresh.stored() == {}


def forbidden(source):
    """Return the uses of other randomness, modules or hosts in the module."""
    code = re.sub(r"^\s*(//|/\*\*).*$", "", source, flags=re.MULTILINE)
    code = code.replace("const systemClock = () => Date.now() / 1000;", "", 1)
    return re.findall(r"Math\.random|Date|performance|\bimport\b|\bfetch\b|\beval\b|https?:|Function\(", code)


def test_module_uses_no_other_randomness_and_no_network():
    assert forbidden(SOURCE) == []
    assert SOURCE.count("getRandomValues(") == 1
    assert forbidden(SOURCE.replace("drawWords(1)", "[Math.random() * 2 ** 32]", 1)) == ["Math.random"]


DEVICE = """const claim = client.parseMechanism(given); const {Device, Repeat, ChargeEachReport} = client;
const device = new Device(claim, {policy: new Repeat(), name: 'emoji'}); """
SPENT = "return (await device.status()).spent;"


def test_repeating_device_resends_its_first_report_and_pays_once(fresh):
    settings = wire.to_settings(sg.localdp.HadamardCountMeanSketch(sg.Pure(2)))
    first = fresh(DEVICE + "return hex((await device.report('a')).report)", settings)
    fresh.page.reload()
    for item in ("a", "b"):
        assert fresh(DEVICE + f"return hex((await device.report('{item}')).report)", settings) == first
    assert fresh(DEVICE + SPENT, settings) == "2"
    other = wire.to_settings(sg.localdp.HadamardCountMeanSketch(sg.Pure(2), seed=1))
    assert fresh(DEVICE + "return device.report('a')", other) == {"refused": "mismatch"}
    fresh(DEVICE + "await device.wipe()", settings)
    assert fresh(DEVICE + SPENT, settings) == "0"


def test_charging_device_draws_new_reports_until_budget_is_spent(fresh):
    settings = wire.to_settings(sg.localdp.CountMeanSketch(sg.Pure("1/3"), width=64))
    charged = """const spender = new Device(claim, {policy: new ChargeEachReport('1'), name: 'other'});
    const sent = []; for (let i = 0; i < 3; i += 1) sent.push(hex((await spender.report('a')).report));
    const refused = await spender.report('a').catch((error) => refusal(error));
    return [new Set(sent).size, refused, (await spender.status()).spent];"""
    assert fresh(DEVICE + charged, settings) == [3, "BudgetExhaustedError", "1"]
