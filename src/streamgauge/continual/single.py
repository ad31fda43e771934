"""What may exist once only: a state that is never copied, forked, or gone on with after a failure.

A state and its source of chance are a single thread of releases: two copies would draw two noises for one
sum. So what holds them cannot be copied or pickled and does not go on in a forked child; threads that share
it take turns, and what an act calls cannot act on it again; and an act that fails part of the way leaves it
failed, since noise may have been drawn that the state does not know. `save` and `load` move it.

What is let go of is overwritten first: by `forget`, and where an act failed. NumPy keeps small arrays that
were freed as they are, for good; beside a run that goes on, what its registers once were is a second look.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from threading import RLock
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

S = TypeVar("S", bound=Any)


class InsideStep(RuntimeError):  # noqa: N818 - named for what happened
    """Something that a step calls asked for the run whose step it is."""


class RunFailed(RuntimeError):  # noqa: N818 - named for what happened
    """An earlier step failed part of the way, so that this run can make no promise."""


def forget(state: Any) -> None:
    """Overwrites the arrays of a state, a dataclass of arrays, of runs and of such dataclasses."""
    if isinstance(state, np.ndarray):
        state.fill(0)
    elif isinstance(state, Single):
        state.forget()
    else:
        for each in fields(state) if is_dataclass(state) else ():
            forget(getattr(state, each.name))


class Single(Generic[S]):
    """Keeps one state for one process: `_alone` to look at it, `_taken` to move it on."""

    def __init__(self, state: S) -> None:
        self._state: S | None = state
        self._process = os.getpid()
        self._turn, self._inside = RLock(), False  # whether an act is under way

    def _same_process(self) -> None:
        """Asked before the lock, which another thread may have held when the child was forked."""
        if self._process != os.getpid():
            raise RunFailed("run must go on in the process that began it, got a forked child")

    @contextmanager
    def _alone(self) -> Iterator[S]:
        """The state, while no other thread has it; what happens inside must not draw."""
        self._same_process()
        with self._turn:
            self._refuse_inside()
            if self._state is None:
                raise RunFailed("run must be whole to go on, got one whose last step failed")
            try:
                self._inside = True
                yield self._state
            finally:
                self._inside = False

    def _refuse_inside(self) -> None:
        """Asked under the lock: so the act is this thread's own, and called what asks."""
        if self._inside:
            raise InsideStep("run must be asked when its step is over, got a call from inside the step")

    @contextmanager
    def _taken(self, check: Callable[[S], None] = lambda state: None) -> Iterator[S]:
        """The state, taken away until the act has succeeded; what `check` refuses changes nothing."""
        with self._alone() as state:
            check(state)
            self._state = None
            try:
                yield state
            except BaseException:
                forget(state)
                raise
            self._state = state

    def forget(self) -> None:
        """Overwrites all that it holds: it takes no step more."""
        self._same_process()
        with self._turn:
            self._refuse_inside()
            state, self._state = self._state, None
            forget(state)

    def __copy__(self) -> NoReturn:
        raise TypeError("a run must not be copied: two copies would draw two noises for one sum")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run must not be pickled: use save() and load()")
