"""Refusals of a command batch by the ledger, before the run opens with the batch.

Ends come first, as in the run, since they free budget. Then come added releases, one after the other. The
ledger is that of the store, which readers see later, so a client may request what is done already. A repeated
end is no refusal, since its first reply may be lost.

**Privacy.** Refusals follow from declarations, the ledger and the clock.
"""

from collections.abc import Callable, Collection, Sequence

from streamgauge.config.settings import PipelineFile
from streamgauge.runtime.adhoc.planning import find_batch_refusals
from streamgauge.runtime.adhoc.releases import compute_last_tick, find_end_refusals
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.published import read_opened_tick
from streamgauge.runtime.ticks import next_start_tick
from streamgauge.server.commands import Command, Refusals


def validate_commands(
    file: PipelineFile,
    commands: Sequence[Command],
    ledger_log: LedgerLog,
    *,
    find_reply_time: Callable[[int], int],
    published_at: int,
    finished: Collection[str],
) -> list[Refusals]:
    """Return the refusals of each command: reasons, an empty tuple, or None if it is done already.

    An end is visible to readers at its reply time. Added releases become visible together at
    `published_at`.
    """
    before = {
        name
        for name, entry in ledger_log.latest_releases().items()
        if entry.requested_by and entry.end_tick is not None
    }
    ends: dict[Command, Refusals] = {
        command: _apply_end(file, command, ledger_log, find_reply_time(command.requested_at))
        for command in commands
        if command.end_names
    }
    ends |= {command: None for command in ends if before.issuperset(command.end_names)}
    requested = [each for command in commands for each in command.releases]
    asks = iter(find_batch_refusals(file, requested, ledger_log, next_start_tick(file.stream, published_at), finished))
    return [ends[command] if command.end_names else next(asks) for command in commands]


def _apply_end(file: PipelineFile, command: Command, ledger_log: LedgerLog, moment: int) -> tuple[str, ...]:
    """End releases in a copy of the ledger; return the reasons against it."""
    found: list[str] = []
    for name in command.end_names:
        entry = ledger_log.latest_releases().get(name)
        if entry is not None and entry.requested_by and entry.end_tick is not None:
            continue  # by another command of this batch
        reasons = [f"{file.path.name}: {reason}" for reason in find_end_refusals(name, ledger_log)]
        if entry is not None and not reasons:
            opened = read_opened_tick(file)
            ledger_log.end(entry.name, compute_last_tick(file.stream, entry, moment, 0, opened), is_draining=True)
        found += reasons
    return tuple(found)
