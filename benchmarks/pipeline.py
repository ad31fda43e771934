"""Benchmark of a whole pipeline against DuckDB: same file, same aggregation.

    python benchmarks/pipeline.py [--events N] [--rounds N] [--huge GIGABYTES]

Ten million events of 100 regions over 2,160 hours: a count and an average of each region and hour. DuckDB runs its
own reader and GROUP BY. Streamgauge reads, bounds contributions, draws noise, computes error bars and commits every
tick. Each measurement is a separate process. Times exclude imports and are the best of N rounds. Memory is the peak
of the process.

The second table bounds users: of each of N/10 patients, 2 events a day on 5 days count. DuckDB answers the same with
its window functions, with all its memory and a disk; ours has 600 MB and no disk. Ticks are days, so that bounding
dominates: the error bars of 2,160 ticks take longer.

Further figures: the time of a tick of 10^5 groups from exact sums to commit, the event rate of a followed file, and
the time of `streamgauge --help`.
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
DAY_EVENTS, MAX_DAYS = 2, 5  # of a user
MAX_USER_RATIO = 2.0
MAX_RATIOS = {"jsonl": 1.5, "csv": 2.0, "parquet": 2.0}  # largest ratio of our time to that of DuckDB
DUCKDB_SOURCES = {"jsonl": "read_json('events.jsonl')", "csv": "read_csv('events.csv')", "parquet": "'events.parquet'"}


def write_events(events: int) -> None:
    """Write the same events in three formats to the current folder."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"""CREATE TABLE events AS SELECT
        strftime(make_timestamp({START}000000 + (random() * {HOURS} * 3600e6)::BIGINT),
                 '%Y-%m-%dT%H:%M:%SZ') ts,
        'region-' || lpad((random() * {REGIONS - 1})::INT::VARCHAR, 2, '0') region,
        round(35 + 7 * random(), 1) temperature, (random() * {events // 10})::INT patient FROM range({events})"""
    )
    for suffix, options in (("jsonl", "FORMAT json"), ("csv", "HEADER"), ("parquet", "FORMAT parquet")):
        connection.execute(f"COPY events TO 'events.{suffix}' ({options})")


def build_tables(source: str, **changes: Any) -> dict[str, Any]:
    """Build the tables of a pipeline that reads one of the files."""
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


def ensure_key() -> None:
    from streamgauge.store.keys import create_key

    if not Path("bench.key").exists():
        create_key(Path("bench.key"))


def time_duckdb(suffix: str) -> float:
    """Return the seconds of DuckDB alone."""
    import duckdb
    import numpy.ma  # noqa: F401 - used by fetchnumpy; imports are excluded

    connection = duckdb.connect()
    start = time.perf_counter()
    connection.execute(
        "SELECT date_trunc('hour', ts::TIMESTAMPTZ) tick, region, count(*), avg(temperature) "
        f"FROM {DUCKDB_SOURCES[suffix]} GROUP BY tick, region"
    ).fetchnumpy()
    return time.perf_counter() - start


def time_windows(suffix: str) -> float:
    """Return the seconds of DuckDB alone, with the same bounds of users."""
    import duckdb
    import numpy.ma  # noqa: F401

    connection = duckdb.connect()
    start = time.perf_counter()
    connection.execute(
        f"""WITH days AS (SELECT *, date_trunc('day', ts::TIMESTAMPTZ) tick FROM {DUCKDB_SOURCES[suffix]}),
        ranked AS (SELECT tick, region, temperature,
            row_number() OVER (PARTITION BY patient, tick ORDER BY hash(ts, region, temperature, patient)) AS event,
            dense_rank() OVER (PARTITION BY patient ORDER BY tick) AS day FROM days)
        SELECT tick, region, count(*), avg(temperature) FROM ranked
        WHERE event <= {DAY_EVENTS} AND day <= {MAX_DAYS} GROUP BY tick, region"""
    ).fetchnumpy()
    return time.perf_counter() - start


def time_users(suffix: str) -> float:
    """Return the seconds of the pipeline with bounds of users."""
    unit = {"user": "patient", "max_events_per_tick": DAY_EVENTS, "max_ticks": MAX_DAYS}
    return time_pipeline(suffix, unit=unit, tick="1d")


def time_pipeline(suffix: str, **changes: Any) -> float:
    """Return the seconds of the pipeline, from an empty store to the last commit."""
    import numpy.ma  # noqa: F401 - imported on first use, like the next line; imports are excluded
    import sqlglot.dialects.duckdb  # noqa: F401

    from streamgauge import Pipeline

    ensure_key()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        source = str(Path(f"events.{suffix}").absolute())
        tables = build_tables(source, key=f"file:{Path('bench.key').absolute()}", **changes)
        pipeline = Pipeline.from_tables(tables, Path(folder) / "bench.toml")
        start = time.perf_counter()
        report = pipeline.run()
        seconds = time.perf_counter() - start
    assert report.ticks == {"fever": HOURS // 24 if "tick" in changes else HOURS}
    return seconds


def time_wide_tick(suffix: str) -> float:
    """Return the median seconds of a tick of 10^5 groups, from sums to written guard."""
    import duckdb

    from streamgauge import Pipeline

    ensure_key()
    duckdb.connect().execute(
        f"COPY (SELECT {START} + range // 300000 * 3600 AS ts, 'group-' || (range % 100000) AS region, "
        "35 + range % 7 AS temperature FROM range(1200000)) TO 'wide.csv' (HEADER)"
    )
    tables = build_tables("wide.csv", end="2026-01-05T04:00:00Z", time_format="epoch s")
    tables["stream"]["columns"]["region"] = {"values": [f"group-{n}" for n in range(100_000)]}
    step_times: dict[str, list[float]] = {}

    def record_step(step: str) -> None:
        step_times.setdefault(step, []).append(time.perf_counter())

    with tempfile.TemporaryDirectory(dir=".") as folder:
        tables["stream"]["source"] = str(Path("wide.csv").absolute())
        tables["stream"]["key"] = f"file:{Path('bench.key').absolute()}"
        Pipeline.from_tables(tables, Path(folder) / "wide.toml").run(step=record_step, max_batch_ticks=1)
    starts = [step_times["block_read"][0], *step_times["guard_written"][-4:-1]]
    seconds = [end - start for start, end in zip(starts, step_times["guard_written"][-4:], strict=True)]
    return sorted(seconds)[len(seconds) // 2]


def measure_follow_rate(suffix: str) -> float:
    """Return the events per second of a followed file, from backlog to closed ticks."""
    from streamgauge import Pipeline
    from streamgauge.testing.noise import ManualClock

    ensure_key()
    tables = build_tables(f"events.{suffix}", mode="streaming")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        source = Path(f"events.{suffix}").absolute()
        tables["stream"] |= {"source": str(source), "key": f"file:{Path('bench.key').absolute()}"}
        tables["release"][0]["horizon"] = "90d"
        pipeline = Pipeline.from_tables(tables, Path(folder) / "live.toml")
        start = time.perf_counter()
        pipeline.run(clock=ManualClock((START + (HOURS + 1) * 3600) * 1_000_000))
        seconds = time.perf_counter() - start
    return count_lines(source) / seconds


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 24), b""))


def run_child(measurement: str, suffix: str) -> tuple[float, float]:
    """Run a measurement in a separate process; return its number and its peak MiB."""
    command = [sys.executable, "-P", os.path.abspath(__file__), "--child", measurement, suffix]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result["number"], result["peak"]


def print_formats(rounds: int, measurements: tuple[str, str], bars: dict[str, float]) -> None:
    print(f"{'':>8} {'DuckDB':>9} {'ours':>9} {'ratio':>7} {'bar':>5} {'DuckDB MiB':>11} {'our MiB':>9}")
    for suffix, bar in bars.items():
        results = [[run_child(measurement, suffix) for _ in range(rounds)] for measurement in measurements]
        base, ours = (min(result)[0] for result in results)
        peaks = [max(peak for _, peak in result) for result in results]
        print(
            f"{suffix:>8} {base:>8.2f}s {ours:>8.2f}s {ours / base:>7.2f} {bar:>5} {peaks[0]:>11.0f} {peaks[1]:>9.0f}"
        )


def print_huge_file(gigabytes: int) -> None:
    """Print seconds and memory for one large file of JSON lines."""
    with open("events.jsonl", "rb") as small, open("huge.jsonl", "wb") as large:
        while large.tell() < gigabytes * 10**9:
            small.seek(0)
            for piece in iter(lambda: small.read(1 << 24), b""):
                large.write(piece)
    os.replace("huge.jsonl", "events.jsonl")
    seconds, peak = run_child("ours", "jsonl")
    print(f"\n{gigabytes} GB of JSON lines: {seconds:.1f} s, peak {peak:.0f} MiB")


def time_help() -> float:
    command = [sys.executable, "-m", "streamgauge", "--help"]
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure_child(measurement: str, suffix: str) -> None:
    measure = {
        "bare": time_duckdb,
        "ours": time_pipeline,
        "windows": time_windows,
        "users": time_users,
        "wide": time_wide_tick,
        "followed": measure_follow_rate,
    }
    print(json.dumps({"number": measure[measurement](suffix), "peak": read_peak_memory()}))


def read_peak_memory() -> float:
    """Return the peak memory of this process in MiB.

    VmHWM excludes the parent process before the fork, unlike ru_maxrss.
    """
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
    options = parser.parse_args()
    if options.child:
        measure_child(*options.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_events(options.events)
        print(f"{options.events:,} events, {HOURS} ticks, {REGIONS} groups, best of {options.rounds}\n")
        print_formats(options.rounds, ("bare", "ours"), MAX_RATIOS)
        print(f"\n{options.events // 10:,} users, {DAY_EVENTS} events a day on {MAX_DAYS} days, ticks of a day\n")
        print_formats(options.rounds, ("windows", "users"), dict.fromkeys(DUCKDB_SOURCES, MAX_USER_RATIO))
        print(f"\na tick of 10^5 groups, count and average, from sums to commit: {run_child('wide', '')[0]:.2f} s")
        for suffix in ("jsonl", "csv"):
            print(f"followed {suffix}: {run_child('followed', suffix)[0]:,.0f} events per second")
        print(f"streamgauge --help: {time_help():.2f} s")
        if options.huge:
            print_huge_file(options.huge)
        os.chdir("/")


if __name__ == "__main__":
    main()
