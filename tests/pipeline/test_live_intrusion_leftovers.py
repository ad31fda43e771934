"""What an intrusion into a live server leaves in its memory: not what was there before, nor what was seen.

As in `test_pan_private_leftovers`: noise is silent, so the registers before the intrusion, the copies that
were handed over and the registers after it are the sums that were sent, and all of them would be found.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory_searched import in_octets, nothing_collected
from test_pan_private_leftovers import (
    LESS,
    MARKS,
    Apart,
    apart,  # noqa: F401 - a fixture
    committed,
    eventually,
    runner_of,
    send,
)
from test_pan_private_memory import batch

from streamgauge.pipeline.intruding import Intrusion
from streamgauge.server import turns
from streamgauge.server.announced import NotHandedOver, place_of


def after_a_look(folder: Path) -> set[Any]:
    """Marks in the memory of a server that refused an intrusion and held one, between two batches."""
    opened = list[str]()
    runner = runner_of(folder, lambda name: opened.extend([name] * (name == "opened")))
    place_of(runner.file, "taken").mkdir(parents=True)
    with nothing_collected():
        runner.start()
        try:
            send(runner, batch())
            with pytest.raises(NotHandedOver, match="which exists"):
                runner.intrude(place_of(runner.file, "taken"))
            assert runner.intrude(place_of(runner.file, "court")).number == 1
            eventually(lambda: len(opened) >= 3)
            send(runner, batch(LESS))
            return committed()
        finally:
            runner.stop()


def at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(turns, "PACE", 0.0)


def held_on_to(patch: pytest.MonkeyPatch) -> None:
    """The broken twin: garbage that has all state, as it was before the run went on."""
    begin = Intrusion.__init__

    def kept(self: Any, *given: Any) -> None:
        begin(self, *given)
        self.itself = self

    at_once(patch)
    patch.setattr(Intrusion, "__init__", kept)
    patch.setattr(Intrusion, "forget", lambda self: None)


def test_nothing_of_what_was_seen_stays_in_a_server(tmp_path: Path, apart: Apart) -> None:  # noqa: F811
    assert apart(after_a_look, tmp_path, twin=at_once) == set()
    seen = [np.load(path) for path in (tmp_path / "v.handed-over" / "court").glob("*.npy")]
    assert in_octets(seen, MARKS) == MARKS, "they were in what was handed over"


def test_an_intrusion_that_is_held_on_to_is_caught(tmp_path: Path, apart: Apart) -> None:  # noqa: F811
    assert apart(after_a_look, tmp_path, twin=held_on_to) == MARKS
