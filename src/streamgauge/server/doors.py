"""Doors: how many connections are open, so that no number of clients takes from the run what it writes with.

    descriptors of the process   RESERVE for the run, its readers and its logs; the rest for connections
    connections                  `most` in all, `each` of one address

**Promise.** Whoever opens connections and asks nothing, or half a question, keeps nobody out: where there are
too many, in all or of one address, the one that has been without a whole request for longest gives way to the
one that comes. Only where all have a request at work is the one that comes closed. A proxy that is believed
may have them all.
"""

import resource
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from streamgauge.server.addresses import Networks, neighbourhood

RESERVE = 320  # descriptors: a reader of the store in each thread of the pool, a burst of AT_ONCE, the run
LARGEST = 2**16  # descriptors, whatever the machine allows
AT_ONCE = 64  # connections that are accepted before they are counted
BESIDES = 1000  # connections beside those that wait for releases


class Line(Protocol):
    """A connection."""

    def give_way(self) -> None: ...


class Doors:
    """Who is in. Belongs to one event loop."""

    def __init__(self, most: int, each: int, proxies: Collection[str] = ()) -> None:
        self.most, self.each = most, each
        self._proxies = Networks(proxies)
        self._open: dict[Line, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[Line, None] = {}  # without a whole request, the longest first
        self._waiting_of: dict[str, dict[Line, None]] = {}

    @property
    def open(self) -> int:
        return len(self._open)

    def enter(self, line: Line, host: str) -> bool:
        """Whether a connection may stay."""
        address = neighbourhood(host)
        if host not in self._proxies and self._counts[address] >= self.each:
            room = self._made(self._waiting_of.get(address, {}))
        else:
            room = len(self._open) < self.most or self._made(self._waiting)
        if room:
            self._open[line] = address
            self._counts[address] += 1
        return room

    def waits(self, line: Line) -> None:
        """No request of it is whole."""
        if line in self._open and line not in self._waiting:
            self._waiting[line] = None
            self._waiting_of.setdefault(self._open[line], {})[line] = None

    def works(self, line: Line) -> None:
        """It is being answered."""
        if line in self._waiting:
            del self._waiting[line]
            own = self._waiting_of[self._open[line]]
            del own[line]
            if not own:
                del self._waiting_of[self._open[line]]

    def leave(self, line: Line) -> None:
        self.works(line)
        address = self._open.pop(line, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]

    def _made(self, waiting: dict[Line, None]) -> bool:
        """Whether one could be sent away."""
        longest = next(iter(waiting), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.give_way()
        return True


def doors_of(wanted: int, proxies: Collection[str] = ()) -> Doors:
    """As many as are wanted, where the machine lets the process have them."""
    files = more_files()
    most = min(wanted, max(files - RESERVE, files // 4))
    return Doors(most, max(1, most // 2), proxies)


def more_files() -> int:
    """As many descriptors as may be had; tells how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unbounded = resource.RLIM_INFINITY
    wanted = LARGEST if hard == unbounded else min(LARGEST, hard)
    if soft != unbounded and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return LARGEST if soft == unbounded else soft
