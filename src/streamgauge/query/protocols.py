"""The sides of a run that can be changed: where events come from, and where releases go."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from streamgauge.query.blocks import Block, FilePart
from streamgauge.query.source_schema import SourceSchema

if TYPE_CHECKING:
    from streamgauge.query.released import Released


class Finished(Protocol):
    """A source that is all there."""

    @property
    def files(self) -> tuple[FilePart, ...]: ...

    def fingerprint(self) -> str:
        """Changes if a file does."""
        ...

    def schemas(self) -> Iterable[SourceSchema]:
        """Return the columns of each file that has a header or a schema."""
        ...


class Live(Protocol):
    """A source that goes on."""

    @property
    def header(self) -> tuple[str, ...] | None: ...

    def schemas(self) -> Iterable[SourceSchema]:
        """Return the columns of each file that is there now and has a header or a schema."""
        ...

    @property
    def replayable(self) -> bool:
        """Whether what was read can be read again, from a position that was told."""
        ...

    @property
    def caught_up(self) -> bool:
        """Whether all was read that was there when `read` was last called."""
        ...

    @property
    def pressing(self) -> bool:
        """Whether somebody waits for what is not read yet to be read and committed."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing will ever come again."""
        ...

    def read(self) -> Block | None:
        """What is there now, at most 64 MiB of it, or nothing."""
        ...

    def position(self) -> bytes:
        """Where the blocks that were read end."""
        ...

    def resume(self, position: bytes | None) -> None:
        """A run begins that has all up to a position, if it has anything, and nothing after it."""
        ...

    def committed(self, closed: int) -> None:
        """All that was read is on disk, and all ticks that end by `closed`, in microseconds, are closed."""
        ...

    def rest(self) -> None:
        """Nothing is read until the next `resume`: whoever waits for that is told."""
        ...

    def close(self) -> None: ...


class Sink(Protocol):
    """Where releases go, each tick once and whole.

    The store remembers what `write` returned. On start `resume` is given that, and tells the newest
    (tick, chain) that was found at all, even beyond; the next write undoes whatever was written after it.
    """

    @property
    def name(self) -> str: ...

    def resume(self, position: bytes | None) -> tuple[int, str] | None: ...

    def astray(self, knows: Callable[[tuple[int, str]], bool]) -> str | None:
        """Why what the position covers is not what a history wrote that `knows` its traces; or nothing."""
        ...

    def write(self, releases: Sequence["Released"], tick: int, chain: str) -> bytes:
        """Writes, makes it durable, and tells the position: `tick` is the last tick written, `chain` its."""
        ...

    def close(self) -> None: ...
