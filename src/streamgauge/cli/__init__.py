"""The command line: one file per command.

**Promise.** Standard output and exit codes are public, and depend on declarations, clocks and releases alone.
What is wrong is one line on standard error. Counters of a run are the curator's: they go to the terminal or
to `curator.log`.
"""

import sys
from io import TextIOWrapper


def main() -> None:
    """What `streamgauge` runs. A terminal that knows few letters gets question marks, not an error."""
    from streamgauge.cli.descriptors import occupy

    occupy()
    from streamgauge.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")

    app(prog_name="streamgauge")
