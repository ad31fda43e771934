"""`streamgauge audit`: a claim, attacked."""

import json as json_text
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamgauge.cli.arguments import AsJson, switch
from streamgauge.cli.failures import CONDEMNED, BadArgument, bad_argument

if TYPE_CHECKING:
    from streamgauge.audit.report import Report
    from streamgauge.cli.audit_progress import Waiting

RUNS, ALL_RUNS, QUICK_RUNS, QUICK_PIPELINE = 10**6, 200_000, 20_000, 6_000
MOST_TICKS, MOST_RUN = 4096, 64  # that are computed, and run

What = Annotated[
    str | None,
    typer.Argument(metavar="[WHAT]", help="A pipeline file, or the name of a mechanism or statistic."),
]
Ticks = Annotated[
    int | None,
    typer.Option(
        "--ticks",
        min=1,
        max=MOST_TICKS,
        metavar="N",
        help="Ticks of the stream: of up to 4096 the loss is computed, up to 64 are run.",
    ),
]
Epsilon = Annotated[str | None, typer.Option("--epsilon", metavar="E", help="The claim, by name only.")]
Rho = Annotated[str | None, typer.Option("--rho", metavar="R", help="The claim in zCDP, by name only.")]
Delta = Annotated[
    str | None, typer.Option("--delta", metavar="D", help="The delta of --epsilon, by name only.")
]
UnitText = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="UNIT",
        help="event, replace, tick:EVENTS, w_event:TICKS or user:EVENTS,TICKS; by name only.",
    ),
]
Runs = Annotated[
    int | None, typer.Option("--runs", min=100, metavar="N", help="Runs of each neighbour, for each subject.")
]
Confidence = Annotated[
    float, typer.Option("--confidence", metavar="P", help="With which all bounds hold together.")
]
Everything = Annotated[bool, switch("--all", help="The whole package; so does no WHAT at all.")]
Mutants = Annotated[bool, switch("--mutants", help="The broken twins, by which the audit is judged.")]
Quick = Annotated[bool, switch("--quick", help="Fewer runs: seconds for minutes, and looser bounds.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="PAGE", help="Write a page with a plot, too.")]


def audit(  # noqa: PLR0917 - the options of a command
    what: What = None,
    ticks: Ticks = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    unit: UnitText = None,
    runs: Runs = None,
    confidence: Confidence = 0.999,
    everything: Everything = False,
    mutants: Mutants = False,
    quick: Quick = False,
    json: AsJson = False,
    html: Html = None,
) -> None:
    """Attack a claim, and report the loss that was measured beside the loss that was claimed.

    A pipeline file is run as it is written, many times, on neighbouring inputs made of its declarations: what
    its readers see is attacked. It touches nothing of the pipeline's: not its source, store, key nor sinks,
    and nothing is charged. A mechanism or statistic is attacked by name; without a name, all of the package
    are, and the broken twins by which the audit itself is judged.

    The table has what was claimed, what was computed (exact) and what was measured: a bound from below that
    holds with the confidence. Exit code 0: every claim holds. 3: a claim was condemned, or a broken twin was
    not.

    Examples: `streamgauge audit clinic.toml`, `streamgauge audit Binary --epsilon 0.5`

    Example: `streamgauge audit --quick --html audit.html`
    """
    if not 0 < confidence < 1:
        bad_argument("--confidence", "between 0 and 1", confidence)
    if what is not None and (everything or mutants):
        bad_argument("--all and --mutants", "given without a name or file", what)
    if what is not None and Path(what).is_dir():
        bad_argument("WHAT", "a pipeline file or a name", f"the folder {what}")
    is_file = what is not None and (what.endswith(".toml") or Path(what).exists())
    if is_file and ticks is not None and ticks > MOST_RUN:
        bad_argument("--ticks", f"at most {MOST_RUN} for a pipeline file, all of whose ticks are run", ticks)
    if html is not None and not html.absolute().parent.is_dir():
        bad_argument("--html", "in a folder that is there", html)
    named = {"--epsilon": epsilon, "--rho": rho, "--delta": delta, "--unit": unit}
    for option, value in named.items():
        if value is not None and (what is None or is_file):
            bad_argument(option, "given with the name of a mechanism or statistic", value)
    from streamgauge.cli.audit_progress import Waiting

    with Waiting() as waiting:
        if what is not None and is_file:
            report = of_file(
                Path(what), ticks, runs or (QUICK_PIPELINE if quick else None), confidence, waiting
            )
        elif what is not None:
            count = runs or (QUICK_RUNS if quick else RUNS)
            report = of_name(what, (ticks, epsilon, rho, delta, unit), count, confidence, waiting)
        else:
            count = runs or (QUICK_RUNS if quick else ALL_RUNS)
            report = of_package(count, confidence, waiting, quick=quick, twins_only=mutants)
    told(report, as_json=json, html=html)
    if not report.clean:
        raise typer.Exit(CONDEMNED)


def of_file(
    path: Path, ticks: int | None, runs: int | None, confidence: float, waiting: "Waiting"
) -> "Report":
    from time import perf_counter

    from streamgauge.audit.pipelines import audit_pipeline
    from streamgauge.audit.report import report_of
    from streamgauge.query.pipeline_file import read_pipeline

    begun, file = perf_counter(), read_pipeline(path)
    verdicts = audit_pipeline(file, ticks=ticks, runs=runs, confidence=confidence, watch=waiting.for_subject)
    return report_of(verdicts, confidence, perf_counter() - begun)


def of_name(
    name: str,
    asked: tuple[int | None, str | None, str | None, str | None, str | None],
    runs: int,
    confidence: float,
    waiting: "Waiting",
) -> "Report":
    from streamgauge.audit.catalogue import entries, names
    from streamgauge.audit.report import report_on
    from streamgauge.audit.tick_sets import TooManyPatterns
    from streamgauge.cli.audit_claims import asked_for, near

    known = {each.casefold(): each for each in names()}
    if name.casefold() not in known:
        rule = f"a pipeline file that is there, or one of {', '.join(known.values())}"
        bad_argument("WHAT", rule, f"{name}{near(name, list(known.values()))}")
    found = list(entries(known[name.casefold()], asked_for(*asked)))
    if not found:
        bad_argument("--epsilon, --rho and --unit", f"a claim that {name} can make", "another")
    try:
        return report_on(found, runs, confidence=confidence, watch=waiting.for_all)
    except TooManyPatterns as refusal:
        raise BadArgument(f"--ticks and --unit: {refusal}") from None


def of_package(
    runs: int, confidence: float, waiting: "Waiting", *, quick: bool, twins_only: bool
) -> "Report":
    """Half of the doubt is for the demo's own pipeline, if that is audited too."""
    from streamgauge.audit.catalogue import entries, twins
    from streamgauge.audit.report import report_on, share

    if twins_only:
        return report_on(twins(), runs, confidence=confidence, watch=waiting.for_all)
    half = share(confidence, 2)
    demo = demo_report(QUICK_PIPELINE if quick else None, half, waiting)
    found = [*entries(), *twins()]
    report = report_on(found, runs, confidence=half, watch=waiting.for_all)
    return demo.joined(report, confidence)


def demo_report(runs: int | None, confidence: float, waiting: "Waiting") -> "Report":
    """The pipeline of `streamgauge demo`, end to end."""
    from tempfile import TemporaryDirectory

    from streamgauge.cli.clinic import PIPELINE

    with TemporaryDirectory() as folder:
        path = Path(folder) / "clinic.toml"
        path.write_text(PIPELINE)
        return of_file(path, None, runs, confidence, waiting)


def told(report: "Report", *, as_json: bool, html: Path | None) -> None:
    from streamgauge.cli.audit_tables import show_report
    from streamgauge.cli.screens import aside, screen

    if html is not None:
        from streamgauge.audit.page import page

        html.write_text(page(report), encoding="utf-8")
    if as_json:
        json_text.dump(report.as_json(), sys.stdout, indent=2)
        sys.stdout.write("\n")
        aside().print(report.summary, soft_wrap=True)
    else:
        show_report(screen(), report)
