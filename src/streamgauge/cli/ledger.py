"""`streamgauge ledger`: what was charged, and what is left."""

import json as json_text
import sys

from streamgauge.cli.arguments import AsJson, PipelineFile
from streamgauge.cli.screens import screen


def ledger(file: PipelineFile, json: AsJson = False) -> None:
    """Show the timeline of the budget: every charge, every end, what is left, and all acts with their times.

    A charge is entered before its release draws anything, and an act is never changed or removed. Reads the
    store; needs no key and spends nothing.

    Example: `streamgauge ledger clinic.toml`
    """
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.ledger_tables import show_book
    from streamgauge.pipeline.ledger_json import book_as_json
    from streamgauge.pipeline.reading import read_book

    book = read_book(checked.folder, checked.stream)
    if json:
        json_text.dump(book_as_json(book, checked), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        show_book(screen(), book, checked)
