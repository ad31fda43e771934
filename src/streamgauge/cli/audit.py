"""`streamgauge audit`: attack a claim."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamgauge.cli.arguments import JsonOutput, build_switch, read_pipeline
from streamgauge.cli.errors import EXIT_CLAIM_BROKEN, BadArgumentError, raise_bad_argument

if TYPE_CHECKING:
    from streamgauge.audit.catalogue import CatalogueEntry
    from streamgauge.audit.report import AuditReport
    from streamgauge.cli.views.audit import AuditProgress

DEFAULT_RUNS, ALL_RUNS, QUICK_RUNS, QUICK_PIPELINE_RUNS = 10**6, 200_000, 20_000, 6_000
MAX_TICKS, MAX_RUN_TICKS = 4096, 64  # that are computed, and run

Target = Annotated[
    str | None, typer.Argument(metavar="[TARGET]", help="A pipeline file, or the name of a mechanism or statistic.")
]
Ticks = Annotated[
    int | None,
    typer.Option(
        "--ticks",
        min=1,
        max=MAX_TICKS,
        metavar="N",
        help="Ticks of the stream; up to 4096 are computed, up to 64 are run.",
    ),
]
Epsilon = Annotated[str | None, typer.Option("--epsilon", metavar="E", help="The claim, by name only.")]
Rho = Annotated[str | None, typer.Option("--rho", metavar="R", help="The claim in zCDP, by name only.")]
Delta = Annotated[str | None, typer.Option("--delta", metavar="D", help="The delta of --epsilon, by name only.")]
UnitText = Annotated[
    str | None,
    typer.Option(
        "--unit", metavar="UNIT", help="event, replace, tick:EVENTS, w_event:TICKS or user:EVENTS,TICKS; by name only."
    ),
]
Runs = Annotated[
    int | None, typer.Option("--runs", min=100, metavar="N", help="Runs of each neighbour, for each subject.")
]
Confidence = Annotated[float, typer.Option("--confidence", metavar="P", help="Joint confidence of all bounds.")]
Everything = Annotated[bool, build_switch("--all", help="Audit the whole package; the default without TARGET.")]
Mutants = Annotated[bool, build_switch("--mutants", help="Audit the broken twins, which test the audit itself.")]
Quick = Annotated[
    bool,
    build_switch("--quick", help="Fewer runs, looser bounds; of a file, attack only what is not computed exactly."),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="PAGE", help="Also write a page with a plot.")]


def audit(  # noqa: PLR0917 - the options of a command
    target: Target = None,
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
    json: JsonOutput = False,
    html: Html = None,
) -> None:
    """Attack a claim, and report the measured loss beside the claimed loss.

    A pipeline file is run many times on neighbouring inputs built from its declarations, and its published
    releases are attacked. Its source, store, key and sinks are not used, and nothing is charged. A mechanism or
    statistic is attacked by name. Without a name, all of the package are, and the broken twins that test the
    audit itself.

    The table has the claimed loss, the computed loss (exact) and the measured loss, a lower bound at the given
    confidence. Exit code 0: every claim holds. Exit code 3: a claim is broken, or a broken twin was not found.

    Examples: `streamgauge audit clinic.toml`, `streamgauge audit Binary --epsilon 0.5`

    Example: `streamgauge audit --quick --html audit.html`. Reads the pipeline file only; writes the page of
    --html.
    """
    if not 0 < confidence < 1:
        raise_bad_argument("--confidence", "between 0 and 1", confidence)
    if target is not None and (everything or mutants):
        raise_bad_argument("--all and --mutants", "given without a name or file", target)
    if target is not None and Path(target).is_dir():
        raise_bad_argument("TARGET", "a pipeline file or a name", f"the folder {target}")
    is_file = target is not None and (target.endswith(".toml") or Path(target).exists())
    if is_file and ticks is not None and ticks > MAX_RUN_TICKS:
        raise_bad_argument("--ticks", f"at most {MAX_RUN_TICKS} for a pipeline file, all of whose ticks are run", ticks)
    if html is not None and not html.absolute().parent.is_dir():
        raise_bad_argument("--html", "in a folder that is there", html)
    named = {"--epsilon": epsilon, "--rho": rho, "--delta": delta, "--unit": unit}
    for option, value in named.items():
        if value is not None and (target is None or is_file):
            raise_bad_argument(option, "given with the name of a mechanism or statistic", value)
    from streamgauge.cli.views.audit import AuditProgress

    with AuditProgress() as waiting:
        if target is not None and is_file:
            count = runs or (QUICK_PIPELINE_RUNS if quick else None)
            report = audit_file(Path(target), ticks, count, confidence, waiting, attack_computed=not quick)
        elif target is not None:
            count = runs or (QUICK_RUNS if quick else DEFAULT_RUNS)
            report = audit_name(target, (ticks, epsilon, rho, delta, unit), count, confidence, waiting)
        else:
            count = runs or (QUICK_RUNS if quick else ALL_RUNS)
            report = audit_package(count, confidence, waiting, quick=quick, twins_only=mutants)
    finish_audit(report, as_json=json, html=html)


def audit_file(
    path: Path,
    ticks: int | None,
    runs: int | None,
    confidence: float,
    waiting: "AuditProgress",
    *,
    attack_computed: bool = True,
) -> "AuditReport":
    from time import perf_counter

    from streamgauge.audit.pipeline.audit import audit_pipeline
    from streamgauge.audit.report import build_report

    begun, file = perf_counter(), read_pipeline(path)
    verdicts = audit_pipeline(
        file,
        ticks=ticks,
        runs=runs,
        attack_computed=attack_computed,
        confidence=confidence,
        watch=waiting.update_subject,
        on_computed=waiting.print_computed,
    )
    return build_report(verdicts, confidence, perf_counter() - begun)


def audit_name(
    name: str,
    settings: tuple[int | None, str | None, str | None, str | None, str | None],
    runs: int,
    confidence: float,
    waiting: "AuditProgress",
) -> "AuditReport":
    from streamgauge.audit.catalogue import list_entries, list_names
    from streamgauge.audit.exact.worst_case import TooManyPatternsError
    from streamgauge.audit.report import audit_entries
    from streamgauge.cli.views.audit import parse_claim, suggest_name

    known = {each.casefold(): each for each in list_names()}
    if name.casefold() not in known:
        rule = f"a pipeline file that is there, or one of {', '.join(known.values())}"
        raise_bad_argument("TARGET", rule, f"{name}{suggest_name(name, list(known.values()))}")
    found = list(list_entries(known[name.casefold()], parse_claim(*settings)))
    if not found:
        raise_bad_argument("--epsilon, --rho and --unit", f"a claim that {name} can make", "another")
    try:
        return audit_entries(found, runs, confidence=confidence, watch=waiting.update_all)
    except TooManyPatternsError as refusal:
        raise BadArgumentError(f"--ticks and --unit: {refusal}") from None


def audit_package(
    runs: int,
    confidence: float,
    waiting: "AuditProgress",
    *,
    quick: bool,
    twins_only: bool,
    entries: "Sequence[CatalogueEntry] | None" = None,
    twins: "Sequence[CatalogueEntry] | None" = None,
    audit_demo_file: "Callable[..., AuditReport] | None" = None,
) -> "AuditReport":
    """Audit the package: its entries, its twins and the demo's pipeline, unless others are given.

    Half of the failure probability is for the demo's pipeline, if that is audited too.
    """
    from tempfile import TemporaryDirectory

    from streamgauge.audit.catalogue import list_entries, list_twins
    from streamgauge.audit.report import audit_entries, split_confidence
    from streamgauge.cli.demo.clinic import PIPELINE_TEXT

    controls = list(list_twins()) if twins is None else twins
    if twins_only:
        return audit_entries(controls, runs, confidence=confidence, watch=waiting.update_all)
    half, demo_runs = split_confidence(confidence, 2), QUICK_PIPELINE_RUNS if quick else None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "clinic.toml"
        path.write_text(PIPELINE_TEXT)
        demo = (audit_demo_file or audit_file)(path, None, demo_runs, half, waiting)
    found = [*(list_entries() if entries is None else entries), *controls]
    report = audit_entries(found, runs, confidence=half, watch=waiting.update_all)
    return demo.merge(report, confidence)


def finish_audit(report: "AuditReport", *, as_json: bool = False, html: Path | None = None) -> None:
    """Print a report, and exit with code 3 if it is not clean."""
    from streamgauge.cli.console import print_json, stderr, stdout
    from streamgauge.cli.views.audit import render_page, show_report

    if html is not None:
        html.write_text(render_page(report), encoding="utf-8")
    if as_json:
        print_json(report.to_json())
        stderr().print(report.summary, soft_wrap=True)
    else:
        show_report(stdout(), report)
    if not report.is_clean:
        raise typer.Exit(EXIT_CLAIM_BROKEN)
