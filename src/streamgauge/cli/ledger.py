"""`streamgauge ledger`: charges and the remaining budget."""

from streamgauge.cli.arguments import JsonOutput, PipelinePath
from streamgauge.cli.console import print_json, stdout


def ledger(file: PipelinePath, json: JsonOutput = False) -> None:
    """Show the timeline of the budget: charges, ends, the rest, and all entries with their times.

    A charge is entered before its release draws noise, and an entry is never changed or removed. It reads the
    store, needs no key and spends nothing.

    Example: `streamgauge ledger clinic.toml`
    """
    from streamgauge.config.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.views.ledger import show_ledger
    from streamgauge.runtime.ledger.render import ledger_log_as_json
    from streamgauge.runtime.published import read_ledger_log

    book = read_ledger_log(checked)
    if json:
        print_json(ledger_log_as_json(book, checked))
    else:
        show_ledger(stdout(), book, checked)
