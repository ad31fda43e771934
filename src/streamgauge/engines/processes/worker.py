"""Worker process: answers tasks by the embedded engine until its input ends.

    python -P -m streamgauge.engines.processes.worker

Nothing of a record leaves it but sums. It writes no message to standard error.
"""

import sys

from streamgauge.engines.processes.tasks import ScanTask, read_message, redact_failure, write_message


def main() -> None:
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


if __name__ == "__main__":
    try:
        main()
    except (EOFError, BrokenPipeError):
        sys.exit(0)
