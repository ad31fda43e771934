"""The command line: one module per command.

    app            all commands
    arguments      arguments that several commands share
    console        standard output and standard error
    errors         errors as one line and an exit code
    init           draft a pipeline file
    plan           costs and errors before spending
    run            run a pipeline
    serve          run with HTTP API and live page
    results        releases, plots, exports and the ledger of a store
    quarantine     dropped records
    intrude        announced intrusions
    audit          attack a claim
    key            the curator's key
    token          tokens of the server
    backup         copies of a store
    runs/          runs in a terminal
    views/         tables and files of results
    demo/          the demos

**Promise.** Standard output and exit codes are public. They depend on declarations, clocks and releases alone.
An error is one line on standard error. Counters of a run are for the curator: they go to the terminal or to
`curator.log`.

A program may be started without descriptors 0, 1 or 2 (`>&-`). No file that is opened later becomes one of
them, so nothing that is printed can end up in a store. Reads and writes on a closed one fail. Text for a closed
standard error is lost.
"""

import os
import sys
from io import TextIOWrapper

PLACEHOLDER_FLAGS = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}


def main() -> None:
    """Run the command line. A terminal with few letters gets question marks instead of an error."""
    occupy_descriptors()
    from streamgauge.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")

    app(prog_name="streamgauge")


def occupy_descriptors() -> None:
    """Open placeholders for missing descriptors, before any other file is opened."""
    for number, flags in PLACEHOLDER_FLAGS.items():
        if not is_open_descriptor(number):
            os.set_inheritable(os.open(os.devnull, flags), True)  # which has the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def is_open_descriptor(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
