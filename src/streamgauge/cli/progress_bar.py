"""The bar on a terminal: how far a run is, how fast, and at what price."""

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streamgauge.cli.screens import aside, printable
from streamgauge.pipeline.options import Progress as Seen
from streamgauge.pipeline.reading import read_book
from streamgauge.pipeline.words import counted, loss_text
from streamgauge.query.settings import PipelineFile


class Bar:
    """Ticks against their number, where there is one; else a pulse."""

    def __init__(self, file: PipelineFile) -> None:
        self.file = file
        self.console = aside()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[ticks]}", markup=False),
            TextColumn("{task.fields[events]}", style="cyan", markup=False),
            TextColumn("{task.fields[budget]}", style="green", markup=False),
            TimeElapsedColumn(),
            console=self.console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        name, ticks = printable(file.path.name), file.stream.ticks
        self._task = self._bar.add_task(
            name, total=ticks, ticks=f"reading {printable(file.stream.source)}", events="", budget=""
        )
        self._budget = ""

    def start(self) -> None:
        self._bar.start()

    def stop(self) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def stopping(self) -> None:
        """Says so in the bar's own line."""
        self._bar.update(self._task, description="stopping")

    def seen(self, progress: Seen) -> None:
        self._budget = self._budget or self._charged()
        self._bar.update(
            self._task,
            completed=progress.tick,
            ticks=ticks_text(progress),
            events=self._speed(progress),
            budget=self._budget,
        )

    def _speed(self, progress: Seen) -> str:
        if not progress.counts:
            return ""
        elapsed = self._bar.tasks[0].elapsed or 0.0
        speed = f", {progress.events / elapsed:,.0f}/s" if elapsed > 0 else ""
        dropped = sum(progress.dropped.values())
        return counted(progress.events, "record") + speed + (f", {dropped:,} dropped" if dropped else "")

    def _charged(self) -> str:
        """What was charged before the first tick: it does not change while a run goes on."""
        ledger = read_book(self.file.folder, self.file.stream).ledger
        if ledger is None:
            return ""
        return f"{loss_text(ledger.spent())} of {loss_text(ledger.budget, named=False)}"


def ticks_text(progress: Seen) -> str:
    """
    >>> ticks_text(Seen(512, 2160, 0, {})), ticks_text(Seen(7, None, 0, {}))
    ('tick 512 of 2,160', 'tick 7')
    >>> ticks_text(Seen(4096, None, 0, {}, due=454000))
    'catching up: tick 4,096 of 454,000'
    """
    far = f"{progress.behind}tick {progress.tick:,}"
    return far if progress.until is None else f"{far} of {progress.until:,}"
