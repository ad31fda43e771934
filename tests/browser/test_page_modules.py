"""The modules of the page alone: numbers, charts, and the form for requests."""

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import SilentNoise
from tests.support import page_servers
from tests.support.page_servers import chromium, looking, serving

EACH = {"name": "r", "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": "1/8"}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of a stream of two ticks without events. Tests call its modules."""
    folder = tmp_path_factory.mktemp("modules")
    create_key(folder / "v.key")
    (folder / "v.jsonl").write_text("")
    stream = page_servers.STREAM | {"tick": "1s", "end": "2026-01-05T00:00:02Z"}
    tables = {"stream": stream, "server": {"anonymous": True, "show_intruder": True}, "release": [EACH]}
    with (
        serving(parse_pipeline(tables, folder / "v.toml"), noise=SilentNoise()) as served,
        chromium() as browser,
        looking(browser, served.address) as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (37, 37, 37.1, "37.0 (37.0 to 37.1)"),
        (1204.4, 1173.4, 1235.4, "1,204 ± 31"),
        (38.84, 38.82, 38.86, "38.84 ± 0.02"),
        (38.8401, 38.8207, 38.8595, "38.840 ± 0.019"),
        (-0.2, -4, 0, "\u22120.2 (\u22124.0 to 0.0)"),
        (None, None, None, "unknown"),
    ],
)
def test_interval_has_plus_minus_only_if_it_is_symmetric(page, value, low, high, words):
    details = "async (sides) => (await import('/page/numbers.js')).formatInterval(...sides)"
    assert page.evaluate(details, [value, low, high]) == words


def test_unreliable_count_is_marked_next_to_the_number(page):
    details = """async () => (await import('/page/cells.js')).formatCell(
        {value: [2], low: [1], high: [3], reliable: [false]}, 0)"""
    assert page.evaluate(details) == "2 ± 1 (noisy count too small)"


@pytest.mark.parametrize(
    ("intrusions", "words"),
    [
        (None, ""),
        ({"total": 0, "remaining": 2}, " 0 announced intrusions so far, 2 of the reserved ones left."),
        ({"total": 1, "remaining": None}, " 1 announced intrusion so far, without a limit."),
    ],
)
def test_announced_intrusions_are_shown_next_to_the_budget(page, intrusions, words):
    details = "async (made) => (await import('/page/budget.js')).intrusionText(made)"
    assert page.evaluate(details, intrusions) == words


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ({"mode": "streaming", "end": None}, " You have ε 0.5 left."),
        ({"mode": "streaming", "end": "2126-01-05T00:00:00Z"}, " You have ε 0.5 left."),
        ({"mode": "batch", "end": "2026-01-05T00:00:00Z"}, " You have ε 0.5 left."),
        ({"mode": "streaming", "end": "2026-01-05T00:00:00Z"}, " The stream has ended, so no release can start."),
    ],
)
def test_remaining_budget_is_shown_while_it_can_be_spent(page, stream, words):
    details = (
        "async (stream) => (await import('/page/request_form.js')).remainingText({remaining: {epsilon: '1/2'}}, stream)"
    )
    assert page.evaluate(details, stream) == words


def test_remaining_budget_with_delta_is_shown_as_alternatives(page):
    details = (
        "async (remaining) => (await import('/page/request_form.js'))"
        ".remainingText({remaining}, {mode: 'streaming', end: null})"
    )
    assert page.evaluate(details, {"epsilon": "3/4", "rho": "1/100"}) == " You have ε 0.75 or \u03c1 0.01 left."
    assert page.evaluate(details, {"epsilon": "0", "rho": "0"}) == " You have nothing left."


def test_too_many_ticks_are_thinned_to_multiples_and_the_newest(page):
    details = """async ([ticks]) => { const {everyNth, sampleTicks} = await import('/page/tick_sampling.js');
        const tick = Array.from({length: ticks}, (_, i) => i + 1);
        return sampleTicks({column: {tick, value: tick}, truth: null}, everyNth(ticks)).column.value; }"""
    found = page.evaluate(details, [4001])
    assert found == [*range(4, 4001, 4), 4001]
    assert page.evaluate(details, [1500]) == list(range(1, 1501))


def test_no_band_is_drawn_across_ticks_with_unknown_bounds(page):
    """Two known ticks, two unknown ones and a known one give two shapes."""
    details = """async () => { const { buildBand } = await import('/page/chart.js');
        const column = { time: [1, 2, 3, 4, 5], low: [0, 1, null, null, 4], high: [2, 3, null, null, 6] };
        return buildBand(column, {}, 'red').map(({ x, y, fill }) => ({ x, y, fill })); }"""
    found = page.evaluate(details)
    x, y = [1, 2, 2, 1, None, 5, 5, None], [0, 1, 3, 2, None, 4, 6, None]
    assert found == [{"x": x, "y": y, "fill": "toself"}]


@pytest.mark.parametrize(
    ("smoother", "sent"),
    [
        (None, "Pegasus"),
        ("median", {"name": "Pegasus", "smoother": "median"}),
        ("quiet", {"name": "Pegasus", "smoother": "quiet"}),
    ],
)
def test_chosen_smoother_is_sent_and_default_is_left_out(page, smoother, sent):
    """The query decides the default. Under a ROLLUP it is not the median for windows."""
    details = """async (draft) => {
        const { MechanismFold } = await import('/page/mechanism.js');
        const fold = new MechanismFold({mechanisms: ['Pegasus']}, () => {});
        fold.write(draft);
        return fold.body().mechanism; }"""
    draft = {"mechanism": "Pegasus"} | ({} if smoother is None else {"smoother": smoother})
    assert page.evaluate(details, draft) == sent


OF_REPORTS = {
    **{"name": "poll", "mode": "streaming", "end": None},
    "columns": [
        {"name": "vote", "kind": "report", "values": ["yes", "no"], "bounds": None},
        {"name": "body heat", "kind": "report", "values": None, "bounds": None},
    ],
}
FORM = """async ([stream, sql]) => {
    const {RequestForm} = await import('/page/request_form.js');
    const requestForm = new RequestForm({onRequest() {}, signIn() {}, say() {}, onForbidden() {}});
    const who = {role: 'analyst', name: 'ana', remaining: {epsilon: '0'}};
    requestForm.setContext({user: who, stream, ledger: {file: 'f', budget: {epsilon: '3'}}});
    const form = document.getElementById('ask-form'), first = form.sql.value;
    if (sql) { form.sql.value = sql; form.sql.dispatchEvent(new Event('input')); }
    return {
        first, price: !form.loss.closest('.field').hidden, fold: !form.querySelector('.fold').hidden,
        windows: [...form.window.options].map(({value}) => value),
        hint: form.querySelector('.hint').textContent,
    };
}"""


def test_form_of_reports_offers_one_query_without_a_price(page):
    found = page.evaluate(FORM, [OF_REPORTS, None])
    assert found["first"] == "SELECT vote, COUNT(*) FROM poll GROUP BY vote"
    assert (found["price"], found["fold"]) == (False, False)
    assert found["windows"] == ["running", "each", "sliding"]
    halves = ["running", "each", "sliding", "tumbling", "decayed half-life"]
    events = {"name": "v", "mode": "streaming", "end": None, "columns": []}
    assert page.evaluate(FORM, [events, None])["windows"] == halves
    ending = events | {"end": "2099-01-01T00:00:00Z"}
    assert page.evaluate(FORM, [ending, None])["windows"] == [*halves, "decayed polynomial"]
    assert "cost nothing" in found["hint"]
    assert "left" not in found["hint"]


POWER = """async (stream) => {
    const {RequestForm} = await import('/page/request_form.js');
    const requestForm = new RequestForm({onRequest() {}, signIn() {}, say() {}, onForbidden() {}});
    requestForm.setContext({user: {role: 'analyst', name: 'ana'}, stream, ledger: {file: 'f', budget: {epsilon: '3'}}});
    const form = document.getElementById('ask-form'), sent = [], fetched = window.fetch;
    window.fetch = async (path, told) => { sent.push(JSON.parse(told.body)); throw new Error('no server'); };
    const labels = [];
    for (const kind of ['sliding', 'decayed polynomial', 'sliding']) {
        form.window.value = kind;
        form.window.dispatchEvent(new Event('change'));
        labels.push(form.span.getAttribute('aria-label'));
        form.querySelector('.row button').click();
        await new Promise((done) => setTimeout(done, 20));
    }
    window.fetch = fetched;
    return {labels, sent: sent.map(({window, horizon}) => [window, horizon ?? null])};
}"""


def test_polynomial_decay_is_requested_with_exponent_and_horizon(page):
    stream = {"name": "v", "mode": "streaming", "end": "2099-01-01T00:00:00Z", "columns": []}
    found = page.evaluate(POWER, stream)
    assert found["labels"] == ["How long", "Exponent", "How long"]
    assert found["sent"] == [["sliding 30s", None], ["decayed polynomial 1.5", "end"], ["sliding 30s", None]]


SEVERAL = """async ([stream, texts]) => {
    const {RequestForm} = await import('/page/request_form.js');
    const requestForm = new RequestForm({onRequest() {}, signIn() {}, say() {}, onForbidden() {}});
    requestForm.setContext({user: {role: 'analyst', name: 'ana'}, stream, ledger: {file: 'f', budget: {epsilon: '3'}}});
    const form = document.getElementById('ask-form'), sent = [], fetched = window.fetch;
    window.fetch = async (path, told) => { sent.push(JSON.parse(told.body).window); throw new Error('no server'); };
    for (const [kind, text] of texts) {
        form.window.value = kind;
        form.window.dispatchEvent(new Event('change'));
        form.span.value = text;
        form.span.dispatchEvent(new Event('input'));
        form.querySelector('.row button').click();
        await new Promise((done) => setTimeout(done, 20));
    }
    window.fetch = fetched;
    return sent;
}"""


def test_several_sliding_windows_are_requested_as_one_array(page):
    stream = {"name": "v", "mode": "streaming", "end": None, "columns": []}
    texts = [("sliding", " 1h , 24h,"), ("sliding", "1h,"), ("sliding", ""), ("decayed half-life", "1h, 2h")]
    found = page.evaluate(SEVERAL, [stream, texts])
    assert found == [["sliding 1h", "sliding 24h"], "sliding 1h", "sliding ", "decayed half-life 1h, 2h"]


def test_form_of_mixed_streams_shows_price_of_other_columns(page):
    mixed = OF_REPORTS | {"columns": [*OF_REPORTS["columns"], {"name": "age", "kind": "text"}]}
    others = page.evaluate(FORM, [mixed, "SELECT age, COUNT(*) FROM poll GROUP BY age"])
    assert (others["price"], others["fold"], len(others["windows"])) == (True, True, 5)
    assert "Requests for vote, body heat cost nothing." in others["hint"]
    quoted = page.evaluate(FORM, [mixed, 'SELECT "body heat", COUNT(*) FROM poll GROUP BY "body heat"'])
    assert quoted["price"] is False


@pytest.mark.parametrize(
    ("kind", "said", "badges"),
    [
        ("reports", "sees the same noisy reports as the collector, and their number", 0),
        ("mixed", "The other columns are in ordinary", 1),
    ],
)
def test_intruder_of_reports_gets_the_view_of_the_collector(page, kind, said, badges):
    def details(route):
        route.fulfill(json=route.fetch().json() | {"this_stream": kind, "reports": ["vote"]})

    page.route("**/api/rehearsal", details)
    page.evaluate("async () => new (await import('/page/intruder.js')).IntruderPanel().load()")
    words = page.locator("#intruder .why").inner_text()
    page.unroute("**/api/rehearsal")
    assert said in words
    assert words.endswith("Columns of reports: vote.")
    assert page.locator("#intruder .badge").count() == badges


def test_plan_and_end_of_local_release_have_no_price(page):
    details = """async () => {
        const {buildPlan} = await import('/page/plan_view.js'), {Budget} = await import('/page/budget.js');
        const none = {parts: [], alerts: [], errors: [], consistent: []};
        const release = {column: 'vote', loss: {epsilon: '2'}, groups: 2, first_tick: 1, ...none};
        return [buildPlan({release}).textContent, new Budget().refundText(release)];
    }"""
    plan, back = page.evaluate(details)
    assert "Costsnothing more: devices spend the loss of vote" in plan
    assert back == "It cost nothing. The loss of reports of vote is not returned."
