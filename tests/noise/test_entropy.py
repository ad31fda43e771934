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

from streamgauge.noise import EntropyError, EphemeralNoise, Keystream, SecureNoise, source
from streamgauge.noise.entropy import KEY_BYTES, KeySystem, build_cipher
from streamgauge.noise.sampler_table import GaussianLaw, LaplaceLaw
from streamgauge.noise.source import DEFAULT_POOL_SIZES, FamilyPools, PoolSizes
from streamgauge.testing.noise import InsecureKeystream, InsecureNoise

SCALE = Fraction(2**40)
EDGE = Fraction(2**54)  # two draws are equal once in 2^56
TINY = Fraction(1, 1000)  # all draws are zero, except one in 10^434


class FakeSystem:
    """An operating system with known keys, which fails on request and changes its process id."""

    def __init__(self, **parts):
        self.pid, self.keys, self.random_bytes, self.build_cipher = 1, 0, self.next_key, build_cipher
        self.system = KeySystem(random_bytes=self.read, process_id=lambda: self.pid, build_cipher=self.build, **parts)

    def read(self, size):
        return self.random_bytes(size)

    def build(self, key):
        return self.build_cipher(key)

    def next_key(self, size):
        self.keys += 1
        return bytes([self.keys]) * size

    def kill(self, stream):
        """Let a keystream fail."""
        self.random_bytes = refuses
        stream.renew()
        with pytest.raises(EntropyError):
            stream.fill(np.empty(8, np.uint8))
        self.random_bytes = self.next_key


def in_child(act):
    """Return the bytes that `act` returns in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, act())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return found


@pytest.mark.parametrize("size", [1, 100, 2000])
def test_fork_with_filled_pools_draws_different_noise(size):
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


def test_fork_during_a_concurrent_draw_does_not_lock_child():
    parent, inside, forked = os.getpid(), threading.Event(), threading.Event()

    def random_bytes(size):
        if os.getpid() == parent:
            inside.set()
            forked.wait()
        return os.urandom(size)

    noise = SecureNoise(Keystream(KeySystem(random_bytes)))
    thread = threading.Thread(target=lambda: noise.laplace(SCALE, 3))
    thread.start()
    inside.wait()
    try:
        assert len(in_child(lambda: noise.laplace(SCALE, 3).tobytes())) == 24
    finally:
        forked.set()
        thread.join()


def draw_pool(system):
    """Return all ready draws of a source over this system."""
    return SecureNoise(Keystream(system)).laplace(EDGE, DEFAULT_POOL_SIZES.max_pooled_draws)


def test_fork_outside_of_python_is_detected():
    fake = FakeSystem()
    noise, ready = SecureNoise(Keystream(fake.system)), draw_pool(FakeSystem().system)
    assert noise.laplace(EDGE, 1)[0] == ready[0]
    fake.pid = 2
    assert noise.laplace(EDGE, 1)[0] not in ready
    assert fake.keys == 2
    same = SecureNoise(Keystream(FakeSystem().system))
    assert [same.laplace(EDGE, 1)[0] for _ in range(2)] == ready[:2].tolist(), "without a fork they are the ready ones"


@pytest.mark.parametrize("make", [SecureNoise, EphemeralNoise, Keystream])
@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy, lambda x: pickle.dumps([x], 0)])
def test_noise_source_is_neither_copied_nor_pickled(make, act):
    with pytest.raises(TypeError, match="must be used where it was made"):
        act(make())


def refuses(*args):
    raise OSError("no entropy")


def build_ephemeral(system):
    """Return ephemeral noise over another system."""

    class Ephemeral(EphemeralNoise):
        __slots__ = ()
        SYSTEM = system

    return Ephemeral()


@pytest.mark.parametrize("urandom", [refuses, lambda n: b"", lambda n: bytes(n - 1)])
def test_missing_system_entropy_closes_the_source(urandom):
    fake = FakeSystem()
    noise, stream = SecureNoise(Keystream(fake.system)), Keystream(fake.system)
    fake.random_bytes = urandom
    for draw in (noise.laplace, noise.gaussian, build_ephemeral(fake.system).laplace):
        with pytest.raises(EntropyError):
            draw(Fraction(3), 5)
    with pytest.raises(EntropyError):
        stream.fill(np.empty(8, np.uint8))
    fake.random_bytes = fake.next_key
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
def test_failing_short_or_zero_cipher_closes_keystream(given):
    system = KeySystem(build_cipher=lambda key: Faulty(given))
    noise = SecureNoise(Keystream(system))
    for _ in range(2):
        with pytest.raises(EntropyError):
            noise.laplace(Fraction(3), 5)
    out = np.full(8, 7, np.uint8)
    with pytest.raises(EntropyError):
        Keystream(system).fill(out)
    assert not out.any()


def refuses_to_be_built(key):
    raise ValueError("no such cipher")


def test_cipher_build_failure_closes_source_and_drops_ready_draws():
    fake = FakeSystem()
    stream = Keystream(fake.system)
    noise = SecureNoise(stream)
    noise.laplace(SCALE, 1)
    stream.renew()
    fake.build_cipher = refuses_to_be_built
    with pytest.raises(EntropyError, match="the cipher could not be built"):
        noise.gaussian(SCALE, 1)
    with pytest.raises(EntropyError, match="the cipher could not be built"):
        build_ephemeral(fake.system).laplace(SCALE, 1)
    fake.build_cipher = build_cipher
    for draw in (noise.laplace, noise.gaussian):
        with pytest.raises(EntropyError, match="stays closed"):
            draw(SCALE, 1)


@pytest.mark.parametrize("size", [1, 5000])
def test_ready_draws_of_a_closed_source_are_never_returned(size):
    fake = FakeSystem()
    stream = Keystream(fake.system)
    noise = SecureNoise(stream)
    noise.laplace(SCALE, 1)
    fake.kill(stream)
    with pytest.raises(EntropyError):
        noise.gaussian(SCALE, size)
    with pytest.raises(EntropyError):
        noise.laplace(SCALE, 1)


def test_keys_are_replaced_after_their_share():
    fake = FakeSystem(rekey_bytes=1000)
    stream, keys = Keystream(fake.system), []
    for _ in range(5):
        stream.fill(np.empty(400, np.uint8))
        keys.append(fake.keys)
    assert keys == [1, 1, 2, 2, 3]


def test_no_draw_is_returned_twice_in_any_thread():
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
    assert len(values) - len(np.unique(values)) < 2  # 320840^2 / 2^57 random collisions, 10^-6 on average


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
def test_invalid_size_is_refused_and_later_draws_are_complete(make, size):
    noise = make()
    noise.laplace(EDGE, 1)
    for draw in (noise.laplace, noise.gaussian):
        with pytest.raises(ValueError, match=r"^size must be a whole number of at least 0, got "):
            draw(EDGE, size)
    assert [len(noise.laplace(EDGE, n)) for n in (1, 7, np.int64(7), np.uint8(3), 1024)] == [1, 7, 7, 3, 1024]


@pytest.mark.parametrize("make", [SecureNoise, EphemeralNoise])
@pytest.mark.parametrize("parameter", [None, [], 1j, "a", float("nan"), np.float32("inf"), np.array([1, 2])])
def test_invalid_parameter_is_refused(make, parameter):
    noise = make()
    with pytest.raises(ValueError, match=r"^scale must be a finite number, got "):
        noise.laplace(parameter, 1)
    with pytest.raises(ValueError, match=r"^variance must be a finite number, got "):
        noise.gaussian(parameter, 1)


NUMBERS = [3, np.int64(3), np.uint8(3), Fraction(np.int64(3)), 3.0, np.float64(3), np.float32(3), Decimal(3)]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_equal_parameters_of_any_type_share_one_law(number):
    noise, drawn = SecureNoise(), []
    for one in (number, Fraction(3), number):
        drawn += [noise.laplace(one, 2), noise.gaussian(one, 2), EphemeralNoise().laplace(one, 2)]
        drawn += [EphemeralNoise().gaussian(one, 2000), noise.gaussian(one, 2000)]
    assert {draws.dtype for draws in drawn} == {np.dtype(np.int64)}
    scales, variances = FamilyPools("scale", LaplaceLaw), FamilyPools("variance", GaussianLaw)
    laws = [pools.find(one).law for pools in (scales, variances) for one in (number, Fraction(3), number)]
    for parameter in (laws[0].scale, laws[-1].variance):
        assert parameter == 3
        assert {type(parameter.numerator), type(parameter.denominator)} == {int}
    assert len(scales.pools) == len(variances.pools) == 1


STEPS = {
    "_draw",
    "_own_ready_draws",
    "_draw_fresh",
    "find",
    "_add_pool",
    "add",
    "sample",
    "__init__",
    "_drop_ready_draws",
}


def cut_off(call, moment):
    """Send an interrupt at step `moment` of `call`. Return True if it came before the end."""
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


SMALL_POOLS = PoolSizes(pool_draws=40, max_pooled_draws=32, max_pools=1)


def every_moment(prepare, call):
    """Yield a system, its keystream and source, and what the source gave, interrupted at each step of `call`."""
    for moment in count():
        fake = FakeSystem()
        fake.random_bytes = os.urandom
        stream = Keystream(fake.system)
        noise = SecureNoise(stream, SMALL_POOLS)
        given = prepare(noise, fake)
        if not cut_off(lambda noise=noise: call(noise), moment):
            assert moment > 20
            return
        yield fake, stream, noise, given


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
    (lambda noise, fake: noise.laplace(EDGE, 10), lambda noise: noise.laplace(EDGE, 5)),
    (lambda noise, fake: noise.laplace(EDGE, 30), lambda noise: noise.laplace(EDGE, 31)),
    (lambda noise, fake: noise.laplace(EDGE, 30), lambda noise: noise.laplace(EDGE, 100)),
    (lambda noise, fake: noise.laplace(EDGE, 10), lambda noise: noise.laplace(TINY, 3)),
    (lambda noise, fake: noise.laplace(TINY, 10), lambda noise: noise.laplace(EDGE, 3)),
]


@pytest.mark.parametrize(("prepare", "call"), CALLS)
def test_interrupt_at_any_step_repeats_or_loses_no_draw(prepare, call):
    for _, _, noise, given in every_moment(prepare, call):
        check_whole_and_new(noise, given)


@pytest.mark.parametrize(("prepare", "call"), CALLS)
def test_interrupted_then_closed_source_returns_no_ready_draw(prepare, call):
    for fake, stream, noise, _ in every_moment(prepare, call):
        fake.kill(stream)
        with pytest.raises(EntropyError):
            noise.gaussian(SCALE, 1)
        for parameter in (EDGE, TINY):
            with pytest.raises(EntropyError):
                noise.laplace(parameter, 1)


def test_interrupt_during_fork_detection_returns_no_ready_draw():
    def prepare(noise, fake):
        key = os.urandom(KEY_BYTES)
        copy = SecureNoise(Keystream(KeySystem(lambda size: bytes(bytearray(key)))), SMALL_POOLS)
        ready = np.concatenate([copy.laplace(EDGE, size) for size in (1, 32, 7)])
        fake.random_bytes = lambda size: bytes(bytearray(key))
        assert noise.laplace(EDGE, 1)[0] == ready[0]
        fake.random_bytes, fake.pid = os.urandom, 2
        return ready

    for _, _, noise, ready_of_parent in every_moment(prepare, lambda noise: noise.laplace(EDGE, 5)):
        check_whole_and_new(noise, ready_of_parent)


def test_short_pool_returns_nothing():
    noise = SecureNoise(sizes=PoolSizes(pool_draws=2))
    with pytest.raises(EntropyError, match="ready draws must be 3, got 2"):
        noise.laplace(EDGE, 3)


def test_many_laws_do_not_fill_the_memory():
    pools = FamilyPools("scale", LaplaceLaw)
    for n in range(1, DEFAULT_POOL_SIZES.max_pools + 20):
        pools.find(Fraction(1, n))
    assert len(pools.pools) <= DEFAULT_POOL_SIZES.max_pools


def test_secure_draws_differ_between_sources():
    assert not (SecureNoise().laplace(SCALE, 100) == SecureNoise().laplace(SCALE, 100)).any()
    assert InsecureNoise(1).laplace(SCALE, 5).tolist() == InsecureNoise(1).laplace(SCALE, 5).tolist()
    out = np.zeros(100_000, np.uint8)
    InsecureKeystream("x").fill(out)
    assert abs(out.mean() - 127.5) < 2
