"""Pipeline runs: planning, starting, closing ticks, publishing.

pipeline         `Pipeline`: plan, run, read
options          settings of a run that are not in its file, reports to the curator
session          start of a run: lock, key, store, edits, charges, sinks
resources        lock, store and sinks of a run
edits            differences between a file and its earlier runs
rollback         charges after a rollback of the store
plan/            the plan
ledger/          the ledger
file_run         runs over batch sources
live/            runs over live sources
ticks            open and closed ticks, by the clock
release_run      run of one release, and of several whose ticks are committed together
open_period      open period of a tumbling release
part_runs        run of one statistic of a release
consistency      adjusted numbers of a release
publisher        commit, then publish
published        releases and charges, read from the store
quarantine       dropped records
adhoc/           releases that analysts request
commands/        commands that a run takes between two ticks
intrusion/       announced intrusions
draft/           drafts of pipeline files
format           losses, units, windows and ticks as text
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgauge.runtime.options import Options, Progress
    from streamgauge.runtime.pipeline import Pipeline, RunReport
    from streamgauge.runtime.plan.plan import Plan

__all__ = ["Options", "Pipeline", "Plan", "Progress", "RunReport"]


MODULES = {
    "Options": "options",
    "Progress": "options",
    "Pipeline": "pipeline",
    "Plan": "plan.plan",
    "RunReport": "pipeline",
}


def __getattr__(name: str) -> Any:
    """Import a module on first use.

    A command that only reads the store does not wait for the engine to load.
    """
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
