"""Whether a pan-private run was set down, or lost: runs that were lost begin their registers anew.

    set down: marked in the sealed state -> taken up: the mark goes, before anything is read -> set down again
    no mark: the run before was lost (a crash, a fault, a machine that was seized) -> begun anew

Privacy
    A run that was lost had taken in events that no commit has. Who looked at its memory, once and
    unannounced, saw them under the draws of the registers that are committed. If those went on, an event
    would show in what was seen, and its absence in what is released later under the same draws: up to twice
    the claim. So they go, for what was released and fresh draws (`begin_anew` of `continual.tree` and
    `continual.window_sum`), which nobody has seen. The mark is sealed with the state, and is away in every
    commit of a run but its last.

    A copy that has the mark would go on with draws that a later run had, whose memory may have been seen. So
    both commits, the one that sets the mark and the one that takes it away, are entries of the history, which
    the witness knows before anything is read: a copy from before either is refused, also within a tick.
"""

from collections.abc import Mapping, Sequence

from streamgauge.pipeline.opening import Opened
from streamgauge.pipeline.release_run import ReleaseRun, state_name

SET_DOWN = "set down"  # a part of the state
MARKED: Mapping[str, bytes] = {SET_DOWN: b""}


def take_up(opened: Opened) -> None:
    """Before a run reads anything: from now on it is lost, unless it is set down."""
    begin_lost_anew(opened.runs, opened.state)
    if SET_DOWN in opened.state:
        opened.publisher.commit(state={SET_DOWN: None}, entered=True)


def begin_lost_anew(runs: Sequence[ReleaseRun], state: Mapping[str, bytes]) -> None:
    """Of runs that were loaded from a state that nobody set down; those that are new have fresh draws."""
    lost = runs if SET_DOWN not in state else ()
    for run in lost:
        if state_name(run.name, 0) in state:
            run.begin_anew()
