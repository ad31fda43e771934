"""What the poll says of what left a device is true: of an answer that was lost, of a report sent later
than it was drawn, of one that is kept, and where a browser keeps nothing."""

import re
import time

import pytest
from page_scripts import BEYOND, CONTRAST
from page_servers import PHONE, chromium, looking, serving, shot

from streamgauge.cli.emoji_crowd import EMOJI, sketch
from streamgauge.cli.live_clinic import SECOND
from streamgauge.cli.live_emoji import Poll, write_poll
from streamgauge.localdp.wire import reports_of
from streamgauge.pipeline.keys import create_key
from streamgauge.query.pipeline_file import read_pipeline

DENIED = """
Object.defineProperty(window, "localStorage", {get() { throw new DOMException("No.", "SecurityError") }});
"""
FULL = (
    "Storage.prototype.setItem = () => { throw new DOMException('The store is full.', 'QuotaExceededError') }"
)
TORN = "localStorage.setItem('streamgauge favourite emoji', '{')"
TORN_FATE = "localStorage.setItem('favourite emoji: what left', '{')"
UNREADABLE = "What this browser keeps for this page cannot be read, so it sends nothing."
CROWD = "The crowd is shown all the same."
TICKS = "() => /^Tick [0-9]/.test(document.getElementById('crowd-when').textContent)"
SOURCES = """
window.sources = [];
const Source = EventSource;
window.EventSource = class extends Source {
  constructor(...told) {
    super(...told);
    sources.push(this);
    this.addEventListener("open", () => this.dispatchEvent(new MessageEvent("reset")));
  }
};
"""  # every stream that a page opens; each tells twice that it is open
FAR = """() => sources.at(-1).dispatchEvent(new MessageEvent("release", { data: JSON.stringify(
  { release: "favourites", tick: 1e6, places: [],
    measures: { count: { value: [], low: [], high: [] } } }) }))"""
EARLIER = """() => {
  const name = "streamgauge favourite emoji";
  const kept = JSON.parse(localStorage.getItem(name));
  localStorage.setItem(name, JSON.stringify({ ...kept, at: kept.at - 1e6 }));
}"""  # long before the start
BEFORE_KEYS = """(fate) => {
  const { spent, report, collection } = JSON.parse(localStorage.getItem("streamgauge favourite emoji"));
  localStorage.setItem("streamgauge favourite emoji", JSON.stringify({ spent, report, collection }));
  const sent = report.match(/../g).map((pair) => parseInt(pair, 16));
  const told = { earlier: 0, collection, report: sent, fate };
  localStorage.setItem("favourite emoji: what left", JSON.stringify(told));
}"""
FIRST, AGAIN = "Send a private report", "Send it again"
COUNTED = "The report may have arrived; sent again within ten minutes, the same bytes count once."
FAILED = ("Failed to load resource",)  # what a browser says of requests that a test lets fail


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The poll, without a crowd."""
    folder = tmp_path_factory.mktemp("poll")
    create_key(folder / "emoji.key")
    start = time.time_ns() // 1000 // SECOND * SECOND
    file = read_pipeline(write_poll(folder, start, None))
    with serving(file, Poll(file)) as found:
        yield found


@pytest.fixture
def page(browser, server):
    with looking(browser, server.address, "/emoji", expected=FAILED, color_scheme="light") as found:
        yield found


def pick(page, name, button=FIRST):
    page.get_by_label(name, exact=True).check()
    page.get_by_role("button", name=button).click()


def take(page, name, button=FIRST):
    """Picks, and sends what the server takes; returns the report and its key."""
    with page.expect_response("**/api/reports") as answered:
        pick(page, name, button)
    assert answered.value.ok
    page.locator(".road").get_by_text(f"{name}: stays here").wait_for()
    page.locator("#refused").wait_for(state="hidden")
    assert page.get_by_role("button", name="Sent: nothing more to send").is_disabled()
    return sent_in(answered.value.request)


def sent_in(request):
    (report,) = reports_of(sketch(), request.post_data_buffer)
    return report.tobytes().hex(" "), request.headers["batch-key"]


def lose(page, name, *, arrives):
    """Picks and sends; no answer comes, whether the report arrived or not."""
    sent = []

    def lost(route):
        sent.append(route.request)
        if arrives:
            assert route.fetch().ok
        route.abort()

    page.route("**/api/reports", lost)
    pick(page, name)
    page.locator("#refused").wait_for()
    page.unroute("**/api/reports")
    return sent_in(sent[0])


def texts(page, *names):
    return [page.locator(f"#{name}").inner_text() for name in names]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_report_whose_answer_is_lost_may_have_arrived(page, arrives):
    report, key = lose(page, "fire", arrives=arrives)
    said, shown, fate = texts(page, "refused", "bytes", "fate")
    assert said == f"No answer came. {COUNTED}"
    assert (shown, fate) == (report, "No answer came: it may have arrived, or not.")
    page.reload()
    page.locator("#fate").get_by_text("No answer came").wait_for()
    assert texts(page, "bytes") == [report]
    with page.expect_response("**/api/reports") as answered:
        page.get_by_role("button", name=AGAIN).click()
    assert sent_in(answered.value.request) == (report, key)
    page.locator("#fate").get_by_text("Drawn for your first pick, not answered until now.").wait_for()
    assert page.get_by_role("button", name="Sent: nothing more to send").is_disabled()


def test_a_report_that_goes_out_late_is_said_to_be_of_the_first_pick(page):
    drawn = lose(page, "fire", arrives=False)
    assert take(page, "cat", AGAIN) == drawn
    assert texts(page, "fate") == ["Drawn for your first pick, not answered until now."]
    assert "cat: stays here, and changed nothing" in page.locator(".road").inner_text()
    assert texts(page, "announcer") == ["The report of your first pick was sent."]
    page.locator("#cost").get_by_text("has reported: there is nothing more to send").wait_for()


def test_a_report_that_arrived_and_is_sent_again_is_counted_once(page, server):
    """What a stranger sends again is read as if it lay before the start."""
    before = set_aside(server)
    lose(page, "fire", arrives=True)
    take(page, "cat", AGAIN)
    for _ in range(50):
        if set_aside(server) > before:
            break
        page.wait_for_timeout(100)
    assert set_aside(server) == before + 1


def set_aside(server):
    return server.runner.progress.dropped.get("outside", 0)


def test_a_page_that_was_open_while_another_sent_sends_nothing_more(browser, server):
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
        page.locator("#fate").get_by_text("Sent before, and not again.").wait_for()
        assert sent == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (429, "The server did not take it: too many."),
        (503, f"The server says: too many. {COUNTED}"),
    ],
)
def test_what_a_server_refuses_has_left_and_what_it_failed_at_may_have_arrived(page, status, words):
    page.route(
        "**/api/reports", lambda route: route.fulfill(status=status, json={"error": {"message": "too many."}})
    )
    pick(page, "fire")
    page.locator("#refused").wait_for()
    assert texts(page, "refused") == [words]
    page.unroute("**/api/reports")
    take(page, "cat", AGAIN)
    until = "taken" if status < 500 else "answered"
    assert texts(page, "fate") == [f"Drawn for your first pick, not {until} until now."]


def test_a_report_that_was_sent_is_shown_again_after_a_reload_and_not_sent_again(page):
    report, _ = take(page, "fire")
    page.reload()
    page.locator("#cost").get_by_text("has reported: there is nothing more to send").wait_for()
    assert texts(page, "bytes", "fate") == [report, "Sent before this page was opened."]
    assert "Nothing yet" not in page.locator("#sent").inner_text()
    page.get_by_label("cat", exact=True).check()
    assert page.get_by_role("button", name="Sent: nothing more to send").is_disabled()


def test_a_report_of_an_earlier_poll_goes_out_to_this_one_once_and_costs_nothing(page):
    report, key = take(page, "fire")
    page.evaluate(EARLIER)
    page.reload()
    page.locator("#fate").get_by_text("Drawn for an earlier poll, and not sent to this one yet.").wait_for()
    again, other = take(page, "cat")
    assert (again, other != key) == (report, True)
    assert texts(page, "fate") == ["Drawn for your first pick, in an earlier poll."]
    assert texts(page, "announcer") == ["The same report was sent again."]


@pytest.mark.parametrize("fate", ["taken", "unanswered"])
def test_what_a_page_kept_before_there_were_keys_is_shown_and_not_sent_again(page, fate):
    report, _ = take(page, "fire")
    page.evaluate(BEFORE_KEYS, fate)
    page.reload()
    words = {"taken": "Sent before this page was opened", "unanswered": "No answer came"}[fate]
    page.locator("#fate").get_by_text(words).wait_for()
    assert texts(page, "bytes") == [report]
    assert page.get_by_role("button", name=re.compile("othing more to send")).is_disabled()


def test_another_device_is_told_that_it_is_the_same_somebody_and_pays_again(page):
    take(page, "fire")
    page.get_by_role("button", name="Be another device").click()
    words = "To the server you are another device. You are not: another report costs you ε 2 again."
    for _ in range(2):
        page.locator("#cost").get_by_text(words).wait_for()
        assert "1 report was sent from here before" in page.locator("#sent-body").inner_text()
        page.reload()
    take(page, "cat")
    page.locator("#cost").get_by_text("with those you sent as other devices, ε 4.").wait_for()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (DENIED, "This browser keeps nothing for this page, so it sends nothing."),
        (TORN, UNREADABLE),
        (TORN_FATE, UNREADABLE),
    ],
)
def test_a_browser_that_keeps_nothing_sends_nothing_and_shows_the_crowd(browser, server, script, words):
    with looking(
        browser, server.address, "/emoji", prepare=lambda page: page.add_init_script(script)
    ) as page:
        page.wait_for_function(TICKS)
        assert texts(page, "poll", "sent-body") == [f"{words} {CROWD}", "Nothing."]
        assert page.locator("#rows tr").count() == len(EMOJI)
        assert page.locator("#banner").is_hidden()


@pytest.mark.parametrize(("script", "signs"), [("", len(EMOJI)), (DENIED, 0)])
def test_a_poll_that_is_opened_again_has_every_sign_once(browser, server, script, signs):
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


def test_ticks_that_begin_anew_are_shown_beside_a_page_that_knew_later_ones(browser, server):
    with looking(
        browser, server.address, "/emoji", prepare=lambda page: page.add_init_script(SOURCES)
    ) as page:
        page.wait_for_function(TICKS)
        page.evaluate(FAR)
        page.locator("#crowd-when", has_text="Tick 1,000,000").wait_for()
        page.evaluate("sources.at(-1).dispatchEvent(new MessageEvent('reset'))")
        page.locator("#crowd-when", has_text=re.compile("^Tick [0-9]{1,3}:")).wait_for()


def test_a_full_store_sends_nothing_and_says_so_with_one_stop(browser, server):
    with looking(browser, server.address, "/emoji", prepare=lambda page: page.add_init_script(FULL)) as page:
        page.locator("#signs label").first.wait_for()
        sent = []
        page.on("request", lambda request: sent.append(request.url) if "reports" in request.url else None)
        pick(page, "fire")
        page.locator("#refused").wait_for()
        assert texts(page, "refused") == ["Nothing was sent: The store is full."]
        assert sent == []


def test_what_is_said_can_be_read_by_day_by_night_and_on_a_phone(page, tmp_path):
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
