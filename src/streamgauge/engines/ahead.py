"""Blocks, read one ahead by a thread of its own, so that reading and counting go on side by side."""

from collections.abc import Generator, Iterable
from queue import Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterable[T]) -> Generator[T, None, None]:
    """The same items; the next one is being made while one is used. Failures come where they happened."""
    ready: Queue[tuple[T] | BaseException | None] = Queue(1)
    stopped = Event()

    def read() -> None:
        last: BaseException | None = None
        try:
            for item in items:
                ready.put((item,))
                if stopped.is_set():
                    return
        except BaseException as failure:  # raised again by the one who waits
            last = failure
        ready.put(last)

    reader = Thread(target=read, daemon=True)
    reader.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        stopped.set()
        while reader.is_alive():
            _let_go(ready, reader)


def _let_go(ready: "Queue[tuple[T] | BaseException | None]", reader: Thread) -> None:
    """Makes room for a reader that waits to hand over."""
    if not ready.empty():
        ready.get_nowait()
    reader.join(0.01)
