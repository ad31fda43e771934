"""The keystream: fresh after fork, not to be copied, closed when it fails."""

import copy
import gc
import os
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest

from streamgauge.noise import EntropyError, EphemeralNoise, Keystream, SecureNoise, entropy, source
from streamgauge.testing import InsecureKeystream, InsecureNoise

SCALE = Fraction(2**40)


def in_child(act):
    """The bytes that `act` returns in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, act())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


@pytest.mark.parametrize("size", [1, 100, 2000])
def test_after_a_fork_parent_and_child_draw_different_noise_even_from_filled_pools(size):
    noise = SecureNoise()
    noise.laplace(SCALE, 1)
    noise.gaussian(SCALE, 1)
    for draw in (noise.laplace, noise.gaussian):
        children = [in_child(lambda draw=draw: draw(SCALE, size).tobytes()) for _ in range(2)]
        draws = [*children, draw(SCALE, size).tobytes()]
        assert len(set(draws)) == 3


def test_after_a_fork_keystreams_differ():
    stream = Keystream()
    out = np.zeros(32, np.uint8)
    stream.fill(out)

    def act():
        stream.fill(out)
        return out.tobytes()

    assert in_child(act) != act()


def test_a_fork_while_another_thread_draws_does_not_lock_the_child():
    noise = SecureNoise()
    noise._lock.acquire()
    assert len(in_child(lambda: noise.laplace(SCALE, 3).tobytes())) == 24
    noise._lock.release()


def test_a_fork_behind_pythons_back_is_noticed(monkeypatch):
    noise = SecureNoise()
    noise.laplace(SCALE, 1)
    ready = noise._laplace.latest.draws
    context = noise._keystream._context
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert noise.laplace(SCALE, 1)[0] not in ready
    assert noise._keystream._context is not context


@pytest.mark.parametrize("make", [SecureNoise, EphemeralNoise, Keystream])
@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy, lambda x: pickle.dumps([x], 0)])
def test_chance_is_neither_copied_nor_pickled(make, act):
    with pytest.raises(TypeError, match="must be used where it was made"):
        act(make())


def refuses(*args):
    raise OSError("no entropy")


@pytest.mark.parametrize("urandom", [refuses, lambda n: b"", lambda n: bytes(n - 1)])
def test_without_system_entropy_nothing_is_drawn_ever_after(monkeypatch, urandom):
    noise, stream = SecureNoise(), Keystream()
    with monkeypatch.context() as broken:
        broken.setattr(os, "urandom", urandom)
        for draw in (noise.laplace, noise.gaussian, EphemeralNoise().laplace):
            with pytest.raises(EntropyError):
                draw(Fraction(3), 5)
        with pytest.raises(EntropyError):
            stream.fill(np.empty(8, np.uint8))
    with pytest.raises(EntropyError, match="stays closed"):
        noise.laplace(Fraction(3), 5)
    with pytest.raises(EntropyError, match="stays closed"):
        stream.fill(np.empty(8, np.uint8))


class Faulty:
    def __init__(self, given):
        self.given = given

    def update_into(self, zeros, out):
        return self.given(zeros, out)


@pytest.mark.parametrize("given", [lambda z, o: len(z) - 1, lambda z, o: refuses(), lambda z, o: len(z)])
def test_a_cipher_that_fails_comes_short_or_gives_zeros_closes_the_keystream(monkeypatch, given):
    noise = SecureNoise()
    monkeypatch.setattr(entropy, "cipher", lambda key: Faulty(given))
    for _ in range(2):
        with pytest.raises(EntropyError):
            noise.laplace(Fraction(3), 5)
    out = np.full(8, 7, np.uint8)
    with pytest.raises(EntropyError):
        Keystream().fill(out)
    assert not out.any()


@pytest.mark.parametrize("size", [1, 5000])
def test_ready_draws_of_a_dead_source_are_never_handed_out(monkeypatch, size):
    noise = SecureNoise()
    noise.laplace(SCALE, 1)
    monkeypatch.setattr(noise._keystream, "_dead", True)
    with pytest.raises(EntropyError):
        noise.gaussian(SCALE, size)
    with pytest.raises(EntropyError):
        noise.laplace(SCALE, 1)


def test_keys_are_replaced_after_their_share(monkeypatch):
    monkeypatch.setattr(entropy, "REKEY", 1000)
    stream, contexts = Keystream(), set()
    for _ in range(5):
        stream.fill(np.empty(400, np.uint8))
        contexts.add(id(stream._context))
        held = stream._context  # noqa: F841
    assert len(contexts) > 1


def test_no_draw_is_handed_out_twice_to_any_thread():
    noise, drawn = SecureNoise(), []

    def work():
        for size in (1, 2, 3, 500, 1500) * 40:
            drawn.append(noise.laplace(SCALE, size))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = np.concatenate(drawn)
    assert len(values) == 4 * 40 * 2006
    assert len(values) - len(np.unique(values)) < 3  # 320840^2 / 2^43 pairs meet by chance, 0.01 on average


def test_ephemeral_noise_keeps_nothing():
    noise = EphemeralNoise()
    before = len(list(entropy._live))
    first, second = noise.laplace(SCALE, 50), noise.laplace(SCALE, 50)
    assert not (first == second).any()
    assert not hasattr(noise, "__dict__")
    assert EphemeralNoise.__slots__ == ()
    assert all(isinstance(kept, type) for kept in gc.get_referents(noise))
    assert len(list(entropy._live)) == before


def test_sizes_and_scales_are_checked():
    for noise in (SecureNoise(), EphemeralNoise()):
        with pytest.raises(ValueError, match="size must be at least 0, got -1"):
            noise.laplace(Fraction(1), -1)
        with pytest.raises(ValueError, match="scale must be positive and at most 2\\*\\*54, got 0"):
            noise.laplace(Fraction(0), 1)
        with pytest.raises(ValueError, match="variance must be positive and at most 2\\*\\*108, got -1"):
            noise.gaussian(Fraction(-1), 1)
        assert noise.laplace(Fraction(1), 0).shape == (0,)


def test_many_laws_do_not_fill_the_memory():
    noise = SecureNoise()
    for n in range(1, source.LAWS + 20):
        noise.laplace(Fraction(1, n), 1)
    assert len(noise._laplace.pools) <= source.LAWS


def test_secure_draws_differ_between_sources():
    assert not (SecureNoise().laplace(SCALE, 100) == SecureNoise().laplace(SCALE, 100)).any()
    assert InsecureNoise(1).laplace(SCALE, 5).tolist() == InsecureNoise(1).laplace(SCALE, 5).tolist()
    out = np.zeros(100_000, np.uint8)
    InsecureKeystream("x").fill(out)
    assert abs(out.mean() - 127.5) < 2
