"""The keystream: fresh after fork, not to be copied, closed when it fails."""

import copy
import os
import pickle
import sys
import threading
from decimal import Decimal
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

from streamgauge.noise import EntropyError, EphemeralNoise, Keystream, SecureNoise, entropy, source
from streamgauge.testing.noise import InsecureKeystream, InsecureNoise

SCALE = Fraction(2**40)
EDGE = Fraction(2**54)  # two draws of it are alike once in 2^56
TINY = Fraction(1, 1000)  # all draws of it are zero, but for one in 10^434


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
    noise.laplace(EDGE, 1)
    noise.gaussian(EDGE**2, 1)
    for draw in (lambda: noise.laplace(EDGE, size), lambda: noise.gaussian(EDGE**2, size)):
        draws = [*(in_child(lambda draw=draw: draw().tobytes()) for _ in range(2)), draw().tobytes()]
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
    noise.laplace(EDGE, 1)
    ready = noise._ready.laplace.latest.draws
    context = noise._keystream._context
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert noise.laplace(EDGE, 1)[0] not in ready
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
    monkeypatch.setattr(entropy, "build_cipher", lambda key: Faulty(given))
    for _ in range(2):
        with pytest.raises(EntropyError):
            noise.laplace(Fraction(3), 5)
    out = np.full(8, 7, np.uint8)
    with pytest.raises(EntropyError):
        Keystream().fill(out)
    assert not out.any()


def refuses_to_be_built(key):
    raise ValueError("no such cipher")


def test_a_cipher_that_cannot_be_built_closes_the_source_and_drops_its_ready_draws(monkeypatch):
    noise = SecureNoise()
    noise.laplace(SCALE, 1)
    noise._keystream.renew()
    with monkeypatch.context() as broken:
        broken.setattr(entropy, "build_cipher", refuses_to_be_built)
        with pytest.raises(EntropyError, match="the cipher could not be built"):
            noise.gaussian(SCALE, 1)
        with pytest.raises(EntropyError, match="the cipher could not be built"):
            EphemeralNoise().laplace(SCALE, 1)
    for draw in (noise.laplace, noise.gaussian):
        with pytest.raises(EntropyError, match="stays closed"):
            draw(SCALE, 1)


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
    monkeypatch.setattr(entropy, "REKEY_BYTES", 1000)
    stream, contexts = Keystream(), set()
    for _ in range(5):
        stream.fill(np.empty(400, np.uint8))
        contexts.add(id(stream._context))
        held = stream._context  # noqa: F841 - kept alive on purpose
    assert len(contexts) > 1


def test_no_draw_is_handed_out_twice_to_any_thread():
    noise, drawn = SecureNoise(), []

    def work():
        for size in (1, 2, 3, 500, 1500) * 40:
            drawn.append(noise.laplace(EDGE, size))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = np.concatenate(drawn)
    assert len(values) == 4 * 40 * 2006
    assert len(values) - len(np.unique(values)) < 2  # 320840^2 / 2^57 pairs meet by chance, 10^-6 on average


def test_sizes_and_scales_are_checked():
    for noise in (SecureNoise(), EphemeralNoise()):
        with pytest.raises(ValueError, match=r"^scale must be positive and at most 2\*\*54, got 0$"):
            noise.laplace(Fraction(0), 1)
        with pytest.raises(ValueError, match=r"^variance must be positive and at most 2\*\*108, got -1$"):
            noise.gaussian(Fraction(-1), 1)
        assert noise.laplace(Fraction(1), 0).shape == (0,)


@pytest.mark.parametrize("make", [SecureNoise, EphemeralNoise])
@pytest.mark.parametrize(
    "size", [-1, 1.5, 2.0, np.float64(2), True, np.True_, None, "3", Fraction(1), np.int64(-1), 1e300]
)
def test_a_size_that_is_none_is_refused_and_later_draws_are_whole(make, size):
    noise = make()
    noise.laplace(EDGE, 1)
    for draw in (noise.laplace, noise.gaussian):
        with pytest.raises(ValueError, match=r"^size must be a whole number of at least 0, got "):
            draw(EDGE, size)
    assert [len(noise.laplace(EDGE, n)) for n in (1, 7, np.int64(7), np.uint8(3), 1024)] == [1, 7, 7, 3, 1024]


@pytest.mark.parametrize("make", [SecureNoise, EphemeralNoise])
@pytest.mark.parametrize("parameter", [None, [], 1j, "a", float("nan"), np.float32("inf"), np.array([1, 2])])
def test_a_parameter_that_is_no_number_is_refused(make, parameter):
    noise = make()
    with pytest.raises(ValueError, match=r"^scale must be a finite number, got "):
        noise.laplace(parameter, 1)
    with pytest.raises(ValueError, match=r"^variance must be a finite number, got "):
        noise.gaussian(parameter, 1)


NUMBERS = [3, np.int64(3), np.uint8(3), Fraction(np.int64(3)), 3.0, np.float64(3), np.float32(3), Decimal(3)]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_a_parameter_of_any_kind_is_one_fraction_of_plain_integers(number):
    noise, drawn = SecureNoise(), []
    for one in (number, Fraction(3), number):
        drawn += [noise.laplace(one, 2), noise.gaussian(one, 2), EphemeralNoise().laplace(one, 2)]
        drawn += [EphemeralNoise().gaussian(one, 2000), noise.gaussian(one, 2000)]
    assert {draws.dtype for draws in drawn} == {np.dtype(np.int64)}
    for pools in (noise._ready.laplace, noise._ready.gaussian):
        (pool,) = pools.pools.values()
        parameter = pool.law.scale if pools is noise._ready.laplace else pool.law.variance
        assert parameter == 3
        assert {type(parameter.numerator), type(parameter.denominator)} == {int}


STEPS = {"_draw", "_own_ready_draws", "_draw_fresh", "find", "_add_pool", "add", "sample", "__init__"}


def cut_off(call, moment):
    """Whether an interrupt came before `call` was done: one is sent at its step number `moment`."""
    steps = count()

    def trace(frame, event, arg):
        if frame.f_code.co_filename != source.__file__ or frame.f_code.co_name not in STEPS:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(steps) == moment:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def every_moment(prepare, call):
    """A fresh source for each step of `call`, and what it had given before it was interrupted there."""
    for moment in count():
        noise = SecureNoise()
        given = prepare(noise)
        if not cut_off(lambda noise=noise: call(noise), moment):
            assert moment > 20
            return
        yield noise, given


def check_whole_and_new(noise, given):
    for size in (1, 5, 30, 31, 32, 2, 3, 40, 30):
        for parameter in (EDGE, TINY):
            drawn = noise.laplace(parameter, size)
            assert len(drawn) == size
            assert drawn.all() if parameter is EDGE else not drawn.any()
            given = np.append(given, drawn)
    given = given[given != 0]
    assert len(np.unique(given)) == len(given)


CALLS = [
    (lambda noise: noise.laplace(EDGE, 10), lambda noise: noise.laplace(EDGE, 5)),
    (lambda noise: noise.laplace(EDGE, 30), lambda noise: noise.laplace(EDGE, 31)),
    (lambda noise: noise.laplace(EDGE, 30), lambda noise: noise.laplace(EDGE, 100)),
    (lambda noise: noise.laplace(EDGE, 10), lambda noise: noise.laplace(TINY, 3)),
    (lambda noise: noise.laplace(TINY, 10), lambda noise: noise.laplace(EDGE, 3)),
]


@pytest.fixture
def small_pools(monkeypatch):
    monkeypatch.setattr(source, "POOL_DRAWS", 40)
    monkeypatch.setattr(source, "MAX_POOLED_DRAWS", 32)
    monkeypatch.setattr(source, "MAX_POOLS", 1)


@pytest.mark.usefixtures("small_pools")
@pytest.mark.parametrize(("prepare", "call"), CALLS)
def test_an_interrupt_at_any_step_repeats_no_draw_and_shortens_no_array(prepare, call):
    for noise, given in every_moment(prepare, call):
        check_whole_and_new(noise, given)


@pytest.mark.usefixtures("small_pools")
@pytest.mark.parametrize(("prepare", "call"), CALLS)
def test_no_ready_draw_leaves_a_source_that_died_after_an_interrupt(prepare, call):
    for noise, _ in every_moment(prepare, call):
        noise._keystream._dead = True
        with pytest.raises(EntropyError):
            noise.gaussian(SCALE, 1)
        for parameter in (EDGE, TINY):
            with pytest.raises(EntropyError):
                noise.laplace(parameter, 1)


@pytest.mark.usefixtures("small_pools")
def test_an_interrupt_while_a_fork_is_noticed_lets_no_ready_draw_out(monkeypatch):
    def prepare(noise):
        with monkeypatch.context() as parent:
            parent.setattr(os, "getpid", lambda: 1)
            noise.renew()
            noise.laplace(EDGE, 1)
        return noise._ready.laplace.latest.draws

    for noise, of_the_parent in every_moment(prepare, lambda noise: noise.laplace(EDGE, 5)):
        check_whole_and_new(noise, of_the_parent)


def test_a_pool_that_is_short_gives_nothing(monkeypatch):
    noise = SecureNoise()
    monkeypatch.setattr(source.DrawPool, "add", lambda pool, fresh: None)
    with pytest.raises(EntropyError, match="ready draws must be 3, got 0"):
        noise.laplace(EDGE, 3)


def test_many_laws_do_not_fill_the_memory():
    noise = SecureNoise()
    for n in range(1, source.MAX_POOLS + 20):
        noise.laplace(Fraction(1, n), 1)
    assert len(noise._ready.laplace.pools) <= source.MAX_POOLS


def test_secure_draws_differ_between_sources():
    assert not (SecureNoise().laplace(SCALE, 100) == SecureNoise().laplace(SCALE, 100)).any()
    assert InsecureNoise(1).laplace(SCALE, 5).tolist() == InsecureNoise(1).laplace(SCALE, 5).tolist()
    out = np.zeros(100_000, np.uint8)
    InsecureKeystream("x").fill(out)
    assert abs(out.mean() - 127.5) < 2
