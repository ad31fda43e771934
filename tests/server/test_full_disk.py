"""Where nothing can be written any more, readers go on reading."""

from pathlib import Path

import pytest

from streamgauge.server.publishing.clock import PublishCursor
from tests.support.served import ask, close, file_of, leave, running, stepped, write


def no_room(noted: PublishCursor, number: int, chain: str) -> None:
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
            full.setattr(PublishCursor, "write", no_room)
            close(runner, clock, 2)
            clock.to(32)
            for path in ("/api/releases", "/api/releases/counts?last=1"):
                assert ask(runner, path).status_code == 200
            assert ask(runner, "/api/releases").json()["published_until"] == {"tick": 1}
        runner._publisher.publish_due()
        assert ask(runner, "/api/releases").json()["published_until"] == {"tick": 2}
