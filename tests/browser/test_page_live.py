"""The page of the live clinic: every panel in real Chromium, while ticks arrive.

Noise is silent here, so that releases can be compared with the truth that the demo serves.
"""

import re
import time
from fractions import Fraction

import pytest

from streamgauge.cli.demo.clinic_live import ClinicDemo, write_live_clinic
from streamgauge.cli.demo.live import TICK_MICROSECONDS
from streamgauge.config.pipeline_file import read_pipeline
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import SilentNoise
from tests.support.page_scripts import BEYOND, CONTRAST, ONE_PLOT
from tests.support.page_servers import PHONE, chromium, fetch_json, looking, serving, shot, sign_in, traces

FEVERS = "fever_by_region"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def clinic(tmp_path_factory, browser):
    folder = tmp_path_factory.mktemp("live")
    create_key(folder / "clinic.key")
    start = time.time_ns() // 1000 // TICK_MICROSECONDS * TICK_MICROSECONDS
    written = write_live_clinic(folder, start, None)
    written.write_text(
        written.read_text().replace('allowed_lateness = "2s"', 'allowed_lateness = "12s"')
    )  # none is late
    file = read_pipeline(written)
    extension = ClinicDemo(file)
    with serving(file, extension, noise=SilentNoise()) as server, server.fed_by(extension):
        yield server


@pytest.fixture(scope="module")
def analyst(clinic):
    clinic.tokens.revoke("visitor")
    return clinic.tokens.create("ana", "analyst", Fraction(1, 2))


@pytest.fixture(scope="module")
def reader(browser, clinic):
    with looking(browser, clinic.address, color_scheme="light") as found:
        found.locator(".plot .main-svg").first.wait_for()
        found.locator(".strip circle").first.wait_for()
        yield found


@pytest.fixture
def page(reader):
    """One page for all tests that only read. Each test ends with the default view."""
    reader.mouse.move(5, 5)
    card(reader).scroll_into_view_if_needed()
    yield reader
    for name in ("Together", "count"):
        for button in reader.locator(f'[data-release="{FEVERS}"] .choice button', has_text=name).all():
            if button.is_visible() and button.get_attribute("aria-pressed") == "false":
                button.click()


@pytest.fixture(scope="module")
def asking(browser, clinic, analyst):
    """The page of a signed-in analyst. A refusal is a reply with a status."""
    with looking(browser, clinic.address, expected=("422",)) as found:
        sign_in(found, analyst)
        found.locator("#ask-form").wait_for()
        yield found


def card(page, release=FEVERS):
    return page.locator(f'[data-release="{release}"]')


def test_every_release_has_a_chart_with_band_and_readings(page, tmp_path):
    for release, groups in ((FEVERS, 4), ("fever_this_minute", 4), ("median_temperature", 1)):
        card(page, release).scroll_into_view_if_needed()
        card(page, release).locator(".main-svg").first.wait_for()
        drawn = traces(page, release)
        assert sum(trace["fill"] == "tonexty" for trace in drawn) == groups
        readings = card(page, release).locator(".reading .amount")
        assert readings.count() == groups
        assert {" ± ", " to "} & set(re.findall(" ± | to ", readings.first.inner_text()))
    shot(page, tmp_path, "desktop")


def opened_table(page, release=FEVERS):
    """The table of a release, with rows."""
    table = card(page, release).locator("details.table")
    if table.get_attribute("open") is None:
        table.locator("summary").click()
    table.locator("tbody tr:nth-child(2)").wait_for()
    return table


def wait_for_ticks(page, more):
    received = page.evaluate("window.heard.length")
    page.wait_for_function("(heard) => window.heard.length >= heard", arg=received + 3 * more)


def test_table_keeps_width_scroll_and_focus_while_ticks_arrive(page):
    table = opened_table(page)
    page.get_by_label("Show the truth").check()
    table.get_by_text("north, truth").wait_for()
    card(page).evaluate("(card) => card.style.maxWidth = '20rem'")
    assert table.evaluate("(table) => table.scrollWidth <= table.closest('.card').clientWidth")
    region = table.locator(".wide")
    region.evaluate("(node) => { node.focus(); node.style.maxHeight = '4rem'; node.scrollTop = 30; }")
    newest = "(table) => table.querySelector('tbody th').textContent"
    before = table.evaluate(newest)
    page.wait_for_function(
        "(before) => document.querySelector('.table[open] tbody th').textContent !== before", arg=before
    )
    assert region.evaluate("(node) => [node.scrollTop, document.activeElement === node]") == [30, True]
    card(page).evaluate("(card) => card.style.maxWidth = ''")
    page.get_by_label("Show the truth").uncheck()


def test_each_tick_arrives_once_without_reload(page):
    opened_table(page)
    page.wait_for_function("() => window.heard.length >= 6")
    ticks = [int(text) for text in card(page).locator(".numbers tbody th").all_inner_texts()]
    assert len(ticks) >= 2
    assert ticks == list(range(ticks[0], ticks[0] - len(ticks), -1))
    ids = page.evaluate("window.heard.map(([id]) => id)")
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_truth_equals_releases_without_noise(page, clinic, tmp_path):
    page.get_by_label("Show the truth").check()
    page.wait_for_function(
        """() => { const data = document.querySelector('[data-release="fever_by_region"] .plot').data ?? [];
        return data.some(({name, y}) => name === 'north, truth' && y.at(-1) !== null); }"""
    )
    shot(page, tmp_path, "truth")
    last = fetch_json(clinic, f"/api/releases/{FEVERS}?shape=columns&last=1")["tick"][-1]
    for release in (FEVERS, "fever_this_minute"):
        said = fetch_json(clinic, f"/api/releases/{release}?shape=columns&from=1&to={last}")
        real = fetch_json(clinic, f"/api/truth?release={release}&from=1&to={last}")
        assert said["places"] == real["places"]
        assert said["measures"]["count"]["value"] == real["measures"]["count"]["value"]


@pytest.mark.slow
def test_every_view_of_a_running_release_has_bands(page):
    """Differences of running releases have no band that could be drawn: no view shows them."""
    named = card(page).locator(".controls .choice button").all_inner_texts()
    assert named == ["count", "avg temperature", "Bars", "Together", "Separate"]
    for name in [each for each in named if each != "Bars"]:  # bars have error bars (test_page_groups.py)
        card(page).get_by_role("button", name=name, exact=True).click()
        page.wait_for_function(
            """() => { const data = document.querySelector('[data-release="fever_by_region"] .plot').data;
            return data.filter(({fill}) => fill === 'tonexty' || fill === 'toself').length === 4; }"""
        )


@pytest.mark.slow
def test_groups_can_be_separated_and_hidden(page, tmp_path):
    card(page).get_by_role("button", name="Separate").click()
    page.wait_for_function(
        """() => document.querySelectorAll('[data-release="fever_by_region"] .subplot').length === 4"""
    )
    shot(page, tmp_path, "apart")
    north = card(page).get_by_role("button", name="north")
    north.click()
    page.wait_for_function(
        """() => document.querySelectorAll('[data-release="fever_by_region"] .subplot').length === 3"""
    )
    assert north.get_attribute("aria-pressed") == "false"


def test_hovering_shows_value_and_error(page):
    north = card(page).get_by_role("button", name="north")
    if north.get_attribute("aria-pressed") == "false":
        north.click()
    page.wait_for_function(ONE_PLOT)
    page.wait_for_function(  # the plot pauses under the pointer, so its line must be long enough before
        f"""() => document.querySelector('[data-release="{FEVERS}"] .plot').data.at(-1).x.length > 5"""
    )
    box = card(page).locator(".plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 40, box["y"] + 90)
    page.mouse.move(box["x"] + box["width"] - 30, box["y"] + 100)
    label = card(page).locator(".hoverlayer")
    label.get_by_text("±").first.wait_for()
    assert "north" in label.text_content()
    assert "UTC" in label.text_content()


@pytest.mark.slow
def test_chart_pauses_under_the_pointer_while_its_table_continues(page):
    table = opened_table(page)
    card(page).locator(".drawn").hover()
    card(page).get_by_text("paused under the pointer").wait_for()
    last = "(plot) => plot.data.at(-1).x.at(-1)"
    drawn = card(page).locator(".plot").evaluate(last)
    wait_for_ticks(page, 2)
    page.wait_for_function(
        "([table, drawn]) => table.querySelector('tbody td').textContent > drawn",
        arg=[table.element_handle(), drawn[:19].replace("T", " ")],
    )
    assert card(page).locator(".plot").evaluate(last) == drawn
    page.set_viewport_size({"width": 1100, "height": 900})
    page.wait_for_function(
        """() => { const plot = document.querySelector('[data-release="fever_by_region"] .plot');
        return plot.layout.width === plot.clientWidth; }"""
    )
    page.set_viewport_size({"width": 1360, "height": 900})
    page.mouse.move(5, 5)
    card(page).get_by_text("paused under the pointer").wait_for(state="hidden")


def test_card_says_so_when_all_groups_are_hidden(page):
    buttons = card(page, "median_temperature").locator(".reading")
    buttons.first.click()
    card(page, "median_temperature").get_by_text("All groups are hidden").wait_for()
    buttons.first.click()
    card(page, "median_temperature").get_by_text("All groups are hidden").wait_for(state="hidden")


def test_budget_is_a_timeline_of_the_releases(page):
    panel = page.locator("#budget")
    panel.locator(".lanes li").nth(2).wait_for()
    assert "tick 1 on" in panel.inner_text()
    assert "budget of epsilon 2" in panel.locator(".frame").get_attribute("aria-label")
    assert "ε 2" in page.locator("#gauges").inner_text()


def planned(page, sql, loss, name="my_release", window="each"):
    form = page.locator("#ask-form")
    for label, text in (("SQL", sql), ("Loss", loss), ("Name", name)):
        form.get_by_label(label).fill(text)
    form.get_by_label("Window").select_option(window)
    assert form.get_by_role("button", name="Request it").is_disabled()
    form.get_by_role("button", name="See cost and error").click()
    form.locator(".answer:not([data-stale=true]) > *").first.wait_for()
    return form


@pytest.mark.slow
def test_mechanism_and_expected_events_are_sent_from_the_fold(asking, tmp_path):
    form, fold = asking.locator("#ask-form"), asking.locator("#ask-form details.fold")
    assert not form.get_by_label("Mechanism").is_visible()
    fold.locator("summary").focus()
    asking.keyboard.press("Enter")
    form.get_by_label("Mechanism").select_option("SparseCounter")
    assert not form.get_by_label("Smoother").is_visible()
    form.get_by_label("Mechanism").select_option("Pegasus")
    form.get_by_label("Smoother").select_option("average")
    form.get_by_label("Expected events").fill("1/200")
    with asking.expect_request("**/api/plan") as sent:
        planned(asking, "SELECT COUNT(*) FROM visits", "0.01")
    assert sent.value.post_data_json["mechanism"] == {"name": "Pegasus", "smoother": "average"}
    assert sent.value.post_data_json["expected_events"] == "1/200"
    facts = form.locator(".facts").inner_text()
    assert "smoother=average" in facts
    assert 'smoother = "quiet"' in facts
    fold.scroll_into_view_if_needed()
    shot(asking, tmp_path, "fold")
    form.get_by_label("Mechanism").select_option("auto")
    form.get_by_label("Expected events").fill("")
    with asking.expect_request("**/api/plan") as sent:
        planned(asking, "SELECT COUNT(*) FROM visits", "0.01")
    assert not {"mechanism", "expected_events"} & sent.value.post_data_json.keys()


@pytest.mark.slow
def test_analyst_plans_requests_and_ends_a_release(asking, tmp_path):
    form = planned(asking, "SELECT region, COUNT(*) FROM visits GROUP BY region", "0.25", "all_visits")
    assert "Predicted errors for one group" in form.inner_text()
    assert "ε 0.25" in form.locator(".facts").inner_text()
    assert "ε 0.75" in form.locator(".facts").inner_text()
    shot(asking, tmp_path, "planned")
    form.get_by_role("button", name="Request it").click()
    card(asking, "all_visits").scroll_into_view_if_needed()
    card(asking, "all_visits").locator(".main-svg").first.wait_for()
    asking.locator("#budget", has_text="requested by ana").wait_for()
    asking.locator("#gauges", has_text="ε 1.25").wait_for()
    ending = card(asking, "all_visits").get_by_role("button", name="End this release")
    ending.click()
    asking.get_by_role("button", name="Cancel").click()
    assert card(asking, "all_visits").locator(".badge.over").count() == 0
    ending.click()
    shot(asking, tmp_path, "ending")
    asking.get_by_role("button", name="End release").click()
    card(asking, "all_visits").locator(".badge.over").wait_for()
    asking.wait_for_function("() => document.activeElement.id === 'release-all_visits'")
    asking.get_by_text("available again from tick").wait_for()
    asking.get_by_text("You have ε 1 left").wait_for()
    asking.locator("#gauges", has_text="Left").get_by_text("ε 1", exact=True).first.wait_for()
    assert "ε 1.25" not in asking.locator("#gauges").inner_text()
    shot(asking, tmp_path, "release ended")


def test_change_after_planning_requires_a_new_plan(asking):
    form = planned(asking, "SELECT COUNT(*) FROM visits", "0.2")
    assert form.get_by_role("button", name="Request it").is_enabled()
    form.get_by_label("Loss").fill("0.3")
    assert form.get_by_role("button", name="Request it").is_disabled()


@pytest.mark.parametrize(
    ("loss", "sql", "words"),
    [("1.5", "SELECT COUNT(*) FROM visits", "must be at most"), ("0.1", "SELECT name FROM visits", "not declared")],
)
def test_refusal_shows_the_servers_text_and_charges_nothing(asking, clinic, loss, sql, words):
    before = fetch_json(clinic, "/api/ledger")["charges"]
    form = planned(asking, sql, loss)
    assert words in form.locator(".refusal").inner_text()
    assert "clinic.toml" not in form.locator(".refusal").inner_text()
    assert form.locator("table:not(.prices)").count() == 0
    assert form.get_by_role("button", name="Request it").is_disabled()
    assert fetch_json(clinic, "/api/ledger")["charges"] == before


@pytest.mark.slow
def test_page_fits_a_phone_without_horizontal_scrolling(browser, clinic, tmp_path):
    with looking(browser, clinic.address, **PHONE, color_scheme="dark", reduced_motion="reduce") as page:
        page.locator(".plot .main-svg").first.wait_for()
        page.locator(".strip").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        wide = page.evaluate(BEYOND)
        assert wide == 0
        assert page.locator(".lamp").evaluate("(lamp) => getComputedStyle(lamp).animationName") == "none"
        shot(page, tmp_path, "phone dark")


@pytest.mark.slow
def test_colours_follow_the_system_until_chosen_and_have_contrast(browser, clinic, page, tmp_path):
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(243, 246, 248)"
    assert page.evaluate(CONTRAST) == []
    with looking(browser, clinic.address, color_scheme="dark") as dark:
        dark.locator(".plot .main-svg").first.wait_for()
        dark.locator(".strip circle").first.wait_for()
        assert dark.evaluate(paper) == "rgb(13, 19, 25)"
        assert dark.evaluate(CONTRAST) == []
        shot(dark, tmp_path, "desktop dark")
        dark.locator("#theme").click()
        assert dark.evaluate(paper) == "rgb(243, 246, 248)"
        dark.reload()
        assert dark.evaluate(paper) == "rgb(243, 246, 248)"
        assert dark.locator("#theme").get_attribute("aria-label") == "Colours: light"


def test_everything_is_reached_by_keyboard_and_has_a_name(page):
    page.reload()
    card(page).locator(".main-svg").first.wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'releases'")
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, select, textarea, a')].filter((node) =>
        !(node.innerText || node.ariaLabel || node.labels?.[0]?.innerText)).map((node) => node.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("main, header.top, nav, footer.foot").count() == 4
    assert page.locator("[aria-live]").count() >= 1
    page.wait_for_function(
        "() => [...document.querySelectorAll('.plot')].every(({ariaLabel}) => ariaLabel?.includes('Newest'))"
    )
    page.locator("#sign").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'token'")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement.id === 'sign'")


def test_range_selects_the_drawn_ticks(page):
    page.locator("#range").select_option("300")
    page.wait_for_function("""() => document.querySelector('[data-release="fever_by_region"] .plot').data.length > 0""")
    assert page.locator("#range").input_value() == "300"
    assert page.locator("#range option").all_inner_texts()[:2] == ["the last minute", "the last 5 minutes"]
