"""Worker process: answers tasks by the embedded engine until its input ends.

Nothing of a record leaves it but sums. It writes no message to standard error.
"""

import sys
from contextlib import suppress

from streamgauge.engines.processes.tasks import ScanTask, read_message, redact_failure, write_message


def main() -> None:
    """Answer tasks until the engine ends."""
    with suppress(EOFError, BrokenPipeError):
        answer_tasks()


def answer_tasks() -> None:
    """Answer one task after another; raise EOFError at the end of the input."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.path[:] = read_message(source)
    from streamgauge.engines.duckdb.engine import DuckEngine

    request = read_message(source)
    with DuckEngine(
        request.stream,
        request.lookups,
        request.measures,
        secret=request.secret,
        memory=request.memory,
        threads=1,
        count_columns=request.count_columns,
    ) as engine:
        while True:
            task: ScanTask = read_message(source)
            try:
                answer = list(
                    engine.scan_share(task.ranges, task.first, task.last, share=task.share, shares=task.shares)
                )
            except Exception as error:  # the engine raises it again, without data
                write_message(sink, redact_failure(error))
            else:
                write_message(sink, answer)
