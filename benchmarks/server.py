"""Benchmark of the server: event rate, live readers, memory and downloads.

    python -P benchmarks/server.py [--seconds N] [--readers N] [--soak SECONDS] [--downloads] [--commands]

Events: CONNECTIONS connections post batches of 1,000 events as JSON lines over loopback. Each waits for the reply
before it posts again. The baseline is a bare Starlette endpoint, which replies when it has parsed every line. Our
server replies when the sums of the batch are committed, encrypted, to disk. Each server runs twice, in its own
process and with the same uvicorn settings. A third process posts request bodies that it builds beforehand.

Readers: N connections follow /api/live while events are posted, with ticks of one second. Each must receive every
tick once and in order. `--soak` posts and follows for SECONDS and prints the memory of the server every 30 s.

Downloads: `--downloads` alone, about 4 minutes. A stream of 1 s ticks has a history of HISTORY ticks and
GROUPS groups. DOWNLOADERS connections without a token repeat one CSV download of all of it for DOWNLOAD_TICKS
ticks. One curator posts ten batches a second, and one live reader records when ticks arrive. A tick is late if
it arrives half a publish_delay or more after its scheduled time. A quiet period without downloads is printed first,
for comparison. Bar: no late tick, and a median of event posts below 0.2 s. Broken and refused downloads and
the memory of the server are printed too. Run it on a machine that does nothing else.

Commands: `--commands` alone, about 2 minutes. A release of COMMAND_GROUPS groups has ticks of COMMAND_TICK s and a
publish_delay of COMMAND_DELAY s. One curator posts ten batches of events a second, one live reader records when ticks
arrive. Then COMMAND_RATE requests a second arrive for COMMAND_SECONDS s: one in ten adds a release, one in ten ends the
release that was added ADDED_SECONDS before, and the others ask for releases that the budget refuses. Bar: an added
release is charged and answered within two publish_delays, and no tick is late.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BIN_FOLDER = Path(sys.executable).parent
BATCH_EVENTS = 1000
BODY_COUNT = 16  # posted repeatedly, each time with a new batch key
CONNECTIONS = 32
MIN_RATE_RATIO = 0.7
REGIONS = 20
TIME_PLACEHOLDER = 9_876_543_210_987  # replaced by the time at which a batch is posted

HISTORY, GROUPS, DOWNLOADERS = 2500, 200, 40
DOWNLOAD_TICKS, QUIET_TICKS = 200, 20
MAX_POST_SECONDS = 0.2  # median

COMMAND_GROUPS, COMMAND_TICK, COMMAND_DELAY = 100_000, 5, 1.0
COMMAND_RATE, COMMAND_SECONDS, ADDED_SECONDS = 100, 60, 3
COMMAND_SETTINGS = """
adhoc.max_active = 1000
adhoc.max_active_per_analyst = 1000
adhoc.max_total = 10000
adhoc.max_plans_per_minute = 10000
adhoc.max_requests_per_minute = 10000
adhoc.max_cpu_ms = 100000
adhoc.max_memory = "1GB"
"""

PIPELINE = """
[stream]
name = "visits"
source = "http"
time = "ts"
time_format = "epoch ms"
tick = "{tick}"
start = "{start}"
allowed_lateness = "2s"
unit = "event"
budget = {{ epsilon = 1.0 }}
key = "file:bench.key"

[stream.columns]
region = {{ values = [{regions}] }}
temperature = {{ bounds = [35.0, 42.0], grid = 0.1 }}

[server]
anonymous = true
publish_delay = "{delay}"
rate = {rate}
max_streams = 5000
max_streams_per_client = 5000
{server}

[[release]]
name = "visits_by_region"
sql = "SELECT region, COUNT(*), AVG(temperature) FROM visits GROUP BY region"
window = "each"
epsilon = 0.5
max_groups = {groups}
"""

BARE_SERVER = """
import json, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def events(request):
    body = await request.body()
    parsed = [json.loads(line) for line in body.splitlines()]
    return JSONResponse({"events": len(parsed)})

app = Starlette(routes=[Route("/api/events", events, methods=["POST"])])
config = uvicorn.Config(app, host="127.0.0.1", port=int(sys.argv[1]), http="h11", loop="asyncio",
                        log_level="warning", access_log=False)
uvicorn.Server(config).run()
"""


@dataclass
class Load:
    """Replies to the batches of some connections."""

    batches: int = 0
    refused: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.batches * BATCH_EVENTS / self.seconds

    def latency(self, share: float) -> float:
        latencies = sorted(self.latencies)
        return latencies[min(len(latencies) - 1, int(share * len(latencies)))] if latencies else float("nan")

    def as_text(self) -> str:
        return json.dumps({**self.__dict__, "latencies": self.latencies})


def build_bodies() -> list[bytes]:
    """Build bodies of JSON lines, with a placeholder for their times."""
    bodies = []
    for batch in range(BODY_COUNT):
        rows = (
            {
                "ts": TIME_PLACEHOLDER,
                "region": f"region-{(7 * index + batch) % REGIONS:02d}",
                "temperature": 35 + (index * 37 % 70) / 10,
                "patient": f"p{index * 7919 % 99991}",
            }
            for index in range(BATCH_EVENTS)
        )
        bodies.append("".join(json.dumps(row) + "\n" for row in rows).encode())
    return bodies


async def read_status(reader: asyncio.StreamReader) -> int:
    """Read one reply and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split(b" ", 2)[1])


async def post_batches(port: int, token: str, bodies: list[bytes], until: float, load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heads = [
        f"POST /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
        for body in bodies
    ]
    key_prefix, count = f"{os.getpid()}-{id(reader)}", 0
    while (start_time := time.perf_counter()) < until:
        index = count % BODY_COUNT
        writer.write(f"{heads[index]}Batch-Key: {key_prefix}-{count}\r\n\r\n".encode())
        writer.write(bodies[index].replace(b"%d" % TIME_PLACEHOLDER, b"%d" % int(time.time() * 1000)))
        status = await read_status(reader)
        load.latencies.append(time.perf_counter() - start_time)
        load.batches += status == 200
        load.refused += status != 200
        count += 1
    writer.close()


async def run_load(port: int, token: str, seconds: float, connections: int) -> Load:
    bodies, load = build_bodies(), Load()
    start_time = time.perf_counter()
    until = start_time + seconds
    await asyncio.gather(*(post_batches(port, token, bodies, until, load) for _ in range(connections)))
    load.seconds = time.perf_counter() - start_time
    return load


def measure_load(port: int, token: str, seconds: float, connections: int = CONNECTIONS) -> Load:
    """Post batches from a separate process and return its results."""
    command = [sys.executable, "-P", __file__, "--load", str(port), token, str(seconds), str(connections)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Load(**json.loads(output))


@dataclass
class Reader:
    """Ticks that one live connection received."""

    ticks: list[int] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)  # seconds after the earliest time of publication


async def follow_ticks(port: int, log: Reader, connecting: asyncio.Semaphore, open_connections: list[int]) -> None:
    async with connecting:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        writer.write(f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
    open_connections.append(1)
    while True:
        line = await reader.readline()
        if not line:
            return
        if line.startswith(b"data:") and b'"tick"' in line:
            release = json.loads(line[5:])
            log.ticks.append(release["tick"])
            end = time.mktime(time.strptime(release["end"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
            log.delays.append(time.time() - end - 2.0)
            if release["release"] != "visits_by_region":
                log.ticks.pop()
                log.delays.pop()


async def run_readers(port: int, count: int, seconds: float) -> list[Reader]:
    readers: list[Reader] = [Reader() for _ in range(count)]
    open_connections: list[int] = []
    connecting = asyncio.Semaphore(50)
    tasks = [asyncio.create_task(follow_ticks(port, each, connecting, open_connections)) for each in readers]
    while len(open_connections) < count:
        await asyncio.sleep(0.05)
    for each in readers:
        each.ticks.clear()
        each.delays.clear()
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return readers


def read_memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


@contextmanager
def start_process(command: list[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(command, text=True, **settings)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


def find_free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    import socket

    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"port {port} must accept connections, got none in 30 s")


@contextmanager
def start_bare() -> Iterator[int]:
    port = find_free_port()
    with start_process([sys.executable, "-c", BARE_SERVER, str(port)]):
        wait_for_port(port)
        yield port


@contextmanager
def start_server(
    folder: Path,
    *,
    groups: int = REGIONS,
    history: int = 0,
    delay: str = "250ms",
    rate: float = 1e6,
    tick: str = "1s",
    server: str = "",
) -> Iterator[tuple[int, str, int]]:
    """Start a server on a new pipeline; yield its port, a token and its process id."""
    start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - history))
    regions = ", ".join(f'"region-{index:02d}"' for index in range(groups))
    text = PIPELINE.format(
        start=start, regions=regions, delay=delay, rate=rate, tick=tick, server=server, groups=groups
    )
    (folder / "bench.toml").write_text(text)
    program = [str(BIN_FOLDER / "streamgauge")]
    subprocess.run([*program, "key", "create", "bench.key"], cwd=folder, check=True, capture_output=True)
    create_token = [*program, "token", "create", "bench.toml", "load", "--role", "curator"]
    output = subprocess.run(create_token, cwd=folder, check=True, capture_output=True, text=True)
    token = re.search(r"sg_curator_\S+", output.stdout + output.stderr)
    if token is None:
        raise ValueError("token create must print a token, got none")
    port = find_free_port()
    with start_process([*program, "serve", "bench.toml", "--port", str(port), "--quiet"], cwd=folder) as child:
        wait_for_port(port)
        time.sleep(2)
        yield port, token[0], child.pid


def compare_rates(seconds: float) -> None:
    results: dict[str, list[Load]] = {"bare": [], "ours": []}
    for _ in range(2):
        with start_bare() as port:
            results["bare"].append(measure_load(port, "x", seconds))
        with tempfile.TemporaryDirectory() as folder, start_server(Path(folder)) as (port, token, _):
            results["ours"].append(measure_load(port, token, seconds))
    print(f"\nbatches of {BATCH_EVENTS} events, {CONNECTIONS} connections, {seconds:.0f} s, better of 2")
    print(f"{'':>8}{'events/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'refused':>9}")
    best = {name: max(loads, key=lambda load: load.rate) for name, loads in results.items()}
    for name, load in best.items():
        times = (1000 * load.latency(0.5), 1000 * load.latency(0.99))
        print(f"{name:>8}{load.rate:>12,.0f}{times[0]:>9.0f}{times[1]:>9.0f}{load.refused:>9}")
    print(f"ratio {best['ours'].rate / best['bare'].rate:.2f}, bar {MIN_RATE_RATIO}")


def summarize_readers(readers: list[Reader]) -> str:
    """Return the number of readers that received every tick, and their delays."""
    first = max(each.ticks[0] for each in readers if each.ticks)
    last = min(each.ticks[-1] for each in readers if each.ticks)
    expected = list(range(first, last + 1))
    complete = sum([tick for tick in each.ticks if first <= tick <= last] == expected for each in readers)
    delays = sorted(moment for each in readers for moment in each.delays)
    p50, p99 = (delays[int(share * (len(delays) - 1))] for share in (0.5, 0.99))
    return (
        f"{complete} of {len(readers)} readers received each of {len(expected)} ticks once and in order; "
        f"after the tick closed: p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms"
    )


def measure_readers(count: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder)) as (port, token, pid):
        command = [sys.executable, "-P", __file__, "--load", str(port), token, str(seconds + 5), "2"]
        with start_process(command, stdout=subprocess.PIPE) as load:
            readers = asyncio.run(run_readers(port, count, seconds))
            output = json.loads(load.communicate()[0])
        rate = Load(**output).rate
        print(f"\n{count} live readers, {rate:,.0f} events per second at the same time, {read_memory(pid):.0f} MiB")
        print(summarize_readers(readers))


def run_soak(count: int, seconds: float) -> None:
    """Print memory under a steady load; it must not grow."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder)) as (port, token, pid):
        command = [sys.executable, "-P", __file__, "--load", str(port), token, str(seconds), "1"]
        with start_process(command, stdout=subprocess.DEVNULL):
            print(f"\nsoak: {seconds:.0f} s, {count} readers, one connection posts events")
            asyncio.run(print_memory(port, pid, count, seconds))


async def print_memory(port: int, pid: int, count: int, seconds: float) -> None:
    readers_task = asyncio.create_task(run_readers(port, count, seconds))
    start_time = time.perf_counter()
    while not readers_task.done():
        print(f"  {time.perf_counter() - start_time:5.0f} s  {read_memory(pid):6.1f} MiB", flush=True)
        await asyncio.wait([readers_task], timeout=30)
    print(summarize_readers(readers_task.result()))


@dataclass
class Downloads:
    """Results of connections that repeat one download."""

    complete: int = 0
    rows: int = 0
    size: int = 0
    broken: int = 0
    refused: dict[int, int] = field(default_factory=dict)


async def download(port: int, path: str, until: float, results: Downloads) -> None:
    """Repeat a download on one connection; reconnect if the server closes it."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    while time.perf_counter() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        try:
            while time.perf_counter() < until:
                writer.write(request)
                if not await receive_download(reader, until, results):
                    await asyncio.sleep(0.5)
        except (asyncio.IncompleteReadError, ConnectionError):
            results.broken += time.perf_counter() < until
        writer.close()


async def receive_download(reader: asyncio.StreamReader, until: float, results: Downloads) -> bool:
    """Read one reply and return True if it is a download."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    left, tail, end = int(length[1]) if length else -1, b"", b"\r\n0\r\n\r\n"
    while left and not tail.endswith(end) and time.perf_counter() < until:
        data = await reader.read(min(left, 2**18) if left > 0 else 2**18)
        if not data:
            raise asyncio.IncompleteReadError(tail, None)
        left -= len(data) if left > 0 else 0
        tail = (tail + data)[-len(end) :]
        results.size += len(data)
        results.rows += data.count(b"\n") if status == 200 else 0
    if status != 200:
        results.refused[status] = results.refused.get(status, 0) + 1
    results.complete += status == 200 and (not left or tail.endswith(end))
    return status == 200


async def post_steadily(port: int, token: str, until: float, load: Load) -> None:
    """Post ten batches a second on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    bodies, key_prefix, start_time = build_bodies(), f"{os.getpid()}-{id(reader)}", time.perf_counter()
    for count in range(10**6):
        await asyncio.sleep(start_time + count / 10 - time.perf_counter())
        if time.perf_counter() >= until:
            break
        body = bodies[count % BODY_COUNT].replace(b"%d" % TIME_PLACEHOLDER, b"%d" % int(time.time() * 1000))
        head = (
            f"POST /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
            f"Batch-Key: {key_prefix}-{count}\r\n\r\n"
        )
        sent = time.perf_counter()
        writer.write(head.encode() + body)
        load.refused += await read_status(reader) != 200
        load.latencies.append(time.perf_counter() - sent)
    writer.close()


async def measure_ticks(port: int, token: str, ticks: int, delay: float) -> tuple[Reader, Load]:
    """Post events and follow the live stream for a number of ticks."""
    log, load, open_connections = Reader(), Load(), list[int]()
    reader_task = asyncio.create_task(follow_ticks(port, log, asyncio.Semaphore(1), open_connections))
    while not log.delays or log.delays[-1] > 10:  # the server sends the history first
        await asyncio.sleep(0.01)
    log.ticks.clear()
    log.delays.clear()
    posts = asyncio.create_task(post_steadily(port, token, time.perf_counter() + ticks * 10, load))
    while len(log.ticks) < ticks:
        await asyncio.sleep(0.05)
    for task in (reader_task, posts):
        task.cancel()
    await asyncio.gather(reader_task, posts, return_exceptions=True)
    log.delays = [each - delay for each in log.delays]
    return log, load


def print_measurement(name: str, log: Reader, load: Load, delay: float) -> None:
    late_ticks = sum(each >= delay / 2 for each in log.delays)
    times = (load.latency(0.5), load.latency(0.99), max(load.latencies, default=float("nan")))
    posts = "median {:.3f} s, p99 {:.3f} s, worst {:.3f} s".format(*times)
    print(f"{name}: {late_ticks} of {len(log.delays)} ticks late, the worst by {max(log.delays):.2f} s;", end=" ")
    print(f"{len(load.latencies)} event posts, {posts}, {load.refused} refused", flush=True)


def wait_for_history(port: int, start: float) -> None:
    """Wait until the run has published its past ticks and is on time."""
    import urllib.request

    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/releases") as reply:
            if json.load(reply)["published_until"]["tick"] >= time.time() - start - 6:
                return
        time.sleep(1)


def measure_downloads(query: str) -> None:
    """Measure ticks and posts, first without downloads and then during them."""
    delay, path = 1.0, f"/api/releases/visits_by_region?{query}"
    settings: dict[str, Any] = {"groups": GROUPS, "history": HISTORY, "delay": "1s", "rate": 50.0}
    start = time.time() - HISTORY
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder), **settings) as (port, token, pid):
        wait_for_history(port, start)
        time.sleep(3)
        print(f"\n{HISTORY:,} ticks of {GROUPS} groups; {DOWNLOADERS} connections repeat GET {path}")
        before = read_memory(pid)
        print_measurement("quiet", *asyncio.run(measure_ticks(port, token, QUIET_TICKS, delay)), delay)
        command = [sys.executable, "-P", __file__, "--download", str(port), path, str(DOWNLOAD_TICKS * 3)]
        with start_process(command, stdout=subprocess.PIPE) as child:
            start_time = time.perf_counter()
            log, load = asyncio.run(measure_ticks(port, token, DOWNLOAD_TICKS, delay))
            child.send_signal(signal.SIGTERM)
            results = Downloads(**json.loads(child.communicate()[0]))
            seconds = time.perf_counter() - start_time
        print_measurement("downloads", log, load, delay)
        rates = f"{results.rows / seconds:,.0f} rows/s, {results.size / seconds / 1e6:.1f} MB/s"
        print(
            f"{results.complete} complete downloads, {rates}, {results.broken} broken, refused {results.refused};",
            end=" ",
        )
        print(f"memory {before:.0f} -> {read_memory(pid):.0f} MiB")
        print(f"bar: 0 late ticks, median of event posts below {MAX_POST_SECONDS} s")


@dataclass
class Commands:
    """Replies to requests: how many, and seconds of those that were accepted."""

    statuses: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, kind: str, status: int, seconds: float) -> None:
        self.statuses[f"{kind} {status}"] = self.statuses.get(f"{kind} {status}", 0) + 1
        if status < 300:
            self.seconds.setdefault(kind, []).append(seconds)


async def send_command(port: int, token: str, kind: str, name: str, results: Commands) -> None:
    """Send one request on its own connection."""
    body = b""
    if kind != "end":
        epsilon = 0.0001 if kind == "add" else 0.9
        sql = "SELECT COUNT(*) FROM visits"
        body = json.dumps({"name": name, "sql": sql, "window": "each", "epsilon": epsilon}).encode()
    line = f"DELETE /api/releases/{name}" if kind == "end" else "POST /api/releases"
    head = (
        f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    start_time = time.perf_counter()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body)
        status = await asyncio.wait_for(read_status(reader), 60)
        writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        status = 599
    results.add(kind, status, time.perf_counter() - start_time)


async def run_commands(port: int, token: str) -> Commands:
    """Send requests at a fixed rate, whatever the replies."""
    results, tasks, start_time = Commands(), list[asyncio.Task[None]](), time.perf_counter()
    for number in range(COMMAND_RATE * COMMAND_SECONDS):
        await asyncio.sleep(start_time + number / COMMAND_RATE - time.perf_counter())
        kind = {0: "add", 5: "end"}.get(number % 10, "refused")
        earlier = number - 5 - ADDED_SECONDS * COMMAND_RATE
        name = f"r{number}" if kind != "end" else f"r{earlier}"
        if kind != "end" or earlier >= 0:
            tasks.append(asyncio.create_task(send_command(port, token, kind, name, results)))
    await asyncio.gather(*tasks)
    return results


def measure_commands() -> None:
    """Measure ticks without requests, then ticks and replies during requests."""
    settings: dict[str, Any] = {"groups": COMMAND_GROUPS, "delay": f"{COMMAND_DELAY:g}s", "tick": f"{COMMAND_TICK}s"}
    ticks = COMMAND_SECONDS // COMMAND_TICK
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server(Path(folder), **settings, server=COMMAND_SETTINGS) as (port, token, pid),
    ):
        print(f"\n{COMMAND_GROUPS:,} groups, ticks of {COMMAND_TICK} s, publish_delay {COMMAND_DELAY:g} s")
        print_measurement("quiet", *asyncio.run(measure_ticks(port, token, 4, COMMAND_DELAY)), COMMAND_DELAY)
        command = [sys.executable, "-P", __file__, "--command-load", str(port), token]
        with start_process(command, stdout=subprocess.PIPE) as child:
            log, load = asyncio.run(measure_ticks(port, token, ticks, COMMAND_DELAY))
            results = Commands(**json.loads(child.communicate()[0]))
        print_measurement(f"{COMMAND_RATE} requests a second", log, load, COMMAND_DELAY)
        for kind, found in results.seconds.items():
            delays = sorted(each / COMMAND_DELAY for each in found)
            p50, p99 = (delays[int(share * (len(delays) - 1))] for share in (0.5, 0.99))
            print(
                f"{kind}: {len(delays)} accepted, p50 {p50:.2f}, p99 {p99:.2f}, worst {delays[-1]:.2f} publish_delays"
            )
        print(f"replies {dict(sorted(results.statuses.items()))}; memory {read_memory(pid):.0f} MiB")
        print("bar: accepted within 2 publish_delays, 0 late ticks")


async def run_downloads(port: int, path: str, seconds: float) -> Downloads:
    """Repeat a download on all connections until the time is over or SIGTERM arrives."""
    results, until = Downloads(), time.perf_counter() + seconds
    tasks = [asyncio.create_task(download(port, path, until, results)) for _ in range(DOWNLOADERS)]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await asyncio.wait([asyncio.create_task(stop.wait())], timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--soak", type=float, default=0)
    parser.add_argument("--load", nargs=4, metavar=("PORT", "TOKEN", "SECONDS", "CONNECTIONS"))
    parser.add_argument("--downloads", action="store_true")
    parser.add_argument("--commands", action="store_true")
    parser.add_argument("--command-load", nargs=2, metavar=("PORT", "TOKEN"))
    parser.add_argument("--query", default="format=csv", help="query string of the downloads")
    parser.add_argument("--download", nargs=3, metavar=("PORT", "PATH", "SECONDS"))
    arguments = parser.parse_args()
    if arguments.download:
        port, path, seconds = arguments.download
        print(json.dumps(asyncio.run(run_downloads(int(port), path, float(seconds))).__dict__))
    elif arguments.command_load:
        port, token = arguments.command_load
        print(json.dumps(asyncio.run(run_commands(int(port), token)).__dict__))
    elif arguments.commands:
        measure_commands()
    elif arguments.downloads:
        measure_downloads(arguments.query)
    elif arguments.load:
        port, token, seconds, connections = arguments.load
        print(asyncio.run(run_load(int(port), token, float(seconds), int(connections))).as_text())
    elif arguments.soak:
        run_soak(min(50, arguments.readers), arguments.soak)
    else:
        compare_rates(arguments.seconds)
        measure_readers(arguments.readers, arguments.seconds)


if __name__ == "__main__":
    main()
