"""Intervals, timeouts and sizes of the server that no pipeline file sets.

The defaults suit every file. Tests and embedding programs pass their own to `Runner` and `serve_app`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Constants of one server; the runner has them, and its routes read them there."""

    # Commands
    align_commands: bool = True  # False: commands are applied when they arrive, not once in each publish_delay
    max_waiting_plans: int = 24  # requests that may wait for the planning thread

    # Posted events
    commit_seconds: float = 30.0  # before the reply asks the client to retry
    shutdown_commit_seconds: float = 2.0  # the same, once the server stops: less than replies are given then
    state_poll_seconds: float = 0.5  # between two looks at the state of the server

    # Live readers
    max_buffered_events: int = 1024
    max_buffered_bytes: int = 2**25
    rows_per_read: int = 16  # rows that are read together
    max_event_groups: int = 1000  # events of wider releases have their address only
    heartbeat_seconds: float = 15.0  # without an event
    rights_poll_seconds: float = 2.0  # between two checks of a reader's rights
    send_timeout_seconds: float = 10.0
    max_lag_events: int = 1000  # published during one send
    max_write_events: int = 64  # of one write

    # Pages
    max_page_bytes: int = 2**25  # of packed releases that are read for one page
    max_page_ticks: int = 2000  # of one page, however narrow they are: other reads wait for it
    max_ledger_page_bytes: int = 2**20  # of the entries of a page, or one that is longer

    # Downloads
    block_cells: int = 4096  # rows times measures of a block
    block_ticks: int = 128  # each of which is unpacked and encoded by itself
    block_bytes: int = 2**21  # of packed releases that are read for a block
    piece_bytes: int = 2**16  # of one send
    stall_seconds: float = 30.0  # that one send may last

    # Connections
    head_timeout_seconds: float = 10.0  # for the head of a request, or an unread body
    write_timeout_seconds: float = 10.0  # for a reply that stands still


DEFAULT_TUNING = Tuning()
