"""All that a run holds, searched for marks: objects, arrays, texts, numbers, and the frames at work."""

import gc
import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

SKIPPED = (type, ModuleType, FunctionType, BuiltinFunctionType)


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
    """Which of the marks are there."""
    there: set[float] = set()
    told: set[str] = set()
    for thing in things:
        there |= numbers & numbers_in(thing)
        text = texts_in(thing)
        told |= {mark for mark in texts if mark in text}
    return there, told
