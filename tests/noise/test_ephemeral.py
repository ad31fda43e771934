"""Ephemeral noise keeps nothing: a thief who reads all memory of the process finds no key and no draw."""

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
LOW = np.uint64((1 << 20) - 1)  # bits by which nearly all words are told apart
CHANCE = 3  # words of memory that look like one of some 6000 draws: one such in 10^4 runs, three never

in_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads its own memory as Linux shows it")


def test_ephemeral_noise_keeps_nothing():
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
    """A copy that does not look like it."""
    return np.frombuffer(secret, np.uint8) ^ MASK


def memory(block):
    """Reads all writable memory of this process into `block`, mask on, but for the block itself."""
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
                    except OSError:  # pages that nobody may read
                        continue
                    if block.any():  # pages that were never touched hold nothing
                        np.bitwise_xor(block, MASK, out=block)
                        yield block.view(np.uint64)


def stolen(*hidden):
    """How many words of each of these lists of masked secrets a thief finds in this process."""
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
        words.fill(0)  # for the mask shows what a masked copy hides
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
    """Masked copies of draws, and of their low bits; the draws themselves are overwritten."""
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
def test_a_thief_finds_neither_key_nor_draw(kind, parameter):
    noise = RecordedNoise()
    secrets = drawn_and_forgotten(noise, kind, parameter)
    assert len(noise.keys) == 3
    assert not any(any(key) for key in noise.keys)
    of_keys, of_draws = stolen(noise.copies, secrets)
    assert of_keys == 0
    assert of_draws < CHANCE


@in_linux
def test_a_thief_finds_keys_that_are_not_wiped():
    noise = RecordedNoise(wipe=lambda key: None)
    noise.laplace(EDGE, 1)
    assert stolen(noise.copies) == [4]


@pytest.mark.one_of_each
@in_linux
@pytest.mark.parametrize(("kind", "parameter"), LAWS)
def test_a_thief_finds_draws_whose_buffers_are_not_wiped(monkeypatch, kind, parameter):
    monkeypatch.setattr(WipedArrays, "__exit__", lambda *args: None)
    (of_draws,) = stolen(drawn_and_forgotten(EphemeralNoise(), kind, parameter))
    assert of_draws > CHANCE


def test_a_call_that_fails_lets_go_of_its_key_and_draws(monkeypatch):
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
