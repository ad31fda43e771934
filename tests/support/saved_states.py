"""States of runs as their saved bytes have them, which a thief of a save reads."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamgauge.continual import RunFailedError
from streamgauge.continual.state_io import MAGIC


def read_state(run: Any) -> Any:
    """Return a copy of the state that `save` of a run or collector writes."""
    saved = run.save()
    start = len(MAGIC) + 8
    end = start + int.from_bytes(saved[len(MAGIC) : start], "little")
    return parse_state(json.loads(saved[start:end])["state"], memoryview(saved)[end:])[0]


def check_refused_in_child(*acts: Callable[[], object]) -> None:
    """Check that a run refuses each of these acts in a forked child."""
    for act in acts:
        with pytest.raises(RunFailedError, match=r"^run must continue .* that began it, got a forked child$"):
            act()


def live_state(run: Any) -> Any:
    """Return the state of a run itself, as an intruder in the process would find it."""
    return run._state


def parse_state(description: Any, raw: memoryview) -> tuple[Any, memoryview]:
    """Return the described value and the bytes after it."""
    if not isinstance(description, dict):
        return description, raw
    if description.keys() == {"dtype", "shape"}:
        array = np.zeros(description["shape"], np.dtype(description["dtype"]))
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(raw[: array.nbytes], np.uint8)
        return array, raw[array.nbytes :]
    values = {}
    for name, part in description.items():
        values[name], raw = parse_state(part, raw)
    return SimpleNamespace(**values), raw
