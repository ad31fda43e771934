"""client.js refuses thresholds that are off by one, and names each mistake of a page."""

import pytest

import streamgauge as sg
from streamgauge.localdp import wire
from tests.support.browser_client import altered

ITEMS = ("a", "🔥", 7)
LOSSES = ["1/1000", "1/10", "1/3", "1/2", "1", "3/2", "2", "3", "4", "6", "8", "12", "20"]
MADE = {
    "CountMeanSketch": {"hashes": 2, "width": 3},
    "HadamardCountMeanSketch": {"hashes": 2, "width": 4},
    "LocalHashing": {"hashes": 2, "width": 3},
    "RandomisedResponse": {"items": ITEMS},
    "UnaryEncoding": {"items": ITEMS},
    "HadamardResponse": {"items": ITEMS},
    "HeavyHitters": {"alphabet": "ab", "length": 2, "step": 1, "hashes": 2, "width": 4},
}
SKETCH = sg.localdp.HadamardCountMeanSketch(sg.Pure(2), hashes=16, width=16)


def accepted(client, settings):
    made = "try { return Boolean(client.parseMechanism(each)); } catch { return false; }"
    return client(f"return given.map((each) => {{ {made} }})", settings)


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", MADE)
def test_threshold_that_loses_one_step_more_is_refused(client, name):
    honest = [
        wire.to_settings(getattr(sg.localdp, name)(sg.Pure(loss), **MADE[name]))
        for loss in [*LOSSES, *(f"{part}/37" for part in range(1, 200))]
    ]
    chance, dearer = ("kept", 1) if "kept" in honest[0]["chances"] else ("flip", -1)
    dear, cheap = (
        [altered(each, chances=each["chances"] | {chance: each["chances"][chance] + by}) for each in honest]
        for by in (dearer, -dearer)
    )
    assert all(accepted(client, honest))
    assert not any(accepted(client, dear))
    assert all(accepted(client, cheap))


@pytest.mark.parametrize(("length", "step"), [(2, 1), (5, 2), (7, 7)])
def test_seed_of_words_has_the_bound_of_python(client, length, step):
    levels = -(-length // step)
    most = 2**53 - 1 - levels
    words = sg.localdp.HeavyHitters(sg.Pure(1), alphabet="ab", length=length, step=step, seed=most)
    with pytest.raises(ValueError, match=f"seed must be at most {most}, got"):
        sg.localdp.HeavyHitters(sg.Pure(1), alphabet="ab", length=length, step=step, seed=most + 1)
    details = wire.to_settings(words)
    assert accepted(client, [details, altered(details, seed=most + 1)]) == [True, False]


SAID = """const claim = client.parseMechanism(given); const {Device, Repeat, ChargeEachReport} = client;
try { %s; } catch (error) { return error.message; } return '';"""
COLLECTION = "settings must be those of a column, as /api/collection returns them, got "


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ("client.parseMechanism(undefined)", COLLECTION + "undefined"),
        ("client.parseMechanism(null)", COLLECTION + "null"),
        ("client.parseMechanism([given])", COLLECTION + "Array"),
        ("client.parseMechanism('text')", COLLECTION + '"text"'),
        (
            "client.parseMechanism({settings: given, again: 'repeat'})",
            "settings must be those of a column, as column.settings has them, got the column",
        ),
        ("new ChargeEachReport(8)", 'total must be "p" or "p/q" of whole numbers above 0, as text like "8", got 8'),
        (
            "new Device(claim, {policy: 'repeat'})",
            'policy must be new Repeat() or new ChargeEachReport(total), got "repeat"',
        ),
        (
            "new Device(claim, {policy: Repeat})",
            "policy must be new Repeat() or new ChargeEachReport(total), got Repeat",
        ),
        ("new Device(given)", "claim must be of parseMechanism(settings), got Object"),
        ("new Device(claim, {storage: null})", "storage must have update(name, change), got null"),
        ("new Device(claim, {storage: localStorage})", "storage must have update(name, change), got Storage"),
        (
            "client.message(claim, claim.privatise('a'))",
            "reports must be a list, as in message(claim, [report]), got Uint8Array",
        ),
        ("client.message(claim, 'the item')", "reports must be a list, as in message(claim, [report]), got string"),
        (
            "client.message(claim, [new Device(claim).report('a')])",
            "reports must be Uint8Arrays of 2 bytes each, got Promise",
        ),
        ("client.message(claim, [new Uint8Array(3)])", "reports must be Uint8Arrays of 2 bytes each, got Uint8Array"),
        (
            "await new Device(claim, {storage: {async update(_, change) { change('null'); }}}).report('a')",
            "memory must be text that this device wrote, got other text",
        ),
        (
            "await new Device(claim, {storage: {async update(_, change) { change('{'); }}}).status()",
            "memory must be text that this device wrote, got other text",
        ),
    ],
)
def test_mistake_of_a_page_gets_its_message(client, act, words):
    assert client(SAID % act, wire.to_settings(SKETCH)) == words


def test_spent_loss_is_in_lowest_terms_and_older_forms_parse(client):
    settings = wire.to_settings(sg.localdp.HadamardCountMeanSketch(sg.Pure("1/6"), hashes=16, width=16))
    details = client(
        """const again = new client.ChargeEachReport('9');
        const kept = new Map();
        const storage = {async update(name, change) {
          const text = change(kept.get(name));
          if (text) kept.set(name, text);
        }};
        const device = (name) => new client.Device(client.parseMechanism(given), {name, storage, policy: again});
        const spent = [];
        for (let i = 0; i < 6; i += 1) {
          await device('new').report('a');
          spent.push((await device('new').status()).spent);
        }
        const [[, memory]] = kept;
        kept.set('streamgauge old', JSON.stringify({...JSON.parse(memory), spent_epsilon: '2/12'}));
        await device('old').report('a');
        return [...spent, (await device('old').status()).spent];""",
        settings,
    )
    assert details == ["1/6", "1/3", "1/2", "2/3", "5/6", "1", "1/3"]
