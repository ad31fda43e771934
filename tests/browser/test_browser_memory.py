"""The memory of client.js: shared by all tabs, and written before a report is returned."""

import time

import pytest

import streamgauge as sg
from streamgauge.localdp import wire
from tests.support.browser_client import SITE, host, opened

SETTINGS = wire.to_settings(sg.localdp.HadamardCountMeanSketch(sg.Pure(2), hashes=2**16, width=2**14))
ROUNDS, APART = 60, 50  # milliseconds
TOGETHER = """async ([again, first, rounds, apart, settings]) => {
  const client = await import('/client.js');
  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const claim = client.parseMechanism(settings);
  const moment = () => performance.timeOrigin + performance.now();
  const said = [];
  for (let round = 0; round < rounds; round += 1) {
    const at = first + round * apart;
    await new Promise((go) => setTimeout(go, Math.max(0, at - moment() - 4)));
    while (moment() < at);
    const rule = again === 'repeat' ? new client.Repeat() : new client.ChargeEachReport('2');
    const device = new client.Device(claim, { policy: rule, name: `round ${round}` });
    const sent = device.report('a').then(({ report }) => hex(report), (error) => error.constructor.name);
    said.push(await sent);
  }
  return said;
}"""
BEGIN = "([act, given]) => { window.said = (0, eval)(act)(given); }"
DRIVEN = """const device = new client.Device(client.parseMechanism(given), %s);
return device.%s.then(() => 'kept', (error) => error.message);"""


@pytest.mark.one_of_each
@pytest.mark.parametrize("again", ["repeat", "charge"])
def test_two_tabs_at_once_draw_one_report_between_them(fresh, again):
    """Two processes request a report at the same moment, in many rounds."""
    tabs = [fresh, opened(fresh.page.context)]
    given = [again, time.time() * 1000 + 1000, ROUNDS, APART, SETTINGS]
    for tab in tabs:
        tab.page.evaluate(BEGIN, [TOGETHER, given])
    one, other = (tab.page.evaluate("window.said") for tab in tabs)
    tabs[1].page.close()
    assert len(one) == len(other) == ROUNDS
    if again == "repeat":
        assert one == other
    else:
        assert all(pair.count("BudgetExhaustedError") == 1 for pair in zip(one, other, strict=True))
    assert len(fresh.stored()) == ROUNDS


def test_storage_that_loses_writes_yields_no_report(client):
    words = "storage must persist writes, got one that does not"
    for again in ("new client.Repeat()", "new client.ChargeEachReport('9')"):
        for update in ("async (_, change) => { change(null); }", "async () => null"):
            how = f"{{policy: {again}, storage: {{update: {update}}}}}"
            for act in ("report('a')", "prepareReport('a')"):
                assert client(DRIVEN % (how, act), SETTINGS) == words


BROKEN = {
    "missing": ("globalThis.indexedDB", "storage must persist writes, got a platform without indexedDB"),
    "denied": ("IDBFactory.prototype.open", "No."),
    "not written": ("IDBObjectStore.prototype.put", "No."),
    "not begun": ("IDBDatabase.prototype.transaction", "No."),
}


@pytest.mark.parametrize("how", BROKEN)
def test_failed_write_yields_no_report_and_counts_nothing(fresh, how):
    name, words = BROKEN[how]
    owner, last = name.rsplit(".", 1)
    value = "undefined" if how == "missing" else "() => { throw new DOMException('No.') }"
    broken = f"Object.defineProperty({owner}, '{last}', {{value: {value}, configurable: true}}); "
    assert fresh(broken + DRIVEN % ("{maxReports: 1}", "report('a')"), SETTINGS) == words
    fresh.page.reload()
    assert fresh.stored() == {}
    assert fresh(DRIVEN % ("{maxReports: 1}", "report('a')"), SETTINGS) == "kept"


def test_full_disk_yields_no_report(client):
    """The quota of the browser refuses the write only after the page has made it."""
    tabs = client.page.context.browser.new_context()
    host(tabs)
    page = opened(tabs)
    quota = {"origin": SITE.rstrip("/"), "quotaSize": 1}
    tabs.new_cdp_session(page.page).send("Storage.overrideQuotaForOrigin", quota)
    words = "storage must persist writes, got QuotaExceededError"
    assert page(DRIVEN % ("{maxReports: 1}", "report('a')"), SETTINGS) == words
    assert page.stored() == {}
    tabs.close()


def test_exception_of_a_change_is_raised_and_writes_nothing(fresh):
    details = """const {disk} = client;
    await disk.update('a', () => 'first');
    const refused = await disk.update('a', () => { throw new client.ReportPaceError('later'); })
      .catch((error) => [error.constructor.name, error.message]);
    const seen = [];
    for (const change of [undefined, 'second', undefined, null, undefined]) {
      await disk.update('a', (text) => { seen.push(text); return change; });
    }
    return [refused, seen];"""
    assert fresh(details) == [["ReportPaceError", "later"], ["first", "first", "second", "second", None]]


def test_memory_has_one_name_and_is_empty_after_wipe(fresh):
    details = """const device = (name) => new client.Device(client.parseMechanism(given), {name});
    await device('one').report('a');
    const spent = async (name) => (await device(name).status()).spent;
    const told = () => Promise.all(['one', 'other'].map(spent));
    const before = await told();
    await device('other').report('a');
    await device('one').wipe();
    return [before, await told()];"""
    assert fresh(details, SETTINGS) == [["2", "0"], ["0", "2"]]
    assert list(fresh.stored()) == ["streamgauge other"]
