"""The editor of mappers: refusals beside their lines, dry runs, and the request that it sends."""

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import SilentNoise
from tests.support import page_servers
from tests.support.page_servers import chromium, looking, serving

EACH = {"name": "r", "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": "1/8"}
STREAM = {"name": "v", "mode": "streaming", "end": None, "columns": [{"name": "g", "values": ["a", "b"]}]}
EDITOR = """async ([stream, source, rows, reply]) => {
    const {RequestForm} = await import('/page/request_form.js');
    const requestForm = new RequestForm({onRequest() {}, signIn() {}, say() {}, onForbidden() {}});
    requestForm.setContext({user: {role: 'analyst', name: 'ana'}, stream, ledger: {file: 'f', budget: {epsilon: '3'}}});
    const form = document.getElementById('ask-form'), sent = [], fetched = window.fetch;
    const before = [form.sql, form.source].map((node) => node.offsetParent !== null);
    window.fetch = async (path, request) => {
        sent.push([path, JSON.parse(request.body)]);
        return new Response(JSON.stringify(reply), {status: path.endsWith('check') ? 200 : 500});
    };
    form.querySelector('[data-value=mapper]').click();
    const after = [form.sql, form.source].map((node) => node.offsetParent !== null);
    form.keys.value = 'warm, cold';
    form.bounds.value = '0, 5';
    form.reduce.value = 'mean';
    form.rows.value = rows;
    form.source.value = source;
    form.source.dispatchEvent(new Event('input'));
    await new Promise((done) => setTimeout(done, 700));
    form.querySelector('.row button').click();
    await new Promise((done) => setTimeout(done, 50));
    window.fetch = fetched;
    return {
        before, after, sent, lines: form.querySelectorAll('.lines li').length,
        marked: [...form.querySelectorAll('.lines .marked')].map((node) => node.textContent),
        refusal: form.querySelector('.mapper .refusal-line').textContent,
        tried: [...form.querySelectorAll('.tried p')].map((node) => node.textContent),
    };
}"""
CODE = 'def mapper(g):\n    import os\n    emit("warm", 1)\n'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mappers")
    create_key(folder / "v.key")
    (folder / "v.jsonl").write_text("")
    stream = page_servers.STREAM | {"tick": "1s", "end": "2026-01-05T00:00:02Z"}
    tables = {"stream": stream, "server": {"anonymous": True}, "release": [EACH]}
    with (
        serving(parse_pipeline(tables, folder / "v.toml"), noise=SilentNoise()) as served,
        chromium() as browser,
        looking(browser, served.address) as found,
    ):
        yield found


def test_a_refused_line_is_marked(page):
    reply = {"refusal": {"message": "line 2: <b>nothing</b>", "line": 2}, "rows": []}
    found = page.evaluate(EDITOR, [STREAM, CODE, "", reply])
    assert (found["before"], found["after"]) == ([True, False], [False, True])
    assert (found["lines"], found["marked"]) == (4, ["2"])
    assert found["refusal"] == "line 2: <b>nothing</b>"


def test_typed_rows_are_tried_and_requests_have_the_mapper(page):
    rows = [{"pairs": [{"key": "warm", "value": 1}], "steps": 3, "is_complete": True}]
    rows += [{"pairs": [], "steps": 1, "is_complete": True}, {"pairs": [], "steps": 20001, "is_complete": False}]
    found = page.evaluate(EDITOR, [STREAM, CODE, '{"g": "a"}\n\n{"g": "b"}', {"refusal": None, "rows": rows}])
    assert found["tried"] == [
        "Row 1: warm: 1 (3 steps)",
        "Row 2: no pairs (1 step)",
        "Row 3: no pairs: more than 20000 steps",
    ]
    mapper = {"source": CODE, "columns": ["g"], "keys": ["warm", "cold"], "max_pairs": 1, "bounds": [0, 5]}
    (checked, body), (planned, release) = found["sent"]
    assert (checked, body) == ("/api/mappers/check", {"map": mapper, "rows": [{"g": "a"}, {"g": "b"}]})
    assert planned == "/api/plan"
    assert (release["map"], release["reduce"]) == (mapper, "mean")
    assert "sql" not in release


def test_rows_that_are_not_json_are_named(page):
    found = page.evaluate(EDITOR, [STREAM, CODE, "g = a", {"refusal": None, "rows": []}])
    assert "rows must be JSON objects" in found["refusal"]
