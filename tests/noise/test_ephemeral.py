"""Ephemeral noise stores nothing: a scan of all process memory finds no key and no draw."""

import gc
import os
import sys
from fractions import Fraction

import numpy as np
import pytest

from streamgauge.memory import WipedArrays
from streamgauge.noise import EphemeralNoise
from streamgauge.noise.entropy import KeySystem, fork_holders

EDGE = Fraction(2**54)
LAWS = [("laplace", EDGE), ("gaussian", EDGE**2)]
MASK = np.uint8(0x5A)
BLOCK = 1 << 20
LOW = np.uint64((1 << 20) - 1)  # bits that distinguish nearly all words
CHANCE = 3  # accidental matches among 6000 draws: one in 10^4 runs, never three

in_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads its own memory as Linux shows it")


def test_ephemeral_noise_has_no_key_and_no_pool():
    gc.collect()
    noise = EphemeralNoise()
    before = len(fork_holders)
    first, second = noise.laplace(EDGE, 50), noise.laplace(EDGE, 50)
    assert not (first == second).any()
    assert not hasattr(noise, "__dict__")
    assert EphemeralNoise.__slots__ == ()
    assert all(isinstance(referent, type) for referent in gc.get_referents(noise))
    assert len(fork_holders) == before


def masked(secret):
    """Return a masked copy, which a memory scan does not find."""
    return np.frombuffer(secret, np.uint8) ^ MASK


def memory(block):
    """Yield masked writable memory of this process, read through `block`, except the block."""
    first, size = block.ctypes.data, len(block)
    with open("/proc/self/maps") as table:
        lines = [line.split() for line in table]
    with open("/proc/self/mem", "rb", 0) as file:
        for span, rights, *_ in lines:
            low, high = (int(end, 16) for end in span.split("-"))
            for start in range(low, high if rights.startswith("rw") else low, size):
                if start + size <= first or start >= first + size:
                    block.fill(0)
                    file.seek(start)
                    try:
                        file.readinto(block.data[: min(size, high - start)])
                    except OSError:  # unreadable pages
                        continue
                    if block.any():  # pages that were never touched hold nothing
                        np.bitwise_xor(block, MASK, out=block)
                        yield block.view(np.uint64)


def stolen(*hidden):
    """Return the number of words of each list of masked secrets found in this process."""
    wanted = [np.unique(np.concatenate([secret.view(np.uint64) for secret in secrets])) for secrets in hidden]
    block, found = np.empty(BLOCK, np.uint8), [np.zeros(len(words), bool) for words in wanted]
    likely = np.zeros(int(LOW) + 1, bool)
    for own in wanted:
        likely[own & LOW] = True
    for block_words in memory(block):
        words = block_words[likely[block_words & LOW]]
        for own, matches in zip(wanted, found, strict=True):
            place = np.searchsorted(own, words).clip(0, len(own) - 1)
            matches[place[own[place] == words]] = True
        words.fill(0)  # because the mask reveals masked copies
    block.fill(0)
    return [int(matches.sum()) for matches in found]


class RecordedNoise(EphemeralNoise):
    """Ephemeral noise that records its keys.

    `keys` has the very objects in which the system gives keys, so that none is overwritten by chance.
    `copies` has masked copies.
    """

    def __init__(self, **parts):
        self.keys, self.copies = [], []
        self.SYSTEM = KeySystem(self.read_key, **parts)

    def read_key(self, size):
        self.keys.append(os.urandom(size))
        self.copies.append(masked(self.keys[-1]))
        return self.keys[-1]


def drawn_and_forgotten(noise, kind, parameter):
    """Return masked copies of draws and of their low bits. Overwrite the draws."""
    secrets = []
    for size in (1, 50, 3000):
        draws = getattr(noise, kind)(parameter, size)
        secrets.append(masked(draws.data))
        draws &= 2**48 - 1
        secrets.append(masked(draws.data))
        draws.fill(0)
    gc.collect()
    return secrets


@pytest.mark.one_of_each
@in_linux
@pytest.mark.parametrize(("kind", "parameter"), LAWS)
def test_memory_contains_neither_key_nor_draw(kind, parameter):
    noise = RecordedNoise()
    secrets = drawn_and_forgotten(noise, kind, parameter)
    assert len(noise.keys) == 3
    assert not any(any(key) for key in noise.keys)
    of_keys, of_draws = stolen(noise.copies, secrets)
    assert of_keys == 0
    assert of_draws < CHANCE


@in_linux
def test_memory_scan_finds_keys_that_are_not_wiped():
    noise = RecordedNoise(wipe=lambda key: None)
    noise.laplace(EDGE, 1)
    assert stolen(noise.copies) == [4]


@pytest.mark.one_of_each
@in_linux
@pytest.mark.parametrize(("kind", "parameter"), LAWS)
def test_memory_scan_finds_draws_in_unwiped_buffers(monkeypatch, kind, parameter):
    monkeypatch.setattr(WipedArrays, "__exit__", lambda *args: None)
    (of_draws,) = stolen(drawn_and_forgotten(EphemeralNoise(), kind, parameter))
    assert of_draws > CHANCE


def test_failed_call_wipes_its_key_and_draws(monkeypatch):
    streams, outs = [], []

    def failing(table, stream, out):
        stream.fill(np.empty(8, np.uint8))
        streams.append(stream)
        outs.append(out)
        out.fill(7)
        raise KeyboardInterrupt

    monkeypatch.setattr("streamgauge.noise.source.fill_draws", failing)
    with pytest.raises(KeyboardInterrupt):
        EphemeralNoise().laplace(EDGE, 3)
    assert not streams[0].has_key
    assert not outs[0].any()
