"""A stop is heard in the middle of a query: whoever hears it interrupts the database.

Promise
    After a stop the work inside ends with Stopped, as soon as DuckDB looks up from what it does: after some
    hundred thousand rows. Nothing calls the database when the work is over.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread

from streamgauge.engines.connection import Connection
from streamgauge.query.stopped import Stopped, check

PAUSE = 0.02  # seconds


@contextmanager
def ended_by(stop: Flag | None, connection: Connection) -> Iterator[None]:
    """Interrupts what is run inside, again and again, from when a stop is asked for."""
    check(stop)
    if stop is None:
        yield
        return
    over = Flag()
    listener = Thread(target=_listen, args=(stop, over, connection), daemon=True)
    listener.start()
    try:
        yield
    except KeyboardInterrupt:
        if not stop.is_set():
            raise
        raise Stopped from None
    finally:
        over.set()
        listener.join()


def _listen(stop: Flag, over: Flag, connection: Connection) -> None:
    while not over.wait(PAUSE):
        if stop.is_set():
            connection.interrupt()
