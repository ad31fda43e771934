"""Where nothing can be written any more, readers go on reading."""

from pathlib import Path

import pytest
from served import ask, close, file_of, leave, running, stepped, write

from streamgauge.server.noted import Noted


def no_room(noted: Noted, number: int, chain: str) -> None:
    raise OSError(28, "No space left on device")


def test_readers_have_what_has_left_and_get_the_rest_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 60)
    clock = stepped()
    with running(file_of(tmp_path), clock) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        with monkeypatch.context() as full:
            full.setattr(Noted, "write", no_room)
            close(runner, clock, 2)
            clock.to(32)
            for path in ("/api/releases", "/api/releases/counts?last=1"):
                assert ask(runner, path).status_code == 200
            assert ask(runner, "/api/releases").json()["shown"] == {"tick": 1}
        runner._leaving.look()
        assert ask(runner, "/api/releases").json()["shown"] == {"tick": 2}
