"""Charts of the page: when they are drawn, of how many ticks, and the text in place of one."""

import json
from pathlib import Path

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.server.routes import static as page_files
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import SilentNoise
from tests.support import page_servers
from tests.support.page_servers import chromium, looking, serving

TICKS = 2000  # more than a chart draws, and fewer than twice as many
NAMES = [f"r{number}" for number in range(6)]
STREAM = page_servers.STREAM | {"tick": "1s", "end": "2026-01-05T00:33:20Z", "columns": {"g": {"values": ["a"]}}}
NARROW = {"viewport": {"width": 600, "height": 700}}
DEAF = "window.IntersectionObserver = class { observe() {} };"
FRAMES = "async () => { for (let i = 0; i < 5; i += 1) await new Promise(requestAnimationFrame); }"
MESSAGE = "The chart script did not load. The numbers are in the table."


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Six releases of an ended stream with one event in each tick, without noise."""
    folder = tmp_path_factory.mktemp("charts")
    create_key(folder / "v.key")
    events = [{"ts": 1_767_571_200 + second, "g": "a"} for second in range(TICKS)]
    (folder / "v.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    each = {"sql": "SELECT COUNT(*) FROM v", "window": "running", "epsilon": "1/8"}
    tables = {"stream": STREAM, "server": {"anonymous": True, "publish_delay": "100ms"}}
    file = parse_pipeline(tables | {"release": [each | {"name": name} for name in NAMES]}, folder / "v.toml")
    with serving(file, noise=SilentNoise()) as found:
        yield found


def loaded(page):
    page.locator("#state[data-state=ended]").wait_for()
    page.locator("#cards[aria-busy=false]").wait_for()
    page.wait_for_function("() => document.querySelectorAll('[data-release]').length === 6")


def drawn(name):
    return f"""() => (document.querySelector('[data-release="{name}"] .plot').data ?? []).length > 0"""


@pytest.mark.slow
def test_a_chart_is_drawn_when_it_is_scrolled_to(browser, served):
    with looking(browser, served.address, **NARROW) as page:
        loaded(page)
        page.wait_for_function(drawn(NAMES[0]))
        page.evaluate(FRAMES)
        assert not page.evaluate(drawn(NAMES[-1]))
        page.locator(f'[data-release="{NAMES[-1]}"]').scroll_into_view_if_needed()
        page.wait_for_function(drawn(NAMES[-1]))


def test_twin_without_intersections_never_draws_the_chart(browser, served):
    with looking(browser, served.address, prepare=lambda page: page.add_init_script(DEAF), **NARROW) as page:
        loaded(page)
        page.locator(f'[data-release="{NAMES[-1]}"]').scroll_into_view_if_needed()
        page.evaluate(FRAMES)
        assert not page.evaluate(drawn(NAMES[-1]))


def without_plotly(page):
    page.route("**/plotly.min.js*", lambda route: route.abort())


def test_card_without_chart_script_says_so_and_has_table(browser, served):
    with looking(browser, served.address, expected=("Failed to load",), prepare=without_plotly, **NARROW) as page:
        loaded(page)
        card = page.locator(f'[data-release="{NAMES[0]}"]')
        card.locator(".empty", has_text=MESSAGE).wait_for()
        assert card.locator(".drawn").is_hidden()
        card.locator("summary", has_text="Numbers as a table").click()
        card.locator("tbody tr").first.wait_for()
        assert "2,000" in card.locator("tbody tr").first.inner_text()


def test_twin_without_script_check_fails_without_a_message(browser, served):
    source = Path(page_files.__file__).parents[1].joinpath("page").joinpath("chart.js").read_text()
    body = source.replace("Boolean(window.Plotly)", "true")
    assert body != source

    def prepare(page):
        without_plotly(page)
        page.route("**/page/chart.js", lambda route: route.fulfill(body=body, content_type="text/javascript"))
        page.on("pageerror", lambda error: failed.append(str(error)))

    failed = []
    expected = ("Failed to load", "react", "undefined")
    with looking(browser, served.address, expected=expected, prepare=prepare, **NARROW) as page:
        loaded(page)
        page.evaluate(FRAMES)
        assert failed
        assert page.locator(".empty", has_text=MESSAGE).count() == 0


@pytest.mark.slow
def test_page_reads_only_the_ticks_it_draws(browser, served):
    with looking(browser, served.address, **NARROW) as page:
        loaded(page)
        requested = []
        page.on("request", lambda sent: requested.append(sent.url) if f"/{NAMES[0]}?" in sent.url else None)
        page.locator("#range").select_option("Infinity")
        card = page.locator(f'[data-release="{NAMES[0]}"]')
        card.locator(".thin", has_text="Every 2nd tick of 2,000 ticks is drawn.").wait_for()
        page.wait_for_function(
            """() => document.querySelector('[data-release="r0"] .plot').data.at(-1).x.length === 1000"""
        )
        queries = {url.partition("&")[2] for url in requested}
        assert queries == {"from=2&to=2000&step=2", "from=1940&to=2000"}
        page.locator("#range").select_option("1500")
        page.wait_for_function(
            """() => { const { y } = document.querySelector('[data-release="r0"] .plot').data.at(-1);
              return y.length === 1500 && y.every((value, i) => value === 501 + i); }"""
        )
