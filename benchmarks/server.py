"""The server compared with a bare Starlette endpoint that only parses the same body; live readers; a soak.

    python -P benchmarks/server.py [--seconds N] [--readers N] [--soak SECONDS] [--downloads]

Events: batches of 1,000 events as JSON lines over loopback, on some connections that each wait for the reply
before they post again. The bare endpoint answers once it has parsed every line; ours once what the batch adds
up to is committed, encrypted, on disk. Both are run by the same uvicorn settings in a separate process,
one after the other, twice; the load comes from a third process that holds prepared bytes.

Readers: so many connections to /api/live while events are posted, a tick a second; each must see every tick,
once and in order. `--soak` does both for as long as it says and prints the server's memory every 30 s.

Downloads: `--downloads` alone, about 4 minutes. A stream of 1 s ticks has a history of HISTORY ticks and
GROUPS groups. DOWNLOADERS connections without a token repeat one CSV download of all of it for DOWNLOAD_TICKS
ticks. One curator posts ten batches a second, and one live reader notes when ticks arrive. A tick is late if
it comes half a publish_delay or more after its departure. A quiet period without downloads is printed first,
for comparison. Bar: no late tick, and a median of event posts below 0.2 s. Broken and refused downloads and
the memory of the server are printed too. Run it on a machine that does nothing else.
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

HERE = Path(sys.executable).parent
EVENTS = 1000  # of a batch
BATCHES = 16  # prepared ones, posted again and again under new keys
CONNECTIONS = 32
BAR = 0.7
REGIONS = 20
NOW = 9_876_543_210_987  # stands for the time at which a batch is posted

HISTORY, GROUPS, DOWNLOADERS = 2500, 200, 40
DOWNLOAD_TICKS, QUIET_TICKS = 200, 20
POST_BAR = 0.2  # seconds, median

PIPELINE = """
[stream]
name = "visits"
source = "http"
time = "ts"
time_format = "epoch ms"
tick = "1s"
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

[[release]]
name = "visits_by_region"
sql = "SELECT region, COUNT(*), AVG(temperature) FROM visits GROUP BY region"
window = "each"
epsilon = 0.5
"""

BARE = """
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
    """What some connections saw."""

    batches: int = 0
    refused: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.batches * EVENTS / self.seconds

    def latency(self, share: float) -> float:
        found = sorted(self.latencies)
        return found[min(len(found) - 1, int(share * len(found)))] if found else float("nan")

    def as_text(self) -> str:
        return json.dumps({**self.__dict__, "latencies": self.latencies})


def prepared() -> list[bytes]:
    """Bodies of JSON lines; their times are left open."""
    bodies = []
    for batch in range(BATCHES):
        rows = (
            {
                "ts": NOW,
                "region": f"region-{(7 * place + batch) % REGIONS:02d}",
                "temperature": 35 + (place * 37 % 70) / 10,
                "patient": f"p{place * 7919 % 99991}",
            }
            for place in range(EVENTS)
        )
        bodies.append("".join(json.dumps(row) + "\n" for row in rows).encode())
    return bodies


async def replied(reader: asyncio.StreamReader) -> int:
    """The status of one reply, whose body is read."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split(b" ", 2)[1])


async def posting(port: int, token: str, bodies: list[bytes], until: float, load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heads = [
        f"POST /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
        for body in bodies
    ]
    own, count = f"{os.getpid()}-{id(reader)}", 0
    while (begun := time.perf_counter()) < until:
        place = count % BATCHES
        writer.write(f"{heads[place]}Batch-Key: {own}-{count}\r\n\r\n".encode())
        writer.write(bodies[place].replace(b"%d" % NOW, b"%d" % int(time.time() * 1000)))
        status = await replied(reader)
        load.latencies.append(time.perf_counter() - begun)
        load.batches += status == 200
        load.refused += status != 200
        count += 1
    writer.close()


async def posted(port: int, token: str, seconds: float, connections: int) -> Load:
    bodies, load = prepared(), Load()
    begun = time.perf_counter()
    until = begun + seconds
    await asyncio.gather(*(posting(port, token, bodies, until, load) for _ in range(connections)))
    load.seconds = time.perf_counter() - begun
    return load


def loaded(port: int, token: str, seconds: float, connections: int = CONNECTIONS) -> Load:
    """Run in a separate process."""
    command = [sys.executable, "-P", __file__, "--load", str(port), token, str(seconds), str(connections)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Load(**json.loads(told))


@dataclass
class Reader:
    """Observations of one live connection."""

    ticks: list[int] = field(default_factory=list)
    late: list[float] = field(default_factory=list)  # seconds after the tick could leave at the earliest


async def reading(port: int, seen: Reader, ready: asyncio.Semaphore, opened: list[int]) -> None:
    async with ready:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        writer.write(f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
    opened.append(1)
    while True:
        line = await reader.readline()
        if not line:
            return
        if line.startswith(b"data:") and b'"tick"' in line:
            told = json.loads(line[5:])
            seen.ticks.append(told["tick"])
            ended = time.mktime(time.strptime(told["end"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
            seen.late.append(time.time() - ended - 2.0)


async def watched(port: int, count: int, seconds: float) -> list[Reader]:
    readers: list[Reader] = [Reader() for _ in range(count)]
    opened: list[int] = []
    ready = asyncio.Semaphore(50)
    tasks = [asyncio.create_task(reading(port, each, ready, opened)) for each in readers]
    while len(opened) < count:
        await asyncio.sleep(0.05)
    for each in readers:
        each.ticks.clear()
        each.late.clear()
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return readers


def memory(pid: int) -> float:
    """MiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


@contextmanager
def process(command: list[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(command, text=True, **settings)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answering(port: int) -> None:
    import socket

    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"port {port} must answer, got nothing")


@contextmanager
def bare() -> Iterator[int]:
    port = free_port()
    with process([sys.executable, "-c", BARE, str(port)]):
        answering(port)
        yield port


@contextmanager
def ours(
    folder: Path, *, groups: int = REGIONS, history: int = 0, delay: str = "250ms", rate: float = 1e6
) -> Iterator[tuple[int, str, int]]:
    """A server on a fresh pipeline: its port, a token, its process."""
    start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - history))
    regions = ", ".join(f'"region-{place:02d}"' for place in range(groups))
    text = PIPELINE.format(start=start, regions=regions, delay=delay, rate=rate)
    (folder / "bench.toml").write_text(text)
    run = [str(HERE / "streamgauge")]
    subprocess.run([*run, "key", "create", "bench.key"], cwd=folder, check=True, capture_output=True)
    made = [*run, "token", "create", "bench.toml", "load", "--role", "curator"]
    told = subprocess.run(made, cwd=folder, check=True, capture_output=True, text=True)
    token = re.search(r"sg_curator_\S+", told.stdout + told.stderr)
    if token is None:
        raise ValueError("token create must print a token, got none")
    port = free_port()
    with process([*run, "serve", "bench.toml", "--port", str(port), "--quiet"], cwd=folder) as child:
        answering(port)
        time.sleep(2)
        yield port, token[0], child.pid


def compare_rates(seconds: float) -> None:
    found: dict[str, list[Load]] = {"bare": [], "ours": []}
    for _ in range(2):
        with bare() as port:
            found["bare"].append(loaded(port, "x", seconds))
        with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (port, token, _):
            found["ours"].append(loaded(port, token, seconds))
    print(f"\nbatches of {EVENTS} events, {CONNECTIONS} connections, {seconds:.0f} s, better of 2")
    print(f"{'':>8}{'events/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'refused':>9}")
    best = {name: max(loads, key=lambda load: load.rate) for name, loads in found.items()}
    for name, load in best.items():
        times = (1000 * load.latency(0.5), 1000 * load.latency(0.99))
        print(f"{name:>8}{load.rate:>12,.0f}{times[0]:>9.0f}{times[1]:>9.0f}{load.refused:>9}")
    print(f"ratio {best['ours'].rate / best['bare'].rate:.2f}, bar {BAR}")


def told_of(readers: list[Reader]) -> str:
    """Whether each saw every tick, and how late."""
    first = max(each.ticks[0] for each in readers if each.ticks)
    last = min(each.ticks[-1] for each in readers if each.ticks)
    wanted = list(range(first, last + 1))
    whole = sum([tick for tick in each.ticks if first <= tick <= last] == wanted for each in readers)
    late = sorted(moment for each in readers for moment in each.late)
    p50, p99 = (late[int(share * (len(late) - 1))] for share in (0.5, 0.99))
    return (
        f"{whole} of {len(readers)} readers saw each of {len(wanted)} ticks once and in order; "
        f"after the tick closed: p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms"
    )


def watch_readers(count: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (port, token, pid):
        command = [sys.executable, "-P", __file__, "--load", str(port), token, str(seconds + 5), "2"]
        with process(command, stdout=subprocess.PIPE) as load:
            readers = asyncio.run(watched(port, count, seconds))
            told = json.loads(load.communicate()[0])
        rate = Load(**told).rate
        print(f"\n{count} live readers, {rate:,.0f} events a second meanwhile, {memory(pid):.0f} MiB")
        print(told_of(readers))


def soak(count: int, seconds: float) -> None:
    """Ten minutes at a steady load: memory must be flat."""
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as (port, token, pid):
        command = [sys.executable, "-P", __file__, "--load", str(port), token, str(seconds), "1"]
        with process(command, stdout=subprocess.DEVNULL):
            print(f"\nsoak: {seconds:.0f} s, {count} readers, one connection posting")
            asyncio.run(soaked(port, pid, count, seconds))


async def soaked(port: int, pid: int, count: int, seconds: float) -> None:
    watching = asyncio.create_task(watched(port, count, seconds))
    begun = time.perf_counter()
    while not watching.done():
        print(f"  {time.perf_counter() - begun:5.0f} s  {memory(pid):6.1f} MiB", flush=True)
        await asyncio.wait([watching], timeout=30)
    print(told_of(watching.result()))


@dataclass
class Downloads:
    """Results of connections that repeat one download."""

    whole: int = 0
    rows: int = 0
    size: int = 0
    broken: int = 0
    refused: dict[int, int] = field(default_factory=dict)


async def download(port: int, path: str, until: float, found: Downloads) -> None:
    """Repeat a download on one connection, which is opened again if the server closes it."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    while time.perf_counter() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        try:
            while time.perf_counter() < until:
                writer.write(request)
                if not await receive_download(reader, until, found):
                    await asyncio.sleep(0.5)
        except (asyncio.IncompleteReadError, ConnectionError):
            found.broken += time.perf_counter() < until
        writer.close()


async def receive_download(reader: asyncio.StreamReader, until: float, found: Downloads) -> bool:
    """Read one reply; return whether it was a download."""
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
        found.size += len(data)
        found.rows += data.count(b"\n") if status == 200 else 0
    if status != 200:
        found.refused[status] = found.refused.get(status, 0) + 1
    found.whole += status == 200 and (not left or tail.endswith(end))
    return status == 200


async def post_steadily(port: int, token: str, until: float, load: Load) -> None:
    """Post ten batches a second on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    bodies, own, begun = prepared(), f"{os.getpid()}-{id(reader)}", time.perf_counter()
    for count in range(10**6):
        await asyncio.sleep(begun + count / 10 - time.perf_counter())
        if time.perf_counter() >= until:
            break
        body = bodies[count % BATCHES].replace(b"%d" % NOW, b"%d" % int(time.time() * 1000))
        head = (
            f"POST /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
            f"Batch-Key: {own}-{count}\r\n\r\n"
        )
        sent = time.perf_counter()
        writer.write(head.encode() + body)
        load.refused += await replied(reader) != 200
        load.latencies.append(time.perf_counter() - sent)
    writer.close()


async def measure(port: int, token: str, ticks: int, delay: float) -> tuple[Reader, Load]:
    """Post events and follow the live stream for so many ticks."""
    seen, load, opened = Reader(), Load(), list[int]()
    following = asyncio.create_task(reading(port, seen, asyncio.Semaphore(1), opened))
    while not seen.late or seen.late[-1] > 10:  # the history comes first
        await asyncio.sleep(0.01)
    seen.ticks.clear()
    seen.late.clear()
    posts = asyncio.create_task(post_steadily(port, token, time.perf_counter() + ticks * 10, load))
    while len(seen.ticks) < ticks:
        await asyncio.sleep(0.05)
    for task in (following, posts):
        task.cancel()
    await asyncio.gather(following, posts, return_exceptions=True)
    seen.late = [late - delay for late in seen.late]
    return seen, load


def print_measured(name: str, seen: Reader, load: Load, delay: float) -> None:
    late = sum(each >= delay / 2 for each in seen.late)
    times = (load.latency(0.5), load.latency(0.99), max(load.latencies, default=float("nan")))
    posts = "median {:.3f} s, p99 {:.3f} s, worst {:.3f} s".format(*times)
    print(f"{name}: {late} of {len(seen.late)} ticks late, the worst by {max(seen.late):.2f} s;", end=" ")
    print(f"{len(load.latencies)} event posts, {posts}, {load.refused} refused", flush=True)


def wait_for_history(port: int, start: float) -> None:
    """Return when the run has published its past ticks and is on time."""
    import urllib.request

    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/releases") as reply:
            if json.load(reply)["published_until"]["tick"] >= time.time() - start - 6:
                return
        time.sleep(1)


def watch_downloads(query: str) -> None:
    """Measure ticks and posts, without downloads and then under them."""
    delay, path = 1.0, f"/api/releases/visits_by_region?{query}"
    settings: dict[str, Any] = {"groups": GROUPS, "history": HISTORY, "delay": "1s", "rate": 50.0}
    start = time.time() - HISTORY
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder), **settings) as (port, token, pid):
        wait_for_history(port, start)
        time.sleep(3)
        print(f"\n{HISTORY:,} ticks of {GROUPS} groups; {DOWNLOADERS} connections repeat GET {path}")
        before = memory(pid)
        print_measured("quiet", *asyncio.run(measure(port, token, QUIET_TICKS, delay)), delay)
        command = [sys.executable, "-P", __file__, "--download", str(port), path, str(DOWNLOAD_TICKS * 3)]
        with process(command, stdout=subprocess.PIPE) as child:
            begun = time.perf_counter()
            seen, load = asyncio.run(measure(port, token, DOWNLOAD_TICKS, delay))
            child.send_signal(signal.SIGTERM)
            found = Downloads(**json.loads(child.communicate()[0]))
            seconds = time.perf_counter() - begun
        print_measured("downloads", seen, load, delay)
        rates = f"{found.rows / seconds:,.0f} rows/s, {found.size / seconds / 1e6:.1f} MB/s"
        print(f"{found.whole} whole downloads, {rates}, {found.broken} broken, refused {found.refused};", end=" ")
        print(f"memory {before:.0f} -> {memory(pid):.0f} MiB")
        print(f"bar: 0 late ticks, median of event posts below {POST_BAR} s")


async def download_all(port: int, path: str, seconds: float) -> Downloads:
    """Repeat a download on all connections until the time is over or SIGTERM comes."""
    found, until = Downloads(), time.perf_counter() + seconds
    tasks = [asyncio.create_task(download(port, path, until, found)) for _ in range(DOWNLOADERS)]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await asyncio.wait([asyncio.create_task(stop.wait())], timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--soak", type=float, default=0)
    parser.add_argument("--load", nargs=4, metavar=("PORT", "TOKEN", "SECONDS", "CONNECTIONS"))
    parser.add_argument("--downloads", action="store_true")
    parser.add_argument("--query", default="format=csv", help="of the downloads")
    parser.add_argument("--download", nargs=3, metavar=("PORT", "PATH", "SECONDS"))
    asked = parser.parse_args()
    if asked.download:
        port, path, seconds = asked.download
        print(json.dumps(asyncio.run(download_all(int(port), path, float(seconds))).__dict__))
    elif asked.downloads:
        watch_downloads(asked.query)
    elif asked.load:
        port, token, seconds, connections = asked.load
        print(asyncio.run(posted(int(port), token, float(seconds), int(connections))).as_text())
    elif asked.soak:
        soak(min(50, asked.readers), asked.soak)
    else:
        compare_rates(asked.seconds)
        watch_readers(asked.readers, asked.seconds)


if __name__ == "__main__":
    main()
