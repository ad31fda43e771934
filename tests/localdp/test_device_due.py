"""A device says what is to be sent: a report, again while it has no answer and counts once, and no more than
pace and budget leave."""

import pytest

from streamgauge import Pure
from streamgauge.continual import RunFailedError
from streamgauge.localdp import CountMeanSketch, DailyBudget, Device, was_accepted, wire
from tests.support.codes import has_code
from tests.support.failing_phone import AGAIN, SKETCH, START, TICK, Phone, collection

OTHER = CountMeanSketch(Pure(2), width=64, seed=1)
RULES = pytest.mark.parametrize("again", ["repeat", "charge"])


def said(told, *acts):
    """Return the answers of a device to acts (moment, act, ...), each with its collection."""
    phone, answers = Phone(), []
    for at, act, *more in acts:
        phone.at = START + at
        if act == "due":
            answers.append(phone.due(more[0] if more else told))
        else:
            phone.acknowledge(told, *more)
    return answers


def test_a_report_without_an_answer_is_due_again_under_its_key_while_that_is_remembered():
    told = ((at, "due") for at in (0, 1, AGAIN - 1, AGAIN, AGAIN + 1, 10**6))
    assert said(collection(most=1), *told) == [[0, 0]] * 3 + [None] * 3


def test_a_device_that_failed_between_its_report_and_its_sending_sends_it_later():
    kept = []
    report = Device(SKETCH, max_reports=1, persist=kept.append, now=lambda: START).report("a")
    later = Device.load(SKETCH, kept[-1], max_reports=1, now=lambda: START + 60)
    assert later.remaining_reports == 0
    assert later.prepare_report("b").report == report
    assert later.prepare_report("b").key == later.key


def test_what_was_taken_is_not_due_again_whatever_is_answered_later():
    told = (0, "due"), (2, "answered"), (3, "due"), (5, "answered", False), (6, "due")
    assert said(collection(most=1), *told) == [[0, 0], None, None]


def test_what_was_refused_each_time_is_due_whenever_it_goes_and_its_time_begins_then():
    day = 86_400
    told = (0, "due"), (1, "answered", False), *((day + at, "due") for at in (0, AGAIN - 1, AGAIN))
    assert said(collection(most=1), *told) == [[0, 0]] * 3 + [None]


def test_an_attempt_that_was_lost_stays_lost_whatever_is_answered_to_another():
    told = (0, "due"), (5, "due"), (6, "answered", False), (7, "due"), (AGAIN, "due")
    assert said(collection(most=1), *told) == [[0, 0]] * 3 + [None]


def test_a_clock_that_is_set_back_sends_nothing_again():
    assert said(collection(), (100, "due"), (99, "due"), (101, "due")) == [[0, 0], None, [0, 0]]


@RULES
def test_once_it_was_answered_one_more_is_due_at_its_pace(again):
    told = (0, "due"), (3, "due"), (3, "answered"), (12, "due"), (13, "due"), (13, "answered"), (23, "due")
    following = [1 if again == "charge" else 0, 1]
    assert said(collection(again), *told) == [[0, 0], [0, 0], None, following, None]


def test_a_poll_that_begins_anew_gets_the_same_report_under_a_key_of_its_own():
    """Under the old key it would be one that this poll's pace does not count."""
    later = collection(most=1, start=START + 60)
    assert said(collection(most=1), (0, "due"), (61, "due", later), (62, "due", later)) == [[0, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize("most", [1, 2])
def test_a_report_that_is_to_be_repeated_for_another_collection_is_refused_before_its_pace(most):
    phone, other = Phone(), collection(most=most, claim=OTHER)
    phone.due(collection(most=most))
    for phone.at in (START, START + TICK, START + 10**6):
        for act in (phone.due, lambda told: phone.device(told).report("a")):
            with pytest.raises(wire.CollectionError, match="collection must be the one that was reported to"):
                act(other)


def test_a_report_of_another_collection_is_not_sent_again_by_one_that_pays():
    told = (0, "due"), (TICK, "due", collection("charge", claim=OTHER)), (TICK, "due")
    assert said(collection("charge"), *told) == [[0, 0], [1, 1], None]


def test_an_answer_to_another_report_or_to_none_changes_nothing():
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


def test_an_answer_that_leaves_it_open_changes_nothing():
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
def test_what_an_answer_says_of_a_report_is_doubted_unless_it_is_plain(status, body, accepted):
    assert was_accepted(status, body) is accepted


def test_a_daily_budget_that_is_spent_has_nothing_due_until_it_comes_back():
    day = [7]
    daily = DailyBudget(Pure(2))
    device = Device(SKETCH, daily, today=lambda: day[0], now=lambda: START)
    assert device.remaining_reports is None
    device.acknowledge(device.prepare_report("a").key)
    assert device.prepare_report("a") is None
    day[0] = 8
    assert device.prepare_report("a") is not None


@pytest.mark.parametrize("accepted", [1, 0, 200, "yes"])
def test_an_answer_that_says_nothing_is_refused(accepted):
    device = Device(SKETCH)
    device.report("a")
    with pytest.raises(ValueError, match=f"accepted must be True, False or None, got {accepted!r}"):
        device.acknowledge(device.key, accepted)


def test_a_device_that_was_saved_has_nothing_due_and_hears_no_answer():
    device = Device(SKETCH)
    key = device.prepare_report("a").key
    device.save()
    for act in (lambda: device.prepare_report("a"), lambda: device.acknowledge(key)):
        with pytest.raises(RunFailedError, check=has_code("moved")):
            act()


def test_what_is_due_does_not_print_itself():
    due = Device(SKETCH).prepare_report("a")
    assert repr(due) == "PendingReport()"
    assert "pendingreport" in f"{due}".lower()
