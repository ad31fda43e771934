"""The device of docs/server.md, run at every visit: its report counts once in every case."""

import json
import re
import urllib.request
from functools import partial
from io import BytesIO
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from streamgauge import localdp
from streamgauge.continual import RunFailedError
from streamgauge.localdp import build_device
from tests.support.codes import has_code
from tests.support.failing_phone import AGAIN, START, collection

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
BEGUN = b'{"error": {"code": "not_running", "accepted": false}}'


class Visits:
    """Runs of the documented code at chosen moments, with a server that replies or does not."""

    def __init__(self, patch):
        (self.code,) = re.findall(r"```\n(import json, urllib.request\n.*?)```", PAGE.read_text(), re.DOTALL)
        self.sent, self.patch = [], patch
        patch.setattr(urllib.request, "urlopen", self.urlopen)

    def __call__(self, at, answer, body=b""):
        self.sent, self.answer, self.body = [], answer, body
        self.patch.setattr(localdp, "build_device", partial(build_device, now=lambda: START + at))
        try:
            exec(self.code, {"SERVER": "http://poll.example"})
        except URLError:
            assert answer is None
        return self.sent

    def urlopen(self, asked, timeout=None):
        if isinstance(asked, str):
            return BytesIO(json.dumps(collection(most=1)).encode())
        assert Path("emoji.memory").stat().st_mode & 0o777 == 0o600
        self.sent.append((asked.headers["Batch-key"], asked.data))
        if self.answer is None:
            raise URLError("lost")
        if self.answer >= 300:
            raise HTTPError(asked.full_url, self.answer, "", {}, BytesIO(self.body))
        return BytesIO(b"{}")


@pytest.fixture
def visit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Visits(monkeypatch)


def test_unanswered_report_is_resent_with_its_key_for_nine_minutes(visit):
    sent = [visit(at, answer) for at, answer in ((0, None), (60, 503), (120, None))]
    assert sent == [sent[0]] * 3
    assert len(sent[0]) == 1
    assert [visit(at, 200) for at in (AGAIN, 2 * AGAIN)] == [[], []]


def test_accepted_report_is_sent_once(visit):
    assert [len(visit(at, 200)) for at in (0, 1, 10**6)] == [1, 0, 0]


def test_certainly_refused_report_is_resent_at_any_time(visit):
    answers = (0, 429, b""), (10**6, 503, BEGUN), (2 * 10**6, 200, b""), (2 * 10**6 + 1, 200, b"")
    sent = [visit(*each) for each in answers]
    assert sent == [*[sent[0]] * 3, []]


def test_a_second_process_is_refused_before_it_sends(visit):
    with localdp.MemoryFile("emoji.memory"), pytest.raises(RunFailedError, check=has_code("in_use")):
        visit(0, 200)
    assert visit.sent == []
    assert len(visit(0, 200)) == 1
