"""Earlier registers and their keys are overwritten, so that not even freed memory has them.

A run is stopped in the middle of a tick, resumed, and gets a command; after each, a batch arrives. Noise
is silent: what is saved is known. Twins do not overwrite.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import ClassVar

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streamgauge import memory
from streamgauge.runtime.live.run import LiveRun
from streamgauge.store import encryption as sealed
from streamgauge.testing.noise import SilentNoise
from tests.runtime.test_pan_private_memory import VALUES, Moments, batch, looked_at, private, private_tables
from tests.support.crash_readers import in_memory
from tests.support.pipelines import pipeline
from tests.support.raw_memory import shifted, words
from tests.support.seized_process import taken_up_and_asked

Looked = Callable[..., list[set[str]]]
tmp_path = pytest.fixture(in_memory, name="tmp_path")

MADE = private_tables(budget={"epsilon": 2})
SET_DOWN, TAKEN_UP = Moments(looked=14, stopped=16), Moments(16, 17, 18, 19)
LESS = 1000  # difference of the second batch
BATCHES = (batch(LESS), batch(LESS + 1))


def before() -> dict[str, bytes]:
    """Return the earlier registers; nothing here stores them, because the tests search for them."""
    return {"the start": words(*VALUES.values()), "the turn": words(*(2 * value - LESS for value in VALUES.values()))}


@pytest.fixture
def looked(tmp_path: Path) -> Iterator[Looked]:
    """Inspect a process that resumes a run which another process has stopped."""
    looked_at(tmp_path, lambda run: None, pipeline(tmp_path, MADE), when=SET_DOWN, noise=SilentNoise())
    secret = bytes.fromhex((tmp_path / "v.key").read_text())
    marks = {name: shifted(mark) for name, mark in (before() | {"key": secret}).items()}
    context = get_context("forkserver")
    context.set_forkserver_preload([taken_up_and_asked.__module__])
    with ProcessPoolExecutor(1, context) as process:
        look = partial(process.submit, taken_up_and_asked, tmp_path, MADE, BATCHES, marks)
        yield lambda **twin: look(**twin).result()


def test_earlier_registers_and_keys_are_nowhere_in_raw_memory(looked: Looked) -> None:
    live = {"the turn"}  # in the registers at the first search
    assert looked(wiped=True) == [live, set()]


def test_registers_that_are_not_overwritten_are_found_in_freed_memory(looked: Looked) -> None:
    started, requested = looked(wiped=False)
    assert "the start" in started
    assert "the turn" in requested


class RecordingCipher:
    """A store cipher that records all its keys and plain texts."""

    texts: ClassVar[list[bytes]] = []

    def __init__(self, key: bytes) -> None:
        self.cipher = AESGCM(key)
        self.texts.append(key)

    def encrypt(self, nonce: bytes, plain: bytes, about: bytes) -> bytes:
        self.texts.append(plain)
        return self.cipher.encrypt(nonce, plain, about)

    def decrypt(self, nonce: bytes, ciphertext: bytes, about: bytes) -> bytes:
        self.texts.append(self.cipher.decrypt(nonce, ciphertext, about))
        return self.texts[-1]


def left_of(run: LiveRun) -> set[bytes]:
    """Return the recorded bytes that are not overwritten, without the hash secret of the run."""
    return {each for each in RecordingCipher.texts if any(each)} - {run.session.secret}


def overheard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[set[bytes], set[bytes]]:
    """Return the bytes that are left while a resumed run is idle, and after it has stopped."""
    made, silent, runs = private(folder), SilentNoise(), list[LiveRun]()
    looked_at(folder, lambda run: None, made, when=SET_DOWN, noise=silent)
    monkeypatch.setattr(sealed, "AESGCM", RecordingCipher)
    RecordingCipher.texts.clear()

    def look(run: LiveRun) -> set[bytes]:
        runs.append(run)
        return left_of(run)

    rests, _ = looked_at(folder, look, made, BATCHES[0], TAKEN_UP, noise=silent)
    assert len(RecordingCipher.texts) > 20
    return rests, left_of(runs[0])


def test_all_keys_and_plain_texts_of_store_are_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert overheard(tmp_path, monkeypatch) == (set(), set())


def test_twin_store_that_overwrites_nothing_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "memset", lambda *given: None)
    for left, saved in zip(overheard(tmp_path, monkeypatch), before().values(), strict=True):
        assert any(saved in each for each in left)
