"""Readers of a server that cannot write any more."""

from pathlib import Path

from streamgauge.server.publishing.clock import CURSOR_FILE_NAME
from tests.support.served import ask, close, file_of, leave, running, stepped, write


def test_readers_get_the_rest_when_the_cursor_can_be_written(tmp_path: Path) -> None:
    write(tmp_path, 60)
    clock = stepped()
    with running(file_of(tmp_path), clock) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        blocked = runner.file.folder / f"{CURSOR_FILE_NAME}.new"
        blocked.mkdir()  # no file of this name can be written
        close(runner, clock, 2)
        clock.to(32)
        for path in ("/api/releases", "/api/releases/counts?last=1"):
            assert ask(runner, path).status_code == 200
        assert ask(runner, "/api/releases").json()["published_until"] == {"tick": 1}
        blocked.rmdir()
        runner.publisher.publish_due()
        assert ask(runner, "/api/releases").json()["published_until"] == {"tick": 2}
