"""A thread that feeds a demo's server, and lives as long as the demo."""

from abc import ABC, abstractmethod
from threading import Event as Flag
from threading import Thread

PATIENCE = 10.0


class Feeding(ABC):
    """What is done until it is stopped is `_work`, which looks at `_stop`."""

    def __init__(self, name: str) -> None:
        self._stop = Flag()
        self._thread = Thread(target=self._work, name=name, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    @abstractmethod
    def _work(self) -> None: ...
