"""The request form under a budget with a delta: every currency, what each buys, and delta for discovered groups."""

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.store.keys import create_key
from tests.support.page_servers import STREAM, Serving, chromium, looking, serving, shot, sign_in

COUNTS = "SELECT g, COUNT(*) FROM v GROUP BY g"
BOTH = {"epsilon": 1, "delta": 1e-6}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A batch whose one release has left a part of the budget."""
    folder = tmp_path_factory.mktemp("currencies")
    create_key(folder / "v.key")
    events = [{"ts": 1_767_571_200 + s, "g": "ab"[s % 2], "city": f"c{s % 3}"} for s in range(100)]
    (folder / "v.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    columns = {"g": {"values": ["a", "b"]}, "city": {"max_groups": 50}}
    tables = {
        "stream": {**STREAM, "end": "2026-01-05T00:01:40Z", "budget": BOTH, "columns": columns},
        "release": [{"name": "counts", "sql": COUNTS, "window": "running", "share": "1/2"}],
        "server": {"anonymous": True, "publish_delay": "50ms"},
    }
    with serving(parse_pipeline(tables, folder / "v.toml")) as found:
        yield found


@pytest.fixture(scope="module")
def analyst(served: Serving) -> str:
    return served.tokens.create("ana", "analyst", Fraction(1, 4))


@pytest.fixture
def asking(browser: Any, served: Serving, analyst: str) -> Iterator[Any]:
    with looking(browser, served.address, expected=("422", "403")) as page:
        sign_in(page, analyst)
        page.locator("#ask-form").wait_for()
        yield page


def plan(page: Any, sql: str = COUNTS, **fields: str) -> Any:
    form = page.locator("#ask-form")
    form.get_by_label("SQL").fill(sql)
    form.get_by_label("Window").select_option("running")
    if "currency" in fields:
        form.get_by_label("Currency").select_option(fields["currency"])
    for label in ("Loss", "Delta"):
        if label.lower() in fields:
            form.get_by_label(label).fill(fields[label.lower()])
    form.get_by_role("button", name="See cost and error").click()
    form.locator(".answer:not([data-stale=true]) > *").first.wait_for()
    return form


def test_form_offers_rho_first_and_a_tenth_of_the_rest(asking: Any) -> None:
    form = asking.locator("#ask-form")
    assert form.get_by_label("Currency").input_value() == "rho"
    assert [option.get_attribute("value") for option in form.get_by_label("Currency").locator("option").all()] == [
        "rho",
        "epsilon",
        "share",
    ]
    assert float(form.get_by_label("Loss").input_value()) == pytest.approx(0.0243559703595 / 40, rel=0.05)
    assert not form.get_by_label("Delta").is_visible()


def test_plan_shows_what_each_currency_buys(asking: Any, tmp_path: Path) -> None:
    form = plan(asking, currency="rho", loss="0.0044")
    prices = form.locator("table.prices").inner_text()
    assert "ε 0.0938" in prices
    assert prices.count("all that is left") == 2
    with asking.expect_request("**/api/plan") as sent:
        form.get_by_role("button", name="Use ε 0.0938").click()
    assert sent.value.post_data_json["epsilon"] == 0.0938
    assert "rho" not in sent.value.post_data_json
    form.locator(".facts", has_text="ε 0.0938").wait_for()
    assert re.search("\u03c1 0\\.00[0-9]+\t.*for no more", form.locator("table.prices").inner_text())
    form.scroll_into_view_if_needed()
    shot(asking, tmp_path, "desktop")


def test_loss_above_the_rest_is_refused_in_its_currency(asking: Any, tmp_path: Path) -> None:
    form = plan(asking, currency="share", loss="0.9")
    refusal = form.locator(".refusal").inner_text()
    assert "as a share: 0.9 on top of 0.5 of 1, so 0.5 is left" in refusal
    assert form.locator("table.prices").inner_text().count("all that is left") == 2
    shot(asking, tmp_path, "refused")


def test_discovered_groups_have_a_field_for_delta(asking: Any, tmp_path: Path) -> None:
    sql = "SELECT city, COUNT(*) FROM v GROUP BY city"
    form = plan(asking, sql, currency="rho", loss="0.001")
    assert "delta must be given" in form.locator(".refusal").inner_text()
    with asking.expect_request("**/api/plan") as sent:
        form = plan(asking, sql, currency="rho", loss="0.001", delta="1e-7")
    assert sent.value.post_data_json["delta"] == 1e-7
    form.locator(".facts").wait_for()
    shot(asking, tmp_path, "delta")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_prices_fit_a_phone(browser: Any, served: Serving, analyst: str, tmp_path: Path, scheme: str) -> None:
    with looking(browser, served.address, **PHONE, color_scheme=scheme, reduced_motion="reduce") as page:
        sign_in(page, analyst)
        plan(page, currency="rho", loss="0.001").locator("table.prices").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        shot(page, tmp_path, scheme)


def test_sign_in_with_a_sender_token_is_refused_in_words(browser: Any, served: Serving) -> None:
    token = served.tokens.create("meters", "sender")
    with looking(browser, served.address, expected=("403",)) as page:
        page.locator("#sign").click()
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.locator("#signing-refused", has_text="role must be reader or more to sign in, got sender").wait_for()
        assert page.locator("#signing").is_visible()
