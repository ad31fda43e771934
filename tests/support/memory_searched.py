"""All that a run holds, or all that a process does, searched for marks: objects, arrays, texts, numbers, and
the frames at work.
"""

import gc
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, filterfalse
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

SKIPPED = (type, ModuleType, FunctionType, BuiltinFunctionType)
PLAIN = frozenset((str, int, float, complex, bool, type(None), CodeType))  # without octets, or code
OCTETS = (np.ndarray, bytes, bytearray, memoryview)
AT_ONCE = 2**16


def frames_of(package: str = "streamgauge") -> Iterator[FrameType]:
    """The frames of a package that are at work in this thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if f"/{package}/" in frame.f_code.co_filename:
            yield frame
        frame = frame.f_back


def reached(roots: Iterable[Any]) -> Iterator[Any]:
    """Every object that can be reached, each once; not by way of classes and modules, which are code."""
    queue, seen = list(roots), set()
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, SKIPPED):
            continue
        seen.add(id(thing))
        yield thing
        queue += gc.get_referents(thing)
        if isinstance(thing, np.ndarray) and thing.base is not None:
            queue.append(thing.base)


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Start without garbage, then keep objects that refer to themselves, as Python does for a while."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def everything() -> list[Any]:
    """Return all objects with bytes in the memory of this process, uncollected garbage and threads included."""
    gc.unfreeze()  # what was there before the first test counts too
    roots: list[Any] = gc.get_objects()
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            roots.append(frame.f_locals)
            frame = frame.f_back
    return [*with_octets(roots)]


def with_octets(roots: list[Any]) -> Iterator[Any]:
    """Yield objects with bytes, from roots that have all that the collector tracks. Search many objects at once.

    A worker that has run other tests holds millions of objects: one by one they would take a minute.
    """
    yield from (each for each in roots if isinstance(each, OCTETS))
    seen: set[int] = set()
    for begin in range(0, len(roots), AT_ONCE):
        level = roots[begin : begin + AT_ONCE]
        while level:
            there = chain(gc.get_referents(*level), (each.base for each in level if type(each) is np.ndarray))
            found = {id(each): each for each in filterfalse(gc.is_tracked, there) if type(each) not in PLAIN}
            level = [each for at, each in found.items() if at not in seen and not isinstance(each, SKIPPED)]
            seen.update(found)
            yield from (each for each in level if isinstance(each, OCTETS))


def octets_in(thing: Any) -> bytes:
    """Return the bytes of arrays and of read buffers, but not those of the tests' code."""
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "iufV":
        return np.ndarray.tobytes(thing)
    return bytes(thing) if isinstance(thing, bytes | bytearray | memoryview) else b""


def in_octets(things: Iterable[Any], marks: Collection[int | str | bytes]) -> set[int | str | bytes]:
    """Return the marks that occur as 8-byte words, integer or float."""
    whole = b"\n".join(filter(None, map(octets_in, things)))
    return {mark for mark in marks if any(each in whole for each in spelt(mark))}


def spelt(mark: int | str | bytes) -> list[bytes]:
    if isinstance(mark, bytes):
        return [mark]
    if isinstance(mark, str):
        return [mark.encode()]
    return [mark.to_bytes(8, "little", signed=True), np.float64(mark).tobytes()]


def numbers_in(thing: Any) -> set[float]:
    """The numbers that one object is, or has in an array or in words of its octets."""
    if isinstance(thing, bool):
        return set()
    if isinstance(thing, int | float):
        return {float(thing)} if abs(thing) < 2**60 else set()
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "iuf":
        return set(thing.ravel().astype(np.float64).tolist())
    if isinstance(thing, bytes | bytearray) and len(thing) < 2**22:
        words = (np.frombuffer(thing[at:], np.int64, (len(thing) - at) // 8) for at in range(8))
        return set(np.concatenate(list(words)).astype(np.float64).tolist()) if len(thing) >= 8 else set()
    return set()


def texts_in(thing: Any) -> str:
    if isinstance(thing, str):
        return thing
    return bytes(thing).decode("latin-1") if isinstance(thing, bytes | bytearray | memoryview) else ""


def found(things: Iterable[Any], numbers: set[float], texts: set[str]) -> tuple[set[float], set[str]]:
    """Return the marks that occur."""
    there: set[float] = set()
    told: set[str] = set()
    for thing in things:
        there |= numbers & numbers_in(thing)
        text = texts_in(thing)
        told |= {mark for mark in texts if mark in text}
    return there, told
