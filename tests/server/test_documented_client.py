"""The Python client of docs/server.md: it resends refused batches, never those that may have been counted."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
BLOCK = re.compile(r"^```\n(import http\.client.*?)^```$", re.MULTILINE | re.DOTALL)

RESET, PROXY = "no reply", (502, "<html>bad gateway</html>")
WITHDRAWN = (503, {"error": {"code": "not_committed", "message": "-", "accepted": False}})
UNCLEAR = (503, {"error": {"code": "not_running", "message": "-"}})
RATE = (429, {"error": {"code": "rate_limited", "message": "-"}})
ACCEPTED = (200, {"batch": "a/7", "durable": False, "duplicate": False})


class Script(BaseHTTPRequestHandler):
    """Replies to POST one by one from a list, and to GET with one status."""

    replies: list[Any]
    status: str
    posts: list[tuple[str, bytes]]
    gets: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posts.append((self.headers["Batch-Key"], body))
        self._reply(self.replies.pop(0))

    def do_GET(self) -> None:
        self.gets.append(self.path)
        self._reply((200, {"batch": "a/7", "status": self.status}))

    def _reply(self, reply: Any) -> None:
        if reply == RESET:
            self.close_connection = True
            return
        status, details = reply
        body = (details if isinstance(details, str) else json.dumps(details)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *details: Any) -> None:
        """Write nothing."""


@contextmanager
def scripted(status: str, *replies: Any) -> Iterator[tuple[Any, type[Script]]]:
    """A server that follows a script, and the documented client of it."""
    script = type("Now", (Script,), {"replies": list(replies), "status": status, "posts": [], "gets": []})
    server = HTTPServer(("127.0.0.1", 0), script)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        found: dict[str, Any] = {"SERVER": f"http://127.0.0.1:{server.server_port}", "TOKEN": "sg_x"}
        (code,) = BLOCK.findall(PAGE.read_text())
        exec(code, found)
        found["time"] = type("Hasty", (), {"sleep": staticmethod(lambda seconds: None)})
        yield found["post"], script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("first", [RESET, PROXY, UNCLEAR, (504, "slow"), (503, "[]")])
def test_client_gives_up_batch_that_may_have_been_counted(first: Any) -> None:
    with scripted("untracked", first, ACCEPTED) as (post, script):
        with pytest.raises(RuntimeError, match=r"^batch a/7 may have been counted, and must not be sent"):
            post([{"n": 1}], "a/7")
        assert script.posts == [("a/7", b'{"n": 1}\n')]
        assert script.gets == ["/api/events/a%2F7"]


@pytest.mark.parametrize("first", [WITHDRAWN, RATE, (425, "")])
@pytest.mark.parametrize("status", ["untracked", "unknown"])
def test_client_resends_batch_that_was_certainly_refused(status: str, first: Any) -> None:
    with scripted(status, first, WITHDRAWN, ACCEPTED) as (post, script):
        assert post([{"n": 1}], "a/7")["durable"] is False
        assert (len(script.posts), script.gets) == (3, [])


def test_client_gives_up_when_an_earlier_attempt_is_unclear() -> None:
    """A later refusal is certain of its own attempt only."""
    with scripted("untracked", WITHDRAWN, UNCLEAR, WITHDRAWN) as (post, script):
        with pytest.raises(RuntimeError):
            post([{"n": 1}], "a/7")
        assert len(script.posts) == 2


@pytest.mark.parametrize("first", [RESET, PROXY, UNCLEAR])
def test_client_resends_with_same_key_if_server_tracks_keys(first: Any) -> None:
    with scripted("waiting", first, ACCEPTED) as (post, script):
        assert post([{"n": 1}], "a/7")["batch"] == "a/7"
        assert script.posts == [("a/7", b'{"n": 1}\n')] * 2


@pytest.mark.parametrize("status", [400, 401, 413, 500])
def test_client_raises_errors_that_resending_cannot_fix(status: int) -> None:
    with scripted("unknown", (status, {"error": {"code": "x", "message": "-"}})) as (post, script):
        with pytest.raises(OSError, match=str(status)):
            post([{"n": 1}], "a/7")
        assert len(script.posts) == 1
