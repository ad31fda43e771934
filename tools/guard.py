"""Record what the package computes, so that a change of names or places can be compared with it.

    python -m tools.guard record FILE [--junit XML]
    python -m tools.guard compare OLD NEW [--renames TABLE]

A record holds digests of the outputs of every mechanism and statistic (without noise and under a repeatable
noise), the sinks and plans of ten pipelines, the computed verdicts of the audit, and the ids of all collected
tests with their durations by folder (of a JUnit file, if one is given).

TABLE has a line `old<TAB>new` for each renamed word. `compare` applies it to the old record first.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from tests.support import (
    adaptive_catalogue,
    catalogue,
    neighbour_streams,
    panprivate_catalogue,
    pipelines,
    statistics_catalogue,
)

import streamgauge as sg
from streamgauge.audit.catalogue import list_entries
from streamgauge.audit.subject import ComputableSubject
from streamgauge.audit.subjects.local import build_local_subjects, find_oracles
from streamgauge.continual.mechanism import LinearMechanism
from streamgauge.runtime import Pipeline
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import InsecureNoise, SilentNoise

ROOT = Path(__file__).parents[1]
TICKS = 40
STATISTIC_TICKS = 12
Record = dict[str, dict[str, Any]]


def digest(*arrays: Any) -> str:
    """Hash numbers by their bytes, and everything else by its text."""
    found = hashlib.sha256()
    for array in arrays:
        values = np.asarray(array)
        found.update(repr(values.tolist()).encode() if values.dtype == object else values.tobytes())
    return found.hexdigest()[:16]


def record_counters() -> Iterator[tuple[str, str]]:
    values = np.random.default_rng(7).integers(-5, 50, (TICKS, 3))
    for case in catalogue.CASES:
        claim: LinearMechanism[Any] = case.claim(TICKS)
        silent = claim.start(3, SilentNoise()).feed(values)
        noisy = claim.start(3, InsecureNoise(3)).feed(values)
        yield str(case), digest(silent, noisy, [claim.stddev(tick) for tick in range(1, TICKS + 1)])


def record_adaptive() -> Iterator[tuple[str, str]]:
    for case in adaptive_catalogue.CASES:
        values = np.random.default_rng(7).integers(0, 50, (TICKS, case.width))
        outputs = [
            part
            for noise in (SilentNoise(), InsecureNoise(3))
            for part in adaptive_catalogue.shown(case.claim(TICKS).start(case.width, noise).feed(values))
        ]
        yield str(case), digest(*outputs)


def record_pan_private() -> Iterator[tuple[str, str]]:
    for cls in panprivate_catalogue.estimators_found():
        run = panprivate_catalogue.claim_of(cls, intrusions=1).start(InsecureNoise(4))
        for users in ([3, 1, 3], [], [39, -1, 40, None, "x", 2.5, 1]):
            run.step(users) if hasattr(run, "step") else run.add(users)
        run.intrude()
        estimate = run.estimate()
        yield cls.__name__, digest(estimate.value, estimate.stddev, *estimate.interval(0.9))


def record_statistics() -> Iterator[tuple[str, str]]:
    for case in statistics_catalogue.CASES:
        claim = case.claim(STATISTIC_TICKS)
        stream = statistics_catalogue.stream(case, STATISTIC_TICKS)
        parts = []
        for noise in (SilentNoise(), InsecureNoise(3)):
            run = claim.start(statistics_catalogue.WIDTH, noise)
            for tick in range(1, STATISTIC_TICKS + 1):
                release = run.step(**statistics_catalogue.given(case, claim, stream.tick(tick)))
                parts += statistics_catalogue.parts(release)
        yield str(case), digest(*parts)


def record_local() -> Iterator[tuple[str, str]]:
    for cls in find_oracles().values():
        for subject, settings in build_local_subjects(cls, sg.Pure(1)):
            oracle: Any = subject.claim
            noise = InsecureNoise(5)
            reports = [list(oracle.privatise(item, noise)) for item in [*subject.items] * 5]
            yield f"{cls.__name__} {settings}", digest(*reports)


MOMENTS = {"moments": (neighbour_streams.MOMENTS, "running")}
USER = neighbour_streams.USER
PIPELINES: dict[str, tuple[dict[str, tuple[str, str]], dict[str, Any]]] = {
    **{name: ({name: release}, {}) for name, release in neighbour_streams.RELEASES.items()},
    "csv": (MOMENTS, {"source": "v.csv"}),
    "user": ({"counted": (neighbour_streams.COUNTED, "each")}, {"unit": USER}),
    "w_event": (MOMENTS, {"unit": {"w_event": "3h"}}),
    "zcdp": (MOMENTS, {"budget": {"epsilon": 1, "delta": 1e-6}}),
}


def record_pipelines() -> Iterator[tuple[str, Any]]:
    records = [neighbour_streams.record(number) for number in range(60)]
    for name, (releases, stream) in PIPELINES.items():
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            lines = [neighbour_streams.json_line(each) for each in records]
            (place / "v.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
            rows = [neighbour_streams.HEADER, *(neighbour_streams.csv_line(each) for each in records)]
            (place / "v.csv").write_bytes(b"".join(row + b"\n" for row in rows))
            (place / "sites.csv").write_text(neighbour_streams.SITES)
            create_key(place / "v.key")
            made = Pipeline.from_tables(build_tables(releases, stream), place / "v.toml")
            plan = made.plan()
            made.run(noise=SilentNoise())
            yield name, {"plan": plan.to_json(), "sink": read_sink(place / "out.jsonl")}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        live = pipelines.pipeline(place, pipelines.tables(live=True, end="2026-01-05T00:01:00Z"))
        clock = pipelines.world(place, pipelines.as_they_happen(pipelines.one_a_second(60)))
        live.run(noise=SilentNoise(), clock=clock)
        yield "live", {"plan": live.plan().to_json(), "sink": read_sink(place / "out.jsonl")}


def build_tables(releases: dict[str, tuple[str, str]], stream: dict[str, Any]) -> dict[str, Any]:
    share = f"1/{len(releases)}"
    return {
        "stream": {
            "name": "v",
            "source": "v.jsonl",
            "mode": "batch",
            "time": "ts",
            "tick": "1h",
            "start": "2026-01-05T00:00:00Z",
            "end": "2026-01-05T08:00:00Z",
            "unit": "event",
            "budget": {"epsilon": 1},
            "key": "file:v.key",
            "columns": neighbour_streams.COLUMNS | {"patient": {"values": [f"p{number}" for number in range(9)]}},
            **stream,
        },
        "lookup": {"sites": {"file": "sites.csv", "on": "sensor"}},
        "release": [
            {"name": name, "sql": sql, "window": window, "share": share} for name, (sql, window) in releases.items()
        ],
        "sink": [{"to": "out.jsonl"}],
    }


def read_sink(path: Path) -> list[Any]:
    """Return the rows without the stamps of the store, which are random."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "trace"} for row in rows]


def record_audit() -> Iterator[tuple[str, str]]:
    for entry in list_entries():
        if isinstance(entry.subject, ComputableSubject):
            print(f"\r{entry.kind}: {entry.title:60.60}", end="", file=sys.stderr)
            worst = entry.subject.worst()
            if worst is not None:
                yield f"{entry.kind}: {entry.title}, {entry.subject.loss!r}", f"{worst.amount!r}"
    print(file=sys.stderr)


def record_tests() -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    yield from Counter(line for line in printed.splitlines() if "::" in line).items()


def sum_durations(junit: Path) -> dict[str, float]:
    """Add up seconds by the first two folders of each test's class name."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in ElementTree.parse(junit).iter("testcase"):
        found[".".join(case.get("classname", "").split(".")[:2])] += float(case.get("time", 0))
    return {name: round(seconds, 1) for name, seconds in sorted(found.items(), key=lambda each: -each[1])}


SECTIONS = {
    "counters": record_counters,
    "adaptive": record_adaptive,
    "pan_private": record_pan_private,
    "statistics": record_statistics,
    "local": record_local,
    "pipelines": record_pipelines,
    "audit": record_audit,
    "tests": record_tests,
}


def write_record(path: Path, junit: Path | None, only: list[str]) -> None:
    record: Record = {}
    for name, section in SECTIONS.items():
        if not only or name in only:
            print(f"recording {name} ...", file=sys.stderr)
            record[name] = dict(section())
    if junit is not None:
        record["durations"] = dict(sum_durations(junit))
    path.write_text(json.dumps(record, indent=1, sort_keys=True, default=str))


def compare_records(old: Path, new: Path, renames: Path | None) -> int:
    """Print every difference; return how many there are."""
    text = old.read_text()
    if renames is not None:
        table = dict(line.split("\t")[:2] for line in renames.read_text().splitlines() if "\t" in line)
        pattern = re.compile(
            r"(?<![\w.])(" + "|".join(map(re.escape, sorted(table, key=len, reverse=True))) + r")(?!\w)"
        )
        text = pattern.sub(lambda match: table[match[0]], text)
    before, after = json.loads(text), json.loads(new.read_text())
    differences = 0
    for section in sorted(({*before} | {*after}) - {"durations"}):
        one, two = before.get(section, {}), after.get(section, {})
        for name in sorted({*one} | {*two}):
            if one.get(name) != two.get(name):
                differences += 1
                state = "missing" if name not in two else "new" if name not in one else "differs"
                print(f"{section}: {state}: {name}")
    print(f"{differences} differences in {sum(map(len, after.values()))} entries")
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="write a record to FILE")
    recording.add_argument("file", type=Path)
    recording.add_argument("--junit", type=Path, help="take durations from this JUnit file")
    recording.add_argument("--only", nargs="*", default=[], choices=SECTIONS, help="record these sections")
    comparing = commands.add_parser("compare", help="compare two records")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--renames", type=Path, help="table of renamed words")
    given = parser.parse_args()
    if given.command == "record":
        write_record(given.file, given.junit, given.only)
    else:
        sys.exit(bool(compare_records(given.old, given.new, given.renames)))


if __name__ == "__main__":
    main()
