"""Due reports in all orders of replies and times: by a model, by a counting server, and in a browser."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from streamgauge.localdp.device import device as attempts
from tests.support.failing_phone import AGAIN, START, TICK, Phone, collection

REMEMBERED = 600  # seconds, by a server
STATUSES = "accepted", "arrived", "lost", "rejected"  # "arrived": it was accepted, and its answer was lost
RULES = pytest.mark.parametrize("again", ["repeat", "charge"])


@dataclass
class Attempt:
    """One attempt: the number of its report, the time of its device, and its status."""

    number: int
    at: int
    status: str


def expected(again: str, most: int, history: list[Attempt], at: int) -> list[int] | None:
    """Return the due report, by a second implementation of the rules of `attempts` and `pace`."""
    number = history[-1].number if history else -1
    mine = [each for each in history if each.number == number]
    unknown = [each.at for each in mine if each.status in {"arrived", "lost"}]
    accepted = any(each.status == "accepted" for each in mine)
    if mine and not accepted and (not unknown or unknown[0] <= at < unknown[0] + AGAIN):
        return [number if again == "charge" else 0, number]
    if number + 1 == most or (history and at < max(each.at for each in history) + TICK):
        return None
    return [number + 1 if again == "charge" else 0, number + 1]


STEPS = -1, 1, TICK, AGAIN - 1, AGAIN


def paths(again: str, steps=STEPS, depth=3) -> Iterator[tuple[list[tuple[int, str]], list[Any], list[Attempt]]]:
    """Yield every sequence of moments and statuses, with its replies and its attempts."""
    details = collection(again)

    def following(phone, acts, answers, history):
        if len(acts) == depth:
            yield acts, answers, history
            return
        for step, status in product(steps if acts else [0], STATUSES):
            at = (acts[-1][0] if acts else 0) + step
            new = Phone(list(phone.kept), list(phone.reports), list(phone.keys), START + at)
            due = new.due(details)
            if due and status in {"accepted", "rejected"}:
                new.acknowledge(details, status == "accepted")
            made = [*history, Attempt(due[1], at, status)] if due else history
            yield from following(new, [*acts, (at, status)], [*answers, due], made)

    yield from following(Phone(), [], [], [])


@pytest.mark.one_of_each
@RULES
def test_due_reports_follow_the_model_in_all_orders(again):
    observed = set()
    for acts, answers, history in paths(again):
        for place, (at, _) in enumerate(acts):
            before = history[: sum(due is not None for due in answers[:place])]
            assert answers[place] == expected(again, 2, before, at), acts
        observed.add(tuple(map(str, answers)))
    assert len(observed) > 5


def counted(history: list[Attempt]) -> dict[int, int]:
    """Return the counts of each report at a server that forgets a key ten minutes after it accepted it."""
    since: dict[int, int] = {}
    times: dict[int, int] = {}
    for each in history:
        if each.status in {"accepted", "arrived"}:
            known = each.number in since and each.at < since[each.number] + REMEMBERED
            if not known:
                times[each.number] = times.get(each.number, 0) + 1
                since[each.number] = each.at
    return times


def most_counted(again: str) -> int:
    onwards = 1, AGAIN - 1, AGAIN, REMEMBERED
    return max(max(counted(history).values(), default=0) for _, _, history in paths(again, onwards))


def test_no_report_is_counted_twice():
    assert most_counted("repeat") == most_counted("charge") == 1


def lasts_too_long(monkeypatch):
    monkeypatch.setattr(attempts, "RESEND_SECONDS", REMEMBERED + 1)


def begins_again(monkeypatch):
    """Measure time from the latest attempt, not from the first unanswered one."""

    def begin_again(memory, now):
        memory.open_attempts, memory.first_attempt_at = memory.open_attempts + 1, now

    monkeypatch.setattr(attempts, "start_resend", begin_again)


def forgets_the_others(monkeypatch):
    """Treat a refusal of one attempt as a refusal of all."""

    def answer(memory, accepted):
        memory.is_accepted, memory.open_attempts = memory.is_accepted or accepted, 0

    monkeypatch.setattr(attempts, "record_answer", answer)


@pytest.mark.parametrize("twin", [lasts_too_long, begins_again, forgets_the_others])
def test_twins_that_resend_longer_are_counted_twice(twin, monkeypatch):
    twin(monkeypatch)
    assert most_counted("repeat") == 2


ACTS = """const place = (list, one) => { if (!list.includes(one)) list.push(one); return list.indexOf(one); };
const [collection, start, all] = given;
const answers = [];
for (const acts of all) {
  const said = [], reports = [], keys = [];
  let kept = null, now = 0;
  const update = async (name, change) => { const next = change(kept); if (next !== undefined) kept = next; };
  const storage = {update};
  const device = client.buildDevice(collection, 'emoji', {maxLoss: '99', storage, now: () => start + now});
  for (const [at, status] of acts) {
    now = at;
    const due = await device.prepareReport('a');
    said.push(due && [place(reports, hex(due.report)), place(keys, due.key)]);
    if (due && ['accepted', 'rejected'].includes(status)) await device.acknowledge(due.key, status === 'accepted');
  }
  answers.push(said);
}
return answers;"""


@pytest.mark.one_of_each
@RULES
def test_browser_device_equals_python_in_all_orders(client, again):
    ways = list(paths(again))
    assert client(ACTS, [collection(again), START, [acts for acts, _, _ in ways]]) == [said for _, said, _ in ways]
