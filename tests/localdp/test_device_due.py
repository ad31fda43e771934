"""Due reports of a device: one without a reply is due again while it counts once, and pace and budget limit
all others."""

import pytest

from streamgauge import Pure
from streamgauge.continual import RunFailedError
from streamgauge.localdp import CountMeanSketch, DailyBudget, Device, was_accepted, wire
from tests.support.codes import has_code
from tests.support.failing_phone import AGAIN, SKETCH, START, TICK, Phone, collection

OTHER = CountMeanSketch(Pure(2), width=64, seed=1)
RULES = pytest.mark.parametrize("again", ["repeat", "charge"])


def said(told, *acts):
    """Return the replies of a device to acts (moment, act, ...), each with its collection."""
    phone, answers = Phone(), []
    for at, act, *more in acts:
        phone.at = START + at
        if act == "due":
            answers.append(phone.due(more[0] if more else told))
        else:
            phone.acknowledge(told, *more)
    return answers


def test_unanswered_report_is_due_with_its_key_until_key_expires():
    told = ((at, "due") for at in (0, 1, AGAIN - 1, AGAIN, AGAIN + 1, 10**6))
    assert said(collection(most=1), *told) == [[0, 0]] * 3 + [None] * 3


def test_restarted_device_sends_its_stored_report():
    kept = []
    report = Device(SKETCH, max_reports=1, persist=kept.append, now=lambda: START).report("a")
    later = Device.load(SKETCH, kept[-1], max_reports=1, now=lambda: START + 60)
    assert later.remaining_reports == 0
    assert later.prepare_report("b").report == report
    assert later.prepare_report("b").key == later.key


def test_accepted_report_is_not_due_after_any_later_reply():
    told = (0, "due"), (2, "answered"), (3, "due"), (5, "answered", False), (6, "due")
    assert said(collection(most=1), *told) == [[0, 0], None, None]


def test_refused_report_stays_due_without_a_time_limit():
    day = 86_400
    told = (0, "due"), (1, "answered", False), *((day + at, "due") for at in (0, AGAIN - 1, AGAIN))
    assert said(collection(most=1), *told) == [[0, 0]] * 3 + [None]


def test_refusal_of_later_attempt_keeps_time_of_lost_one():
    told = (0, "due"), (5, "due"), (6, "answered", False), (7, "due"), (AGAIN, "due")
    assert said(collection(most=1), *told) == [[0, 0]] * 3 + [None]


def test_clock_that_is_set_back_makes_nothing_due():
    assert said(collection(), (100, "due"), (99, "due"), (101, "due")) == [[0, 0], None, [0, 0]]


@RULES
def test_next_report_is_due_one_tick_after_the_last(again):
    told = (0, "due"), (3, "due"), (3, "answered"), (12, "due"), (13, "due"), (13, "answered"), (23, "due")
    following = [1 if again == "charge" else 0, 1]
    assert said(collection(again), *told) == [[0, 0], [0, 0], None, following, None]


def test_restarted_poll_gets_same_report_with_a_new_key():
    """The pace of this poll would not count a report with the old key."""
    later = collection(most=1, start=START + 60)
    assert said(collection(most=1), (0, "due"), (61, "due", later), (62, "due", later)) == [[0, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize("most", [1, 2])
def test_repeat_for_another_collection_is_refused_before_its_pace(most):
    phone, other = Phone(), collection(most=most, claim=OTHER)
    phone.due(collection(most=most))
    for phone.at in (START, START + TICK, START + 10**6):
        for act in (phone.due, lambda told: phone.device(told).report("a")):
            with pytest.raises(wire.CollectionError, match="collection must be the one that was reported to"):
                act(other)


def test_charging_device_does_not_resend_report_of_another_collection():
    told = (0, "due"), (TICK, "due", collection("charge", claim=OTHER)), (TICK, "due")
    assert said(collection("charge"), *told) == [[0, 0], [1, 1], None]


def test_reply_to_another_report_or_none_changes_nothing():
    kept = []
    device = Device(SKETCH, max_reports=1, persist=kept.append, now=lambda: START)
    for key in ("", "0" * 32, None):
        device.acknowledge(key)
    assert kept == []
    first = device.prepare_report("a")
    for key in ("", "0" * 32, None, bytes.fromhex(first.key)):
        device.acknowledge(key)
    assert (device.prepare_report("a"), len(kept)) == (first, 2)
    device.acknowledge(first.key)
    assert (device.prepare_report("a"), len(kept)) == (None, 3)


def test_undecided_reply_changes_nothing():
    told = (0, "due"), (1, "answered", None), (2, "due"), (3, "answered", False), (AGAIN, "due")
    assert said(collection(most=1), *told) == [[0, 0], [0, 0], None]


@pytest.mark.parametrize(
    ("status", "body", "accepted"),
    [
        *((status, b"", True) for status in (200, 202, 299)),
        *((status, b"no", False) for status in (400, 413, 425, 429, 499)),
        *((status, b"", None) for status in (100, 199, 301, 500, 502, 503, 599)),
        (503, b'{"error": {"code": "not_running", "accepted": false}}', False),
        *(
            (503, body, None)
            for body in (b"{", b"\xff", b"[]", b"null", b"7", b'{"error": 1}', b'{"error": {}}', b"[" * 10**5)
        ),
        *((500, b'{"error": {"accepted": %s}}' % each, None) for each in (b"0", b"null", b"true", b'"false"')),
    ],
)
def test_reply_is_undecided_unless_status_or_body_is_clear(status, body, accepted):
    assert was_accepted(status, body) is accepted


def test_spent_daily_budget_has_nothing_due_until_next_day():
    day = [7]
    daily = DailyBudget(Pure(2))
    device = Device(SKETCH, daily, today=lambda: day[0], now=lambda: START)
    assert device.remaining_reports is None
    device.acknowledge(device.prepare_report("a").key)
    assert device.prepare_report("a") is None
    day[0] = 8
    assert device.prepare_report("a") is not None


@pytest.mark.parametrize("accepted", [1, 0, 200, "yes"])
def test_invalid_value_of_accepted_is_refused(accepted):
    device = Device(SKETCH)
    device.report("a")
    with pytest.raises(ValueError, match=f"accepted must be True, False or None, got {accepted!r}"):
        device.acknowledge(device.key, accepted)


def test_saved_device_refuses_reports_and_replies():
    device = Device(SKETCH)
    key = device.prepare_report("a").key
    device.save()
    for act in (lambda: device.prepare_report("a"), lambda: device.acknowledge(key)):
        with pytest.raises(RunFailedError, check=has_code("moved")):
            act()


def test_pending_report_does_not_print_itself():
    due = Device(SKETCH).prepare_report("a")
    assert repr(due) == "PendingReport()"
    assert "pendingreport" in f"{due}".lower()
