"""Statements of the poll about its reports are true: after lost replies, late reports and reloads, and in
browsers without storage."""

import re
from contextlib import ExitStack

import pytest

from streamgauge.cli.demo.poll import EMOJI_NAMES
from tests.support.page_scripts import BEYOND, CONTRAST
from tests.support.page_servers import PHONE, chromium, looking, shot, until
from tests.support.poll_memory import BEFORE, CLEAR, DEVICE, change_memory, write_memory
from tests.support.poll_pages import (
    AGAIN,
    COUNTED,
    FAILED,
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

DENIED = "IDBFactory.prototype.open = () => { throw new DOMException('No.', 'SecurityError') };"
MISSING = "Object.defineProperty(window, 'indexedDB', {value: undefined});"
FULL = "IDBObjectStore.prototype.put = () => { throw new DOMException('The store is full.') };"
NOTHING_KEPT = "This browser does not store data for this page, so it sends nothing."
UNREADABLE = "This browser cannot read its stored data of this page, so it sends nothing."
CROWD = "You can still see the crowd."
FAR = """() => sources.at(-1).dispatchEvent(new MessageEvent("release", { data: JSON.stringify(
  { release: "favourites", tick: 1e6, places: [],
    measures: { count: { value: [], low: [], high: [] } } }) }))"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The poll, without a crowd."""
    with polling(tmp_path_factory.mktemp("poll")) as found:
        yield found


@pytest.fixture
def page(browser, server):
    with looking(browser, server.address, "/emoji", expected=FAILED, color_scheme="light") as found:
        yield found


@pytest.mark.one_of_each
@pytest.mark.parametrize("arrives", [True, False])
def test_report_with_a_lost_reply_may_have_arrived(page, arrives):
    report, key = lose(page, "fire", arrives=arrives)
    said, shown, status = texts(page, "refused", "bytes", "status")
    assert said == f"The server did not respond. {COUNTED}"
    assert (shown, status) == (report, "The server did not respond: the report may have arrived.")
    page.reload()
    page.locator("#status").get_by_text("The server did not respond").wait_for()
    assert texts(page, "bytes") == [report]
    with page.expect_response("**/api/reports") as answered:
        page.get_by_role("button", name=AGAIN).click()
    assert sent_in(answered.value.request) == (report, key)
    page.locator("#status").get_by_text("Drawn for your first pick, without a response until now.").wait_for()
    assert page.get_by_role("button", name="Sent: nothing more to send").is_disabled()


def test_late_report_is_described_as_the_first_pick(page):
    drawn = lose(page, "fire", arrives=False)
    assert take(page, "cat", AGAIN) == drawn
    assert texts(page, "status") == ["Drawn for your first pick, without a response until now."]
    assert "cat: stays here, and the report is unchanged" in page.locator(".path").inner_text()
    assert texts(page, "announcer") == ["The report of your first pick was sent."]
    page.locator("#cost").get_by_text("has reported: there is nothing more to send").wait_for()


def test_resent_report_is_counted_once(browser, tmp_path):
    """The server reads a repeated anonymous report as one from before the start."""
    with polling(tmp_path) as server, looking(browser, server.address, "/emoji", expected=FAILED) as page:
        lose(page, "fire", arrives=True)
        take(page, "cat", AGAIN)
        until(page, lambda: set_aside(server))
        assert set_aside(server) == 1


def set_aside(server):
    return server.runner.progress.dropped.get("outside", 0)


def test_open_page_sends_nothing_after_another_page_sent(browser, server):
    with looking(browser, server.address, "/emoji") as page:
        page.locator("#signs label").first.wait_for()
        other = page.context.new_page()
        other.goto(f"{server.address}/emoji")
        take(other, "fire")
        sent = []
        page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
        page.get_by_label("cat", exact=True).check()
        page.get_by_role("button", name="Sent: nothing more to send").wait_for()
        page.locator("#poll").evaluate("(form) => form.requestSubmit()")
        page.locator("#status").get_by_text("Sent before, so not sent again.").wait_for()
        assert sent == []


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("status", "more", "words"),
    [
        (429, {}, "The server rejected the report: too many."),
        (503, {"accepted": False}, "The server rejected the report: too many."),
        (503, {}, f"The server responded: too many. {COUNTED}"),
    ],
)
def test_page_distinguishes_refused_reports_from_unanswered_ones(page, status, more, words):
    error = {"message": "too many.", **more}
    page.route("**/api/reports", lambda route: route.fulfill(status=status, json={"error": error}))
    pick(page, "fire")
    page.locator("#refused").wait_for()
    assert texts(page, "refused") == [words]
    page.unroute("**/api/reports")
    take(page, "cat", AGAIN)
    until = "without a response" if COUNTED in words else "rejected"
    assert texts(page, "status") == [f"Drawn for your first pick, {until} until now."]


def test_sent_report_is_shown_after_reload_and_not_resent(page):
    report, _ = take(page, "fire")
    page.reload()
    page.locator("#cost").get_by_text("has reported: there is nothing more to send").wait_for()
    assert texts(page, "bytes", "status") == [report, "Sent from this browser before."]
    assert "Nothing yet" not in page.locator("#sent").inner_text()
    page.get_by_label("cat", exact=True).check()
    assert page.get_by_role("button", name="Sent: nothing more to send").is_disabled()


def test_report_of_earlier_poll_is_sent_once_without_cost(page):
    report, key = take(page, "fire")
    change_memory(page, lambda stored: {"last_sent_at": stored["last_sent_at"] - 1e6})  # long before the start
    page.reload()
    page.locator("#status").get_by_text("Drawn for an earlier poll, not yet sent to this one.").wait_for()
    again, other = take(page, "cat", SAME)
    assert (again, other != key) == (report, True)
    assert texts(page, "status") == ["Drawn for your first pick, in an earlier poll."]
    assert texts(page, "announcer") == ["The same report was sent again."]


def test_new_device_of_same_person_is_charged_again(page):
    take(page, "fire")
    page.get_by_role("button", name="Become another device").click()
    words = "For the server you are another device. You are the same person: another report costs you ε 2 again."
    for _ in range(2):
        page.locator("#cost").get_by_text(words).wait_for()
        assert "1 report was sent from here before" in page.locator("#sent-body").inner_text()
        page.reload()
    take(page, "cat")
    page.locator("#cost").get_by_text("Together with the reports of your earlier devices: ε 4.").wait_for()


def without(page, words):
    """Check that the page sends nothing and shows the crowd."""
    page.wait_for_function(TICKS)
    page.locator("#without").wait_for()
    assert texts(page, "poll", "sent-body", "cost") == [f"{words} {CROWD}", "Nothing.", ""]
    assert page.locator("#rows tr").count() == len(EMOJI_NAMES)
    assert page.locator("#banner").is_hidden()


@pytest.mark.one_of_each
@pytest.mark.parametrize("script", [DENIED, MISSING])
def test_browser_without_storage_sends_nothing_and_shows_crowd(browser, server, script):
    with looking(browser, server.address, "/emoji", prepare=lambda page: page.add_init_script(script)) as page:
        without(page, NOTHING_KEPT)


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", [DEVICE, BEFORE])
def test_unreadable_memory_sends_nothing_and_shows_crowd(page, name):
    take(page, "fire")
    write_memory(page, "{", name)
    page.reload()
    without(page, UNREADABLE)
    page.evaluate(CLEAR)
    page.reload()
    take(page, "cat")


@pytest.mark.one_of_each
@pytest.mark.parametrize(("script", "signs"), [("", len(EMOJI_NAMES)), (DENIED, 0)])
def test_reopened_poll_has_every_sign_once(browser, server, script, signs):
    def prepare(page):
        page.add_init_script(SOURCES + script)

    with looking(browser, server.address, "/emoji", prepare=prepare) as page:
        page.wait_for_function(TICKS)
        for opened in (2, 3):
            page.evaluate("sources.at(-1).dispatchEvent(new Event('error'))")
            page.wait_for_function(
                "(opened) => sources.length === opened && sources.at(-1).readyState === 1", arg=opened
            )
            page.locator("#state-text", has_text="Live").wait_for()
        assert page.locator("#signs label, #poll label").count() == signs


def test_restarted_ticks_replace_later_ones_after_a_reset(browser, server):
    with looking(browser, server.address, "/emoji", prepare=lambda page: page.add_init_script(SOURCES)) as page:
        page.wait_for_function(TICKS)
        page.evaluate(FAR)
        page.locator("#crowd-when", has_text="Tick 1,000,000").wait_for()
        page.evaluate("sources.at(-1).dispatchEvent(new MessageEvent('reset'))")
        page.locator("#crowd-when", has_text=re.compile("^Tick [0-9]{1,3}:")).wait_for()


def test_full_storage_sends_nothing_and_names_the_reason(browser, server):
    with looking(browser, server.address, "/emoji", prepare=lambda page: page.add_init_script(FULL)) as page:
        page.locator("#signs label").first.wait_for()
        sent = []
        page.on("request", lambda request: sent.append(request.url) if "reports" in request.url else None)
        pick(page, "fire")
        page.locator("#refused").wait_for()
        assert texts(page, "refused") == ["Nothing was sent: The store is full."]
        assert sent == []


DRAWN = "() => [...document.querySelectorAll('svg.sign use')].map((use) => use.getBBox().width > 10)"


def test_signs_are_drawn_after_the_server_stopped(browser, tmp_path):
    with ExitStack() as at_work:
        server = at_work.enter_context(polling(tmp_path))
        with looking(browser, server.address, "/emoji", expected=FAILED, color_scheme="light") as page:
            page.get_by_label("fire", exact=True).check()
            page.wait_for_function(TICKS)
            at_work.close()
            page.get_by_role("button", name="Send a private report").click()
            page.locator("#refused").wait_for()
            shot(page, tmp_path, "gone")
            drawn = page.evaluate(DRAWN)  # to pick from, of the crowd, of the report's chances; and the pick
            assert drawn == [True] * (3 * len(EMOJI_NAMES) + 1)


def test_lost_report_has_contrast_and_fits_a_phone(page, tmp_path):
    page.emulate_media(reduced_motion="reduce")
    lose(page, "fire", arrives=False)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.mouse.move(5, 5)
        assert page.evaluate(CONTRAST) == []
    page.set_viewport_size(PHONE["viewport"])
    assert page.evaluate(BEYOND) == 0
    shot(page, tmp_path, "phone-lost")
    assert not re.search(r"\.\.", page.inner_text("main"))
