"""The whole pipeline compared with bare DuckDB: the same file, the same aggregation, with and without privacy.

    python benchmarks/pipeline.py [--events N] [--rounds N] [--huge GIGABYTES]

Ten million events of 100 regions over 2,160 hours: a count and an average of each region and hour. DuckDB
runs its own reader and GROUP BY; Streamgauge reads, bounds, draws, works out the error bars and commits every
tick. Each is a separate process, imports excluded, the best of some rounds; memory is the process's peak.

Then: what a tick of 10^5 groups takes from exact sums to commit, how many events a second a followed file
gives, and how long `streamgauge --help` takes.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

START = 1_767_571_200  # 2026-01-05T00:00:00Z
HOURS, REGIONS = 2160, 100
FORMATS = {"jsonl": 1.5, "csv": 2.0, "parquet": 2.0}  # and the bar
BARE = {"jsonl": "read_json('events.jsonl')", "csv": "read_csv('events.csv')", "parquet": "'events.parquet'"}


def generate(events: int) -> None:
    """The same events in three formats, in the current folder."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"""CREATE TABLE events AS SELECT
        strftime(make_timestamp({START}000000 + (random() * {HOURS} * 3600e6)::BIGINT),
                 '%Y-%m-%dT%H:%M:%SZ') ts,
        'region-' || lpad((random() * {REGIONS - 1})::INT::VARCHAR, 2, '0') region,
        round(35 + 7 * random(), 1) temperature, (random() * 1e5)::INT patient FROM range({events})"""
    )
    for suffix, options in (("jsonl", "FORMAT json"), ("csv", "HEADER"), ("parquet", "FORMAT parquet")):
        connection.execute(f"COPY events TO 'events.{suffix}' ({options})")


def tables(source: str, **changes: Any) -> dict[str, Any]:
    """A pipeline file over one of them."""
    stream: dict[str, Any] = {
        "name": "events",
        "source": source,
        "time": "ts",
        "tick": "1h",
        "start": "2026-01-05T00:00:00Z",
        "end": "2026-04-05T00:00:00Z",
        "unit": "event",
        "budget": {"epsilon": 1},
        "key": "file:bench.key",
        "columns": {
            "region": {"values": [f"region-{n:02d}" for n in range(REGIONS)]},
            "temperature": {"bounds": [35, 42], "grid": 0.1},
        },
    }
    sql = "SELECT region, COUNT(*), AVG(temperature) FROM events GROUP BY region"
    return {"stream": stream | changes, "release": [{"name": "fever", "sql": sql, "epsilon": 1}]}


def with_key() -> None:
    from streamgauge.store.keys import create_key

    if not Path("bench.key").exists():
        create_key(Path("bench.key"))


def bare(suffix: str) -> float:
    """DuckDB by itself."""
    import duckdb
    import numpy.ma  # noqa: F401 - what answers are made with

    connection = duckdb.connect()
    begin = time.perf_counter()
    connection.execute(
        "SELECT date_trunc('hour', ts::TIMESTAMPTZ) tick, region, count(*), avg(temperature) "
        f"FROM {BARE[suffix]} GROUP BY tick, region"
    ).fetchnumpy()
    return time.perf_counter() - begin


def ours(suffix: str) -> float:
    """The pipeline, from an empty store to the last commit."""
    import numpy.ma  # noqa: F401 - imported when first used, like the next: imports are excluded
    import sqlglot.dialects.duckdb  # noqa: F401

    from streamgauge import Pipeline

    with_key()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        source = str(Path(f"events.{suffix}").absolute())
        declared = tables(source, key=f"file:{Path('bench.key').absolute()}")
        pipeline = Pipeline.from_tables(declared, Path(folder) / "bench.toml")
        begin = time.perf_counter()
        report = pipeline.run()
        spent = time.perf_counter() - begin
    assert report.ticks == {"fever": HOURS}
    return spent


def wide(suffix: str) -> float:
    """One tick of 10^5 groups: from exact sums to the guard that has the commit."""
    import duckdb

    from streamgauge import Pipeline

    with_key()
    duckdb.connect().execute(
        f"COPY (SELECT {START} + range // 300000 * 3600 AS ts, 'group-' || (range % 100000) AS region, "
        "35 + range % 7 AS temperature FROM range(1200000)) TO 'wide.csv' (HEADER)"
    )
    declared = tables("wide.csv", end="2026-01-05T04:00:00Z", time_format="epoch s")
    declared["stream"]["columns"]["region"] = {"values": [f"group-{n}" for n in range(100_000)]}
    moments: dict[str, list[float]] = {}

    def note(step: str) -> None:
        moments.setdefault(step, []).append(time.perf_counter())

    with tempfile.TemporaryDirectory(dir=".") as folder:
        declared["stream"]["source"] = str(Path("wide.csv").absolute())
        declared["stream"]["key"] = f"file:{Path('bench.key').absolute()}"
        Pipeline.from_tables(declared, Path(folder) / "wide.toml").run(step=note, max_batch_ticks=1)
    begins = [moments["block_read"][0], *moments["guard_written"][-4:-1]]
    spent = [end - begin for begin, end in zip(begins, moments["guard_written"][-4:], strict=True)]
    return sorted(spent)[len(spent) // 2]


def followed(suffix: str) -> float:
    """Events a second of a followed file, its backlog read and its ticks closed."""
    from streamgauge import Pipeline
    from streamgauge.testing.noise import ManualClock

    with_key()
    declared = tables(f"events.{suffix}", mode="streaming")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        source = Path(f"events.{suffix}").absolute()
        declared["stream"] |= {"source": str(source), "key": f"file:{Path('bench.key').absolute()}"}
        declared["release"][0]["horizon"] = "90d"
        pipeline = Pipeline.from_tables(declared, Path(folder) / "live.toml")
        begin = time.perf_counter()
        pipeline.run(clock=ManualClock((START + (HOURS + 1) * 3600) * 1_000_000))
        spent = time.perf_counter() - begin
    return lines_of(source) / spent


def lines_of(path: Path) -> int:
    with path.open("rb") as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 24), b""))


def measured(what: str, suffix: str) -> tuple[float, float]:
    """Seconds (or events a second), and the peak of memory in MiB, of a separate process."""
    asked = [sys.executable, "-P", os.path.abspath(__file__), "--child", what, suffix]
    told = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    return told["number"], told["peak"]


def table_of_formats(rounds: int) -> None:
    print(f"{'':>8} {'DuckDB':>9} {'ours':>9} {'ratio':>7} {'bar':>5} {'DuckDB MiB':>11} {'our MiB':>9}")
    for suffix, bar in FORMATS.items():
        found = {what: [measured(what, suffix) for _ in range(rounds)] for what in ("bare", "ours")}
        base, mine = min(found["bare"])[0], min(found["ours"])[0]
        peaks = [max(peak for _, peak in found[what]) for what in ("bare", "ours")]
        print(
            f"{suffix:>8} {base:>8.2f}s {mine:>8.2f}s {mine / base:>7.2f} {bar:>5} {peaks[0]:>11.0f} {peaks[1]:>9.0f}"
        )


def huge(gigabytes: int) -> None:
    """One JSON lines file of so many gigabytes: only memory matters."""
    with open("events.jsonl", "rb") as small, open("huge.jsonl", "wb") as large:
        while large.tell() < gigabytes * 10**9:
            small.seek(0)
            for piece in iter(lambda: small.read(1 << 24), b""):
                large.write(piece)
    os.replace("huge.jsonl", "events.jsonl")
    spent, peak = measured("ours", "jsonl")
    print(f"\n{gigabytes} GB of JSON lines: {spent:.1f} s, peak {peak:.0f} MiB")


def help_time() -> float:
    asked = [sys.executable, "-m", "streamgauge", "--help"]
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run(asked, check=True, capture_output=True)
        spent.append(time.perf_counter() - begin)
    return min(spent)


def child(what: str, suffix: str) -> None:
    number = {"bare": bare, "ours": ours, "wide": wide, "followed": followed}[what](suffix)
    print(json.dumps({"number": number, "peak": peak_memory()}))


def peak_memory() -> float:
    """MiB; if the system reports it, of this program alone, not of the process that it was forked from."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--huge", type=int, default=0, metavar="GIGABYTES")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(*asked.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        generate(asked.events)
        print(f"{asked.events:,} events, {HOURS} ticks, {REGIONS} groups, best of {asked.rounds}\n")
        table_of_formats(asked.rounds)
        print(f"\na tick of 10^5 groups, count and average, to its commit: {measured('wide', '')[0]:.2f} s")
        for suffix in ("jsonl", "csv"):
            print(f"followed {suffix}: {measured('followed', suffix)[0]:,.0f} events a second")
        print(f"streamgauge --help: {help_time():.2f} s")
        if asked.huge:
            huge(asked.huge)
        os.chdir("/")


if __name__ == "__main__":
    main()
