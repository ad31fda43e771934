"""`streamgauge quarantine`: which records were dropped, and by which rule."""

import sys
from collections import Counter
from typing import Annotated

from streamgauge.cli.arguments import PipelineFile, switch
from streamgauge.cli.failures import bad_argument
from streamgauge.cli.screens import add_row, aside, grid, printable

SHOWN = 20  # records of a rule

Show = Annotated[bool, switch("--show", help="Read the source again and print the records themselves.")]


def quarantine(file: PipelineFile, show: Show = False) -> None:
    """Show which records were not readable: how many by rule, where they lie, how long they are.

    Their text is never stored; --show reads the source again. All of it is private, so it is printed to a
    terminal only (on standard error).

    Example: `streamgauge quarantine clinic.toml --show`
    """
    if not sys.stderr.isatty():
        bad_argument("standard error", "a terminal, since what was dropped is private", "a pipe or a file")
    from streamgauge.cli.reread import reread
    from streamgauge.pipeline.pipeline import Pipeline
    from streamgauge.pipeline.quarantine import UNCOUNTED

    pipeline, console = Pipeline.from_file(file), aside()
    if pipeline.file.stream.pan_private:
        console.print(UNCOUNTED, soft_wrap=True)
        return
    dropped = sorted(pipeline.quarantine(), key=lambda each: (each.rule, each.offset))
    if not dropped:
        console.print("no record was dropped as unreadable")
    for rule, count in Counter(each.rule for each in dropped).items():
        records = [each for each in dropped if each.rule == rule][:SHOWN]
        table = grid("byte", "length", f"{rule}: {count:,}", right=("byte", "length"))
        texts = reread(pipeline.file, records) if show else [b""] * len(records)
        for record, text in zip(records, texts, strict=True):
            add_row(
                table, f"{record.offset:,}", f"{record.length:,}", printable(text.decode(errors="replace"))
            )
        console.print(table)
        if count > len(records):
            console.print(f"and {count - len(records):,} more")
