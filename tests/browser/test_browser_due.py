"""Due reports of client.js: one without a reply is due again while it counts once, and pace and budget limit
all others."""

import re
from pathlib import Path

import pytest

import streamgauge as sg
from streamgauge.localdp import wire

SKETCH = sg.localdp.CountMeanSketch(sg.Pure(2), width=64)  # no two of its reports are alike by chance
OTHER = sg.localdp.CountMeanSketch(sg.Pure(2), width=64, seed=1)
START, TICK, AGAIN = 1_000_000, 10, 540

ACTS = """const said = [], keys = [], reports = [];
const place = (list, one) => { if (!list.includes(one)) list.push(one); return list.indexOf(one); };
let key = null;
for (const [collection, at, act, ...more] of given) {
  const device = client.buildDevice(collection, 'emoji', {maxLoss: '99', now: () => at});
  try {
    if (act === 'due') {
      const due = await device.prepareReport('a' + at);
      if (due) key = due.key;
      said.push(due && [place(reports, hex(due.report)), place(keys, due.key)]);
    } else if (act === 'answered') await device.acknowledge(key, ...more);
    else if (act === 'forgotten') await device.wipe();
    else {
      const {remaining, status, retrySeconds} = await device.status();
      said.push([remaining, status, retrySeconds]);
    }
  } catch (error) { said.push(refusal(error)); }
}
return said;"""


def collection(again="repeat", most=1, claim=SKETCH, start=START):
    column = {"on_repeat": again, "reports_per_user": most, "settings": wire.to_settings(claim)}
    return {"name": "poll", "start": start, "tick": TICK, "columns": {"emoji": column}}


def acts(client, details, *acts):
    """Return the results of acts (moment, act, ...), with reports and keys numbered by first use."""
    return client(ACTS, [[details, START + at, *act] for at, *act in acts])


def test_unanswered_report_is_due_with_its_key_until_key_expires(fresh):
    said = acts(fresh, collection(), *((at, "due") for at in (0, 1, AGAIN - 1, AGAIN, AGAIN + 1, 10**6)))
    assert said == [[0, 0]] * 3 + [None] * 3


def test_accepted_report_is_not_due_again(fresh):
    details = ((0, "due"), (1, "seen"), (2, "answered"), (3, "due"), (4, "seen"), (5, "answered", False), (6, "due"))
    assert acts(fresh, collection(), *details) == [[0, 0], [0, "unanswered", AGAIN - 1], None, [0, "accepted", 0], None]


def test_refused_report_stays_due_without_a_time_limit(fresh):
    day = 86_400
    details = (
        *((0, "due"), (1, "answered", False), (2, "seen"), (day, "due"), (day, "seen")),
        *((day + AGAIN - 1, "due"), (day + AGAIN, "due")),
    )
    said = [[0, 0], [0, "rejected", float("inf")], [0, 0], [0, "unanswered", AGAIN], [0, 0], None]
    assert acts(fresh, collection(), *details) == said


def test_refusal_of_later_attempt_keeps_time_of_lost_one(fresh):
    details = (0, "due"), (5, "due"), (6, "answered", False), (7, "seen"), (AGAIN, "due"), (AGAIN, "seen")
    said = [[0, 0], [0, 0], [0, "unanswered", AGAIN - 7], None, [0, "unanswered", 0]]
    assert acts(fresh, collection(), *details) == said


def test_clock_that_is_set_back_makes_nothing_due(fresh):
    assert acts(fresh, collection(), (100, "due"), (99, "due"), (101, "due")) == [[0, 0], None, [0, 0]]


@pytest.mark.parametrize(("again", "next_report"), [("repeat", 0), ("charge", 1)])
def test_next_report_is_due_one_tick_after_the_last(fresh, again, next_report):
    details = (0, "due"), (3, "due"), (3, "answered"), (12, "due"), (13, "due"), (13, "answered"), (23, "due")
    assert acts(fresh, collection(again, 2), *details) == [[0, 0], [0, 0], None, [next_report, 1], None]


def test_expired_report_is_followed_by_the_next_one(fresh):
    details = (0, "due"), (AGAIN, "due"), (AGAIN + 1, "due"), (3 * AGAIN, "due")
    assert acts(fresh, collection(most=2), *details) == [[0, 0], [0, 1], [0, 1], None]


def test_restarted_poll_gets_same_report_with_a_new_key(fresh):
    """The pace of this poll would not count a report with the old key."""
    later = collection(start=START + 60)
    given = [[collection(), START, "due"], [later, START + 61, "due"], [later, START + 62, "due"]]
    assert fresh(ACTS, given) == [[0, 0], [0, 1], [0, 1]]


def test_reply_to_another_report_changes_nothing(fresh):
    details = (0, "due"), (0, "forgotten"), (1, "due"), (2, "seen")
    assert acts(fresh, collection(), *details) == [[0, 0], [1, 1], [0, "unanswered", AGAIN - 1]]
    fresh("await client.buildDevice(given, 'emoji', {maxLoss: '2'}).acknowledge('0'.repeat(32));", collection())
    assert acts(fresh, collection(), (2, "seen")) == [[0, "unanswered", AGAIN - 1]]


@pytest.mark.parametrize("again", ["repeat", "charge"])
def test_second_collection_gets_reports_only_from_a_charging_device(fresh, again):
    """A repeating device has no report left. A charging device pays for another one."""
    for claim, most in ((SKETCH, 2), (OTHER, 2)):
        details = collection(again, most, claim)
        before = acts(fresh, details, (0, "seen"))
        assert before == [[2, None, 0]] if claim == SKETCH else [[0 if again == "repeat" else 1, None, 0]]
        acts(fresh, details, (0, "due"), (0, "answered"))
    details = collection(again, 2, OTHER)
    assert acts(fresh, details, (TICK, "due")) == ["mismatch" if again == "repeat" else [0, 0]]


def test_other_collection_raises_mismatch_even_without_reports_left(fresh):
    """A mismatch differs from a device that has sent all its reports."""
    acts(fresh, collection(), (0, "due"), (0, "answered"))
    assert acts(fresh, collection(claim=OTHER), (0, "due"), (TICK, "due")) == ["mismatch"] * 2
    assert acts(fresh, collection(), (0, "due"), (TICK, "due")) == [None] * 2
    act = "await client.buildDevice(given, 'emoji', {maxLoss: '2'}).report('a');"
    assert fresh(act, collection(claim=OTHER)) == {"refused": "mismatch"}


LEFT = """const [settings, total, most] = given;
const again = new client.ChargeEachReport(total);
const device = new client.Device(client.parseMechanism(settings), {policy: again, maxReports: most});
const remaining = async () => (await device.status()).remaining;
const said = [await remaining()];
while (await device.report('a').catch(() => null)) said.push(await remaining());
return said;"""


@pytest.mark.parametrize(
    ("epsilon", "total", "most", "left"),
    [
        ("2", "2", 5, [1, 0]),
        ("2", "2", None, [1, 0]),
        ("2", "9", 2, [2, 1, 0]),
        ("2", "9", None, [4, 3, 2, 1, 0]),
        ("1/3", "1", None, [3, 2, 1, 0]),
        ("1/3", "99/100", None, [2, 1, 0]),
        ("2", "1", 5, [0]),
    ],
)
def test_remaining_reports_follow_pace_and_budget(fresh, epsilon, total, most, left):
    claim = sg.localdp.HadamardCountMeanSketch(sg.Pure(epsilon), hashes=16, width=16)
    assert fresh(LEFT, [wire.to_settings(claim), total, most]) == left


def test_memory_with_loss_but_no_report_is_refused(fresh):
    act = """await client.disk.update('streamgauge emoji', () => '{"spent_epsilon":"6"}');
    const device = client.buildDevice(given, 'emoji', {maxLoss: '6'});
    const refused = async (act) => act.then(() => null, (error) => refusal(error));
    return Promise.all([device.report('a'), device.prepareReport('a'), device.status()].map(refused));"""
    for again in ("repeat", "charge"):
        assert fresh(act, collection(again, 2)) == ["InvalidSaveError"] * 3
    rule = """const claim = client.parseMechanism(given), again = new client.Repeat();
    try { return again.next({spent_epsilon: '6'}, claim, 'a'); }
    catch (error) { return [refusal(error), again.remaining({spent_epsilon: '6'}, claim)]; }"""
    assert fresh(rule, wire.to_settings(SKETCH)) == ["mismatch", 0]


DOCS = Path(__file__).parents[2] / "docs"
VISIT = """const {buildDevice} = client, sent = [], [collection, answer, visit, at] = given;
Date.now = () => 1000 * at;
const fetch = async (path, {headers} = {}) => {
  if (!headers) return {json: async () => collection};
  sent.push(headers['Batch-Key']);
  if (answer === null) throw new TypeError('lost');
  const [status, body] = answer;
  return new Response(body, {status});
};
const Async = Object.getPrototypeOf(async () => 0).constructor;
const went = await new Async('buildDevice', 'fetch', visit)(buildDevice, fetch)
  .then(() => 'well', (error) => error.message);
return [went, sent];"""
CERTAIN = '{"error": {"code": "catching_up", "message": "later", "accepted": false}}'
OPEN = '{"error": {"code": "not_committed", "message": "later"}}'
ACCEPTED, MANY, BEHIND = [200, "{}"], [429, OPEN], [503, CERTAIN]


def test_documented_visit_code_sends_one_report_that_counts_once(fresh):
    (code,) = re.findall(r"```js\n(import \{ buildDevice.*?)```", (DOCS / "server.md").read_text(), re.DOTALL)
    assert len(code.strip().splitlines()) <= 10

    def visit(at, answer):
        went, sent = fresh(VISIT, [collection(), answer, re.sub(r"import .*", "", code), START + at])
        assert went == ("lost" if sent and answer is None else "well")
        return sent

    lost = None, [503, OPEN], [502, "a proxy's words"], [500, '{"error": {}}'], BEHIND
    first = [visit(60 * at, answer) for at, answer in enumerate(lost)]
    assert first == [first[0]] * len(lost)
    assert len(first[0]) == 1
    assert [visit(at, ACCEPTED) for at in (AGAIN, 2 * AGAIN)] == [[], []]
    fresh.page.reload()
    fresh.clear()
    stored = [visit(10**6 * at, answer) for at, answer in enumerate((MANY, BEHIND, BEHIND, ACCEPTED, ACCEPTED))]
    assert stored == [*[stored[0]] * 4, []]
    fresh.page.reload()


SENT = """const [collection, status, body] = given, asked = [];
const post = async (...told) => { asked.push(told); return new Response(body, {status}); };
const device = client.buildDevice(collection, 'emoji', {maxLoss: '2', now: () => collection.start});
const reply = await device.send('a', post);
if (reply === null) return [null, asked.length];
const [[sent, under]] = asked, {lastReport, key, status: known} = await device.status();
return [hex(sent) === hex(client.message(device.claim, [lastReport])), under === key, known, await reply.text()];"""


@pytest.mark.parametrize(
    ("answer", "status"),
    [(ACCEPTED, "accepted"), (MANY, "rejected"), (BEHIND, "rejected"), ([503, OPEN], "unanswered")],
)
def test_status_of_report_follows_the_reply_of_the_server(fresh, answer, status):
    """The page can still read the whole reply."""
    assert fresh(SENT, [collection(), *answer]) == [True, True, status, answer[1]]
    if status == "accepted":
        assert fresh(SENT, [collection(), *answer]) == [None, 0]
