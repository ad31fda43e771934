"""client.js obeys its collection: a number of reports, one a tick, and at most the agreed loss."""

import json
import re

import pytest

import streamgauge as sg
from streamgauge.localdp import wire

SKETCH = sg.localdp.CountMeanSketch(sg.Pure(2), width=64)  # no two of its reports are alike by chance
START, TICK = 1_000_000, 10


def collection(again="repeat", most=1, **changes):
    column = {"on_repeat": again, "reports_per_user": most, "settings": wire.to_settings(SKETCH)}
    return {"name": "poll", "start": START, "tick": TICK, "columns": {"emoji": column | changes}}


MADE = """const [collection, settings, moments] = given;
const device = (at) => client.buildDevice(collection, 'emoji', {maxLoss: '99', ...settings, now: () => at});
const said = [];
for (const at of moments) {
  try { said.push(hex((await device(at).report('a' + at)).report)); }
  catch (error) { said.push(refusal(error) + (error.waitSeconds ? ` ${error.waitSeconds}` : '')); }
}
"""
SENT = MADE + "return said;"


def requested(client, details, moments):
    """Return the results of new devices at some moments, with distinct reports as 0, 1, ..."""
    said = client(SENT, [details, {}, moments])
    reports = list(dict.fromkeys(each for each in said if re.fullmatch("[0-9a-f]+", each)))
    return [reports.index(each) if each in reports else each for each in said]


def test_device_makes_at_most_the_declared_number_of_reports(fresh):
    later = [START + TICK * n for n in range(5)]
    assert requested(fresh, collection(), later) == [0, *["report_limit"] * 4]
    fresh.clear()
    assert requested(fresh, collection(most=3), later) == [0, 0, 0, *["report_limit"] * 2]
    fresh.clear()
    assert requested(fresh, collection("charge", 3), later) == [0, 1, 2, *["report_limit"] * 2]


def test_reports_are_one_tick_apart_even_after_clock_change(fresh):
    moments = [START + at for at in (-3, 5, 5, 14, 0, 15, 16, 5, 25)]
    said = ["too_soon 3", 0, "too_soon 10", "too_soon 1", "too_soon 15", 0, "too_soon 9", "too_soon 20", 0]
    assert requested(fresh, collection(most=9), moments) == said


def test_report_to_earlier_poll_is_repeated_without_new_loss(fresh):
    details = collection()
    assert requested(fresh, details, [START]) == [0]
    next_one = details | {"start": START + 1000}
    first = json.loads(fresh.stored()["streamgauge emoji"])
    assert requested(fresh, next_one, [START + 999, START + 1000, START + 2000]) == ["too_soon 1", 0, "report_limit"]
    second = json.loads(fresh.stored()["streamgauge emoji"])
    assert (first["last_report"], first["spent_epsilon"]) == (second["last_report"], second["spent_epsilon"])
    assert first["key"] != second["key"]


def test_last_report_and_its_key_are_stored(fresh):
    details = fresh(
        MADE
        + """const seen = async () => {
          const {remaining, lastReport, key} = await device(0).status();
          return [remaining, lastReport && hex(lastReport), key];
        };
        const before = await seen();
        const sent = [];
        for (const at of [1e6, 2e6]) {
          const {report, key} = await device(at).report('a');
          sent.push([hex(report), key, ...await seen()]);
        }
        return [before, ...sent];""",
        [collection("charge", 2), {}, []],
    )
    (left, last, key), one, other = details
    assert (left, last, key) == (2, None, None)
    for (report, key, *observed), expected in ((one, 1), (other, 0)):
        assert (observed, len(key)) == ([expected, report, key], 32)
    assert (one[0] != other[0], one[1] != other[1]) == (True, True)


@pytest.mark.parametrize("again", ["repeat", "charge"])
def test_report_is_counted_before_it_is_returned(fresh, again):
    """A written report counts. A report that cannot be written is neither returned nor counted."""
    details = fresh(
        """const kept = new Map(); let full = true;
        const write = (name, text) => { if (full) throw new Error('full'); kept.set(name, text); };
        const storage = {async update(name, change) {
          const text = change(kept.get(name));
          if (text !== undefined) write(name, text);
        }};
        const device = client.buildDevice(given, 'emoji', {maxLoss: '2', storage});
        const first = await device.report('a').catch((error) => error.message);
        full = false;
        await device.report('a');
        const written = kept.size;
        const refused = await device.report('b').catch((error) => refusal(error));
        return [first, written, (await device.status()).remaining, refused];
        """,
        collection(again),
    )
    assert details == ["full", 1, 0, "report_limit"]


def test_refusal_does_not_read_the_item(fresh):
    details = fresh(
        """const device = client.buildDevice(given, 'emoji', {maxLoss: '2'});
        await device.report('a');
        const item = {toString() { throw new Error('looked'); }};
        return device.report(item).catch((error) => error.message);""",
        collection(),
    )
    assert details == "reports must be at most 1, got one more"


SAID = """try { %s } catch (error) { return [refusal(error), error.message]; } return [];"""
OF = "client.buildDevice(given, 'emoji', {maxLoss: '2'});"


@pytest.mark.parametrize(
    ("act", "details", "words"),
    [
        ("client.buildDevice(given, 'cat', {maxLoss: '2'})", collection(), 'column must be one of emoji, got "cat"'),
        ("client.buildDevice(given, 'toString', {maxLoss: '2'})", collection(), "column must be one of emoji, got"),
        ("client.buildDevice(given, 'emoji')", collection(), 'maxLoss must be "p" or'),
        (OF, {}, "column must be one of , got"),
        (OF, collection("daily"), 'on_repeat must be repeat or charge, got "daily"'),
        *((OF, collection(most=most), "reports_per_user must be a whole") for most in (0, 1.5, "1", None)),
        *((OF, collection() | {"tick": tick}, "intervalSeconds must be a number of") for tick in (0, -1, "1")),
        (OF, collection() | {"start": "now"}, 'start must be seconds since 1970, or null, got "now"'),
    ],
)
def test_collection_without_valid_pace_is_refused(fresh, act, details, words):
    kind, said = fresh(SAID % act, details)
    assert (kind, said[: len(words)]) == ("Error", words)


def test_collection_with_larger_loss_than_agreed_is_refused(fresh):
    act = "client.buildDevice(given[0], 'emoji', {maxLoss: given[1]});"
    for details, agreed in ((collection(), "2"), (collection(most=9), "2"), (collection("charge", 3), "6")):
        assert fresh(SAID % act, [details, agreed]) == []
    said = "maxLoss must be at least epsilon {}, which the collection requires, got {}"
    for details, agreed, asks in ((collection(), "199/100", 2), (collection("charge", 3), "5", 6)):
        assert fresh(SAID % act, [details, agreed]) == ["loss_not_agreed", said.format(asks, agreed)]


def test_invalid_clock_is_refused_before_a_draw(fresh):
    act = """const now = () => given[1];
    await client.buildDevice(given[0], 'emoji', {maxLoss: '2', now}).report('a');"""
    for moment in (None, "5"):
        kind, said = fresh(SAID % act, [collection(), moment])
        assert (kind, said[:35]) == ("Error", "now must return seconds since 1970,")
    assert fresh.stored() == {}
