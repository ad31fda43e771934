"""The poll resends a report only if it counts once: not in parallel, not late, not to another poll."""

import pytest

from streamgauge.cli.demo.poll import EPSILON, HASH_COUNT, SKETCH_SEED, SKETCH_WIDTH
from streamgauge.localdp import HadamardCountMeanSketch, wire
from streamgauge.privacy import Pure
from tests.support.page_servers import chromium, fetch_json, looking, until
from tests.support.poll_memory import BEFORE, KEPT, change_memory, memory
from tests.support.poll_pages import (
    AGAIN,
    FAILED,
    FIRST,
    SAME,
    SOURCES,
    TICKS,
    lose,
    pick,
    polling,
    sent_in,
    take,
    texts,
)

OTHER = "This device reported to a poll with other settings, so it sends nothing here."
LATE = "The server did not respond, and it is too late to send the report again. It may have arrived."
TWICE = "Later it might count twice, so it is not sent again."
NOTHING = "Nothing more to send"
DONE = "Sent: nothing more to send"
MINUTES = 60


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with polling(tmp_path_factory.mktemp("poll")) as found:
        yield found


@pytest.fixture
def page(browser, server):
    with looking(
        browser,
        server.address,
        "/emoji",
        expected=FAILED,
        prepare=lambda page: page.add_init_script(SOURCES),
        color_scheme="light",
    ) as found:
        yield found


@pytest.fixture
def posted(page):
    """The batch keys of posted reports."""
    sent = []
    page.on("request", lambda each: sent.append(each.headers["batch-key"]) if each.method == "POST" else None)
    return sent


def blocked(page):
    """Return the intercepted reports, which a test forwards or aborts."""
    found = []

    def hold(route):
        found.append(route)

    page.route("**/api/reports", hold)
    return found


def disabled(page, name):
    page.get_by_role("button", name=name).wait_for()
    return page.get_by_role("button", name=name).is_disabled()


def silence(page):
    """Stop the broadcasts of a page to other pages."""
    page.evaluate("BroadcastChannel.prototype.postMessage = () => null")


@pytest.mark.slow
def test_pending_report_cannot_be_sent_twice(page, posted):
    """The page posts one report and learns that the server accepted it."""
    waiting = blocked(page)
    pick(page, "fire")
    page.locator("#send[aria-busy]").wait_for()
    assert page.locator("#send").is_disabled()
    for _ in range(2):
        page.locator("#poll").evaluate("(form) => form.requestSubmit()")
    page.get_by_label("cat", exact=True).check()
    assert page.locator("#send").is_disabled()
    until(page, lambda: waiting)
    page.wait_for_timeout(200)
    assert len(waiting) == 1
    waiting[0].continue_()
    assert disabled(page, DONE)
    assert (len(posted), memory(page)["is_accepted"]) == (1, True)


@pytest.mark.slow
def test_lost_reply_of_one_page_keeps_acceptance_of_another(page):
    """One page gets its report accepted while the attempt of the other is pending and then lost."""
    lose(page, "fire", arrives=False)
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("button", name=AGAIN).wait_for()
    waiting = blocked(other)
    other.get_by_role("button", name=AGAIN).click()
    until(other, lambda: waiting)
    take(page, "cat", AGAIN)
    waiting[0].abort()
    assert disabled(other, DONE)
    assert memory(page)["is_accepted"] is True
    other.close()


@pytest.mark.slow
def test_refusal_does_not_hide_an_earlier_lost_attempt(page):
    lose(page, "fire", arrives=True)
    page.route("**/api/reports", lambda route: route.fulfill(status=429, json={"error": {"message": "no"}}))
    page.get_by_role("button", name=AGAIN).click()
    page.locator("#refused", has_text="The server rejected the report").wait_for()
    assert texts(page, "status") == ["The server did not respond: the report may have arrived."]
    change_memory(page, lambda stored: {"first_attempt_at": stored["first_attempt_at"] - 10 * MINUTES})
    page.reload()
    assert disabled(page, NOTHING)


@pytest.mark.slow
def test_unanswered_report_is_not_resent_after_ten_minutes(page, posted):
    report, _ = lose(page, "fire", arrives=True)
    change_memory(page, lambda stored: {"first_attempt_at": stored["first_attempt_at"] - 10 * MINUTES})
    posted.clear()
    page.get_by_role("button", name=AGAIN).click()  # of a page that does not know yet
    page.locator("#status").get_by_text(LATE).wait_for()
    for _ in range(2):
        assert disabled(page, NOTHING)
        assert texts(page, "bytes", "status") == [report, LATE]
        assert TWICE in page.locator("#cost").inner_text()
        page.get_by_label("cat", exact=True).check()
        page.locator("#poll").evaluate("(form) => form.requestSubmit()")
        page.reload()
        page.locator("#status").wait_for()
    assert posted == []


@pytest.mark.slow
def test_open_page_withdraws_resend_button_after_ten_minutes(browser, server):
    def prepare(page):
        page.clock.install()

    with looking(browser, server.address, "/emoji", expected=FAILED, prepare=prepare) as page:
        page.locator("#signs label").first.wait_for()
        lose(page, "fire", arrives=True)
        page.clock.fast_forward("08:00")
        page.get_by_role("button", name=AGAIN).wait_for()
        page.clock.fast_forward("02:00")
        page.locator("#status").get_by_text(LATE).wait_for()
        assert disabled(page, NOTHING)


def test_refused_report_may_be_sent_much_later(page):
    page.route("**/api/reports", lambda route: route.fulfill(status=429, json={"error": {"message": "no"}}))
    pick(page, "fire")
    page.locator("#refused", has_text="The server rejected the report").wait_for()
    change_memory(page, lambda stored: {"first_attempt_at": stored["first_attempt_at"] - 3600 * MINUTES})
    page.unroute("**/api/reports")
    page.reload()
    take(page, "cat", AGAIN)


def collection(server, *, seed=SKETCH_SEED, later=0, **changes):
    """Return the collection of the server, or that of a restarted one."""
    found = fetch_json(server, "/api/collection")
    settings = wire.to_settings(
        HadamardCountMeanSketch(Pure(EPSILON), hashes=HASH_COUNT, width=SKETCH_WIDTH, seed=seed)
    )
    column = found["columns"]["emoji"] | {"settings": settings} | changes
    return found | {"start": found["start"] + later, "columns": {"emoji": column}}


def restart(page, answer):
    """Break the stream. The page gets another collection when it reconnects."""
    page.route("**/api/collection", lambda route: route.fulfill(json=answer))
    page.evaluate("sources.at(-1).dispatchEvent(new Event('error'))")


@pytest.mark.slow
def test_device_of_poll_with_other_settings_sends_nothing(page, server, posted):
    take(page, "fire")
    restart(page, collection(server, seed=SKETCH_SEED + 1))
    for _ in range(2):
        page.locator("#sent-body").get_by_text(OTHER).wait_for()
        page.get_by_label("cat", exact=True).check()
        assert disabled(page, NOTHING)
        page.locator("#poll").evaluate("(form) => form.requestSubmit()")
        assert "Nothing yet" not in page.locator("#sent").inner_text()
        assert "It sends nothing here, and this poll costs it nothing" in page.locator("#cost").inner_text()
        page.reload()
    page.locator("#sent-body").get_by_text(OTHER).wait_for()
    assert len(posted) == 1


@pytest.mark.slow
def test_open_page_detects_a_restarted_poll(page, server):
    """The page sends it the same report once, with a new key."""
    report, key = take(page, "fire")
    now = page.evaluate("Date.now() / 1000")
    restart(page, collection(server, later=now + 1 - fetch_json(server, "/api/collection")["start"]))
    page.locator("#status").get_by_text("Drawn for an earlier poll, not yet sent to this one.").wait_for()
    page.wait_for_timeout(1500)
    again, other = take(page, "cat", SAME)
    assert (again, other != key) == (report, True)
    assert page.locator("#signs label").count() == page.locator("#rows tr").count() == 12


@pytest.mark.slow
def test_reconnect_to_same_poll_keeps_the_pick(page, server):
    page.get_by_label("cat", exact=True).check()
    restart(page, collection(server))
    page.wait_for_function("() => sources.length === 2 && sources.at(-1).readyState === 1")
    page.locator("#state-text", has_text="Live").wait_for()
    assert page.get_by_label("cat", exact=True).is_checked()
    assert page.get_by_role("button", name=FIRST).is_enabled()


@pytest.mark.slow
def test_changed_poll_rejects_report_of_an_open_page(page, server):
    """The server refuses a report that was drawn for another collection."""
    old = collection(server, seed=SKETCH_SEED + 1)
    page.route("**/api/collection", lambda route: route.fulfill(json=old))
    page.reload()
    page.wait_for_function(TICKS)
    page.unroute("**/api/collection")
    pick(page, "fire")
    page.locator("#refused").wait_for()
    assert texts(page, "refused", "sent-body") == [
        "The poll changed before the report arrived, so the report was rejected.",
        OTHER,
    ]
    assert disabled(page, NOTHING)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"on_repeat": "charge", "reports_per_user": 3}, "maxLoss must be at least epsilon 6"),
        ({"on_repeat": "daily"}, 'on_repeat must be repeat or charge, got "daily"'),
        ({"settings": {"protocol": "None"}}, "protocol must be one of"),
    ],
)
def test_unsupported_poll_is_shown_with_its_reason(page, server, changes, words):
    restart(page, collection(server, **changes))
    page.locator("#without").wait_for()
    said = page.locator("#poll").inner_text()
    assert said.startswith(f"This device cannot take part in this poll ({words}")
    assert said.endswith("so it sends nothing. You can still see the crowd.")
    assert texts(page, "sent-body", "cost") == ["Nothing.", ""]
    restart(page, collection(server))
    take(page, "fire")


@pytest.mark.slow
def test_button_label_stays_true_after_acts_of_other_pages(page, posted):
    lose(page, "fire", arrives=True)
    other = page.context.new_page()
    other.goto(page.url)
    silence(other)
    other.get_by_role("button", name="Become another device").click()
    other.locator("#cost").get_by_text("another report costs you").wait_for()
    posted.clear()
    page.get_by_role("button", name=AGAIN).click()
    page.locator("#sent-body").get_by_text("As another device, nothing yet.").wait_for()
    assert (list(page.evaluate(KEPT)), disabled(page, FIRST)) == ([BEFORE], False)
    take(other, "cat")
    page.get_by_role("button", name=FIRST).click()
    page.locator("#status").get_by_text("Sent before, so not sent again.").wait_for()
    assert disabled(page, DONE)
    assert posted == []
    other.close()


@pytest.mark.slow
def test_new_device_from_two_pages_is_counted_once(page):
    take(page, "fire")
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("button", name="Become another device").wait_for()
    silence(page)
    for each in (page, other):
        each.get_by_role("button", name="Become another device").click()
        each.locator("#sent-body").get_by_text("1 report was sent from here before").wait_for()
    other.close()


@pytest.mark.slow
def test_page_follows_acts_of_another_page(page, posted):
    lose(page, "fire", arrives=False)
    other = page.context.new_page()
    other.goto(page.url)
    take(other, "cat", AGAIN)
    assert disabled(page, DONE)
    assert texts(page, "status") == ["Sent from this browser before."]
    assert "there is nothing more to send" in page.locator("#cost").inner_text()
    other.get_by_role("button", name="Become another device").click()
    page.locator("#sent-body").get_by_text("As another device, nothing yet.").wait_for()
    assert len(posted) == 1
    other.close()


@pytest.mark.slow
def test_button_resends_report_of_earlier_poll_without_a_pick(page):
    report, _ = take(page, "fire")
    change_memory(page, lambda stored: {"last_sent_at": stored["last_sent_at"] - 1e6})  # long before the start
    page.reload()
    assert not disabled(page, SAME)
    assert "It sends the same bytes to this one for any pick" in page.locator("#cost").inner_text()
    with page.expect_response("**/api/reports") as answered:
        page.get_by_role("button", name=SAME).click()
    assert sent_in(answered.value.request)[0] == report
    assert disabled(page, DONE)


def test_certainly_refused_report_may_be_sent_at_any_time(page):
    """A run that catches up accepts no report and says so."""
    error = {"code": "catching_up", "message": "later", "accepted": False}
    page.route("**/api/reports", lambda route: route.fulfill(status=503, json={"error": error}))
    pick(page, "fire")
    page.locator("#refused", has_text="The server rejected the report").wait_for()
    with page.expect_response("**/api/reports"):
        page.get_by_role("button", name=AGAIN).click()
    page.locator("#send:not([aria-busy])").wait_for()
    assert memory(page)["open_attempts"] == 0
    change_memory(page, lambda stored: {"first_attempt_at": stored["first_attempt_at"] - 10 * MINUTES})
    page.unroute("**/api/reports")
    page.reload()
    take(page, "cat", AGAIN)
