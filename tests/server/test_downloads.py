"""Downloads: whole releases as CSV and Arrow, in blocks, fixed at the moment of the request."""

import asyncio
import http.client
import io
import json
import sys
import urllib.error
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from sqlite3 import connect
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest

from streamgauge.config.settings import ServerSettings
from streamgauge.releases.release import Group, Releases, ReleaseSchema, TickRelease
from streamgauge.server.http import read_worker, serving
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.read_worker import ReadWorker
from streamgauge.server.routes.download_formats import build_format, load_arrow
from streamgauge.server.routes.downloads import BlockReader
from streamgauge.server.routes.release_pages import slice_groups
from streamgauge.server.routes.releases import ReleaseRoutes
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning
from streamgauge.store.schema import STORE_FILE
from tests.support.served import (
    START,
    Stepped,
    app_of,
    ask,
    close,
    committed,
    eventually,
    file_of,
    leave,
    listening,
    running,
    stepped,
    write,
)

TICKS, GROUPS = 110, 100
ROWS = TICKS * (GROUPS + 1)  # more than the 10,000 of a page
RELEASES: list[dict[str, Any]] = [
    {"name": "wide", "sql": "SELECT h, COUNT(*), SUM(x) FROM v GROUP BY h"},
    {"name": "up", "sql": "SELECT g, COUNT(*) FROM v GROUP BY ROLLUP(g)"},
    {"name": "all", "sql": "SELECT COUNT(*) FROM v"},
    {"name": "words", "sql": "SELECT w, COUNT(*) FROM v GROUP BY w", "epsilon": 1, "delta": 1e-6},
]
COLUMNS = {
    "g": {"values": ["a", "b"]},
    "h": {"values": [f"h{n:03d}" for n in range(GROUPS + 1)]},
    "w": {"max_groups": 50},
    "x": {"bounds": [0, 10], "grid": 1},
}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A run over a batch source whose ticks are all published."""
    folder, clock = tmp_path_factory.mktemp("downloads"), stepped()
    settings = {"columns": COLUMNS, "budget": {"epsilon": 20, "delta": 1e-5}, "mode": "batch"}
    file = file_of(folder, *RELEASES, end="2026-01-05T00:18:20Z", **settings)
    events = [
        {"ts": START + s, "g": "ab"[s % 2], "h": f"h{s % 7:03d}", "x": s % 11, "w": f"word {s // 300}, {n % 3}"}
        for s in range(10 * TICKS)
        for n in range(12)
    ]
    (folder / "v.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    with running(file, clock) as made:
        eventually(lambda: made.publisher.final_commit is not None or made.state == "ended", "the end of the run")
        leave(made, clock, 8)
        yield made


def get_table(runner: Runner, path: str) -> pa.Table:
    return pa.ipc.open_stream(ask(runner, path).content).read_all()


def get_frame(runner: Runner, path: str) -> pandas.DataFrame:
    return pandas.read_csv(io.BytesIO(ask(runner, path).content), keep_default_na=False)


def test_csv_and_arrow_have_every_row_of_a_long_release(runner: Runner) -> None:
    for path in ("wide?format=csv", "wide?format=arrow"):
        reply = ask(runner, f"/api/releases/{path}")
        assert (reply.headers["row-count"], reply.headers["tick-count"]) == (str(ROWS), str(TICKS))
        assert "link" not in reply.headers
    frame, table = (
        get_frame(runner, "/api/releases/wide?format=csv"),
        get_table(runner, "/api/releases/wide?format=arrow"),
    )
    assert len(frame) == table.num_rows == ROWS
    assert list(frame) == ["release", *table.column_names]
    assert frame["tick"].tolist() == table["tick"].to_pylist() == sorted(frame["tick"].tolist())
    for name in ("h", "count", "sum_x_low", "count_high"):
        assert frame[name].tolist() == table[name].to_pylist()


def test_the_documented_pandas_line_returns_the_whole_release(runner: Runner) -> None:
    with listening(runner) as port:
        frame = pandas.read_csv(f"http://127.0.0.1:{port}/api/releases/wide?format=csv")
    assert (len(frame), frame["tick"].max()) == (ROWS, TICKS)


QUERIES = (
    *("", "from=3&to=9", "last=4", "step=7", "from=2&step=109", "from=999", "step=2147483648"),
    *("measure=count", "from=5&to=5"),
)


@pytest.mark.one_of_each
@pytest.mark.parametrize("cells", [3, 7, 64])
@pytest.mark.parametrize("name", ["up", "words", "all"])
def test_blocks_of_every_size_add_up_to_the_same_rows(runner: Runner, name: str, cells: int) -> None:
    groups = {"up": ["group=g:a"], "words": ["group=w:word 1, 2", "group=w:none"], "all": []}[name]
    for query in (*QUERIES, *groups):
        paths = [f"/api/releases/{name}?{query}&{form}" for form in FORMS]
        whole = [ask(runner, path).content for path in paths]
        parts = [ask(runner, path, Tuning(block_cells=cells)).content for path in paths]
        assert parts[:2] == whole[:2], query
        tables = [pa.ipc.open_stream(each).read_all() for each in (parts[2], whole[2])]
        assert tables[0].equals(tables[1], check_metadata=True), query


FORMS = ("format=csv", "format=csv&shape=long", "format=arrow")


def test_blocks_and_pages_of_narrow_releases_have_few_ticks(runner: Runner) -> None:
    whole, rows = Client(runner, "all?format=csv"), ask(runner, "/api/releases/all").json()["rows"]
    whole.get()
    assert (len(whole.messages), len(rows)) == (4, TICKS)  # head, header, one block, end
    few = Tuning(block_ticks=9, max_page_ticks=9)
    parts = Client(runner, "all?format=csv", tuning=few)
    assert parts.get() == whole.body
    blocks = [message["body"].count(b"\n") for message in parts.messages[2:-1]]
    assert blocks == [9] * (TICKS // 9) + [TICKS % 9]
    first = ask(runner, "/api/releases/all", few).json()
    assert (first["rows"], first["rows_total"]) == (rows[:9], TICKS)
    assert ask(runner, first["next"], few).json()["rows"] == rows[9:18]


def test_tick_larger_than_a_block_is_sent_in_parts(runner: Runner) -> None:
    paths = [f"/api/releases/wide?to=3&{form}" for form in FORMS]
    whole = [ask(runner, path).content for path in paths]
    small = Tuning(block_cells=20, block_bytes=1, piece_bytes=11)  # of 202 cells
    parts = [ask(runner, path, small).content for path in paths]
    assert parts[0] == whole[0]
    assert sorted(parts[1].split(b"\n")) == sorted(whole[1].split(b"\n"))
    assert pa.ipc.open_stream(parts[2]).read_all().equals(pa.ipc.open_stream(whole[2]).read_all())


def test_csv_and_arrow_rows_equal_those_of_json(runner: Runner) -> None:
    for name in ("up", "words", "all"):
        rows = ask(runner, f"/api/releases/{name}").json()["rows"]
        frame = get_frame(runner, f"/api/releases/{name}?format=csv")
        table = get_table(runner, f"/api/releases/{name}?format=arrow")
        assert [row["count"]["value"] for row in rows] == frame["count"].tolist() == table["count"].to_pylist()
        keys = sorted({key for row in rows for key in row["group"]})
        for key in keys:
            assert [row["group"].get(key) for row in rows] == table[key].to_pylist()
            assert [row["group"].get(key, "") for row in rows] == frame[key].tolist()


def test_columns_do_not_depend_on_the_selected_groups(runner: Runner) -> None:
    for form in ("csv", "arrow"):
        path = f"/api/releases/up?format={form}"
        get = get_frame if form == "csv" else get_table
        heads = [list(getattr(get(runner, path + more), "columns" if form == "csv" else "column_names"))
                 for more in ("", "&group=g:a", "&group=g:none", "&from=999")]  # fmt: skip
        assert [head == heads[0] for head in heads] == [True] * 4
        assert {"level", "g", "count", "count_low", "count_high"} <= set(heads[0])


def test_row_counts_are_exact_or_left_out_if_unknown(runner: Runner) -> None:
    for name, query in [("words", ""), ("words", "&step=3"), ("up", "&group=g:b&last=7"), ("up", "&from=999")]:
        reply = ask(runner, f"/api/releases/{name}?format=csv{query}")
        rows = reply.text.count("\n") - 1
        table = get_table(runner, f"/api/releases/{name}?format=arrow{query}")
        assert reply.headers["row-count"] == str(rows)
        assert table.schema.metadata == {
            b"tick_count": reply.headers["tick-count"].encode(),
            b"row_count": str(rows).encode(),
        }
    reply = ask(runner, "/api/releases/words?format=csv&group=w:word 1, 1&from=2")
    assert ("row-count" in reply.headers, reply.headers["tick-count"]) == (False, str(TICKS - 1))


def test_json_pages_have_number_of_remaining_rows(runner: Runner) -> None:
    for query in ("wide?limit=10000", "wide?limit=777&step=9", "words?limit=1", "up?limit=2&from=100"):
        path, found = f"/api/releases/{query}", []
        while path:
            page = ask(runner, path).json()
            found.append(page)
            path = page["next"]
        counts = [len(page["rows"]) for page in found]
        assert len(found) > 1
        assert [page["rows_total"] for page in found] == [sum(counts[n:]) for n in range(len(found))]
        ticks = len({row["tick"] for page in found for row in page["rows"]})
        assert query.startswith("words") or found[0]["ticks_total"] == ticks
    page = ask(runner, "/api/releases/words?group=w:word 1, 1").json()
    assert (page["rows_total"], page["ticks_total"], page["next"]) == (None, TICKS, None)
    assert ask(runner, "/api/releases/wide?shape=columns&last=2").json()["rows_total"] == 2 * (GROUPS + 1)


def test_head_has_the_headers_of_a_download_and_no_body(runner: Runner) -> None:
    with listening(runner) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        replies = []
        for method in ("HEAD", "GET"):
            connection.request(method, "/api/releases/up?format=csv")
            reply = connection.getresponse()
            replies.append((reply.status, dict(reply.getheaders()), reply.read()))
        connection.close()
    (head, got) = replies
    assert (head[0], head[2]) == (200, b"")
    names = ("ETag", "Row-Count", "Tick-Count", "Cache-Control", "content-type")
    lower = [{name.lower(): value for name, value in each[1].items()} for each in replies]
    assert all(lower[0][name.lower()] == lower[1][name.lower()] for name in names)
    assert int(lower[1]["row-count"]) == got[2].count(b"\n") - 1


class BrokenError(Exception):
    """A store that cannot be read any more."""


class BreakingReader(BlockReader):
    """A reader that fails after three blocks."""

    blocks = 0

    def read(self) -> bytes | None:
        self.blocks += 1
        if self.blocks > 3:
            raise BrokenError
        return super().read()


class BreakingRoutes(ReleaseRoutes):
    block_reader = BreakingReader


def test_client_detects_broken_transfer(runner: Runner) -> None:
    with listening(runner, releases=BreakingRoutes) as port:
        for form in ("csv", "arrow"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", f"/api/releases/wide?format={form}")
            reply = connection.getresponse()
            with pytest.raises(http.client.IncompleteRead) as broken:
                reply.read()
            connection.close()
            assert 0 < len(broken.value.partial) < 2**22
            assert reply.headers["row-count"] == str(ROWS)
        with pytest.raises((http.client.IncompleteRead, urllib.error.URLError)):
            pandas.read_csv(f"http://127.0.0.1:{port}/api/releases/wide?format=csv")


def test_cut_arrow_stream_is_refused_or_lacks_rows(runner: Runner) -> None:
    content = ask(runner, "/api/releases/up?format=arrow&last=9").content
    for end in range(0, len(content) - 8):
        try:
            table = pa.ipc.open_stream(content[:end]).read_all()
        except (pa.ArrowInvalid, OSError):
            continue
        assert end < len(content) - 8
        assert table.num_rows < int(table.schema.metadata[b"row_count"])


class Client:
    """An ASGI client that can do something after each message, stall, or disconnect."""

    def __init__(
        self,
        runner: Runner,
        path: str,
        limits: Limits | None = None,
        *,
        worker: ReadWorker | None = None,
        **settings: Any,
    ) -> None:
        name, _, query = path.partition("?")
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": f"/api/releases/{name}",
            "query_string": query.encode(),
            "headers": [],
            "client": ("10.0.0.7", 1),
        }
        self.messages: list[dict[str, Any]] = []
        self.gone = False
        self.limits = limits or Limits(ServerSettings())
        self.app = app_of(runner, limits=self.limits, worker=worker, **settings)

    async def receive(self) -> dict[str, Any]:
        while not self.gone:
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.messages.append(message)
        await self.after()

    async def after(self) -> None:
        """Do nothing."""

    def get(self) -> bytes:
        asyncio.run(self.app(self.scope, self.receive, self.send))
        return self.body

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.messages)

    @property
    def whole(self) -> bool:
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)


def test_entries_published_during_download_do_not_change_it(tmp_path: Path) -> None:
    write(tmp_path, 100)
    clock = stepped()
    with running(file_of(tmp_path), clock, tuning=Tuning(block_cells=1)) as runner:
        for tick in (1, 2, 3):
            close(runner, clock, tick)
        leave(runner, clock, 40)
        close(runner, clock, 4)
        for form in FORMS:
            before = Client(runner, f"counts?{form}")
            assert before.get()
            during = Client(runner, f"counts?{form}")
            during.after = partial(leave_one_more, runner, clock, during)  # type: ignore[method-assign]
            assert (during.get(), during.messages[0]) == (before.body, before.messages[0])
            assert during.whole
            later = Client(runner, f"counts?{form}")
            assert later.get() != before.body


async def leave_one_more(runner: Runner, clock: Stepped, client: Client) -> None:
    """Publish the current tick after the second message, and commit another one."""
    if len(client.messages) == 2:
        tick = committed(runner)[1]
        await asyncio.to_thread(leave, runner, clock, 4 * ceil((10 * tick + 9) / 4))
        await asyncio.to_thread(close, runner, clock, tick + 1)


def test_no_read_transaction_is_open_between_blocks(runner: Runner) -> None:
    client, found = Client(runner, "up?format=csv", tuning=Tuning(block_cells=100)), []

    async def checkpoint() -> None:
        with connect(runner.file.folder / STORE_FILE, timeout=0) as store:
            found.append(store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])

    client.after = checkpoint  # type: ignore[method-assign]
    client.get()
    assert client.whole
    assert found == [0] * len(client.messages)
    assert len(found) > 5


def test_disconnect_ends_the_reading(runner: Runner) -> None:
    client = Client(runner, "up?format=csv", Limits(ServerSettings(max_downloads=1)), tuning=Tuning(block_cells=1))

    async def disconnect() -> None:
        client.gone = client.gone or len(client.messages) > 3
        await asyncio.sleep(0.01)

    client.after = disconnect  # type: ignore[method-assign]
    client.get()
    assert not client.whole
    assert len(client.messages) < TICKS
    again = Client(runner, "up?format=csv", client.limits)
    again.get()
    assert again.whole


def test_a_client_that_stalls_is_dropped(runner: Runner) -> None:
    client = Client(runner, "up?format=csv", Limits(ServerSettings(max_downloads=1)), tuning=Tuning(stall_seconds=0.01))

    async def stall() -> None:
        if len(client.messages) > 2:
            await asyncio.sleep(60)

    client.after = stall  # type: ignore[method-assign]
    client.get()
    assert (client.whole, len(client.messages)) == (False, 3)
    with client.limits.admit_download("another"):
        pass


@pytest.mark.parametrize(
    ("settings", "status"),
    [({"max_downloads_per_client": 1}, 429), ({"max_downloads": 1, "max_downloads_per_client": 9}, 503)],
)
def test_excess_download_is_refused_and_other_reads_succeed(
    runner: Runner, settings: dict[str, int], status: int
) -> None:
    limits, replies = Limits(replace(ServerSettings(), **settings)), []
    first = Client(runner, "up?format=csv", limits)

    async def read_others() -> None:
        if len(first.messages) == 1:
            for method, path in (("GET", "up?format=arrow"), ("HEAD", "up?format=csv"), ("GET", "up?last=1")):
                other = Client(runner, path, limits)
                other.scope["method"] = method
                await other.app(other.scope, other.receive, other.send)
                replies.append(other.messages[0])

    first.after = read_others  # type: ignore[method-assign]
    first.get()
    assert first.whole
    assert [reply["status"] for reply in replies] == [status, 200, 200]
    assert dict(replies[0]["headers"])[b"retry-after"] == b"5"
    again = Client(runner, "up?format=csv", limits)
    again.get()
    assert again.whole


def test_read_worker_alternates_between_clients() -> None:
    order: list[str] = []

    async def run() -> None:
        worker = ReadWorker()
        names = ["many"] * 6 + ["one", "two"]
        await asyncio.gather(*(worker.run(name, lambda name=name: order.append(name)) for name in names))
        assert not worker.queues

    asyncio.run(run())
    assert order == ["many", "one", "two", *["many"] * 5]


def test_read_worker_alternates_between_pages_and_downloads() -> None:
    order: list[str] = []

    async def run() -> None:
        worker = ReadWorker()
        lanes: list[tuple[read_worker.Lane, str]] = [("downloads", str(n)) for n in range(5)]
        lanes += [("pages", str(n)) for n in range(3)]  # of the same clients
        await asyncio.gather(*(worker.run(name, lambda lane=lane: order.append(lane), lane) for lane, name in lanes))
        assert not worker.queues

    asyncio.run(run())
    assert order == ["downloads", *["pages", "downloads"] * 3, "downloads"]


def test_reads_above_limit_of_waiting_reads_are_refused(runner: Runner) -> None:
    """Their clients have disconnected, but the requests still wait."""
    client, statuses = Client(runner, "up?last=1"), []
    limits, most = client.limits, read_worker.MAX_WAITING_READS

    async def request(path: str, name: str) -> None:
        one = Client(runner, path, limits)
        one.app, one.gone = client.app, True
        one.scope["client"] = (name, 1)
        await one.app(one.scope, one.receive, one.send)
        statuses.append((path, name, one.messages[0]["status"]))

    async def run() -> None:
        many = [request("up?last=1", "10.0.0.7") for _ in range(most + 3)]
        others = [request("up?last=1&format=csv", "10.0.0.7"), request("up?last=1", "10.0.0.8")]
        await asyncio.gather(*many, *others)
        await request("up?last=1", "10.0.0.7")

    asyncio.run(run())
    refused = ("up?last=1", "10.0.0.7", 429)
    assert (len(statuses), statuses.count(refused), statuses[:3]) == (most + 6, 3, [refused] * 3)
    assert all(status == 200 for _, _, status in statuses[3:])


def test_read_worker_rests_after_each_read() -> None:
    slept: list[float] = []
    times = iter([0.0, 0.25, 1.0, 1.125, 2.0, 9.0, 10.0, 10.0])

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def run() -> None:
        worker = ReadWorker(now=lambda: 100.0, processor_time=lambda: next(times), sleep=sleep)
        assert await worker.run("one", lambda: 7) == 7
        with pytest.raises(BrokenError):
            await worker.run("one", fail)
        assert await worker.run("two", lambda: 8) == 8
        assert await worker.run("two", lambda: 9) == 9

    asyncio.run(run())
    factor = read_worker.REST_FACTOR
    assert slept == [0.0, 0.25 * factor, 0.125 * factor, read_worker.MAX_REST_SECONDS]


def test_arrow_is_loaded_before_the_worker_reads(runner: Runner) -> None:
    """The first import takes seconds, and other reads would wait for it."""
    steps: list[str] = []

    class Routes(ReleaseRoutes):
        async def prepare_format(self, form: str) -> None:
            await super().prepare_format(form)
            steps.append(f"{form} loaded: {load_arrow.cache_info().currsize}")

    class Worker(ReadWorker):
        async def run(self, *call: Any) -> Any:
            steps.append("read")
            return await super().run(*call)

    load_arrow.cache_clear()
    client = Client(runner, "up?format=arrow", worker=Worker(), releases=Routes)
    client.get()
    assert client.whole
    assert steps[:2] == ["arrow loaded: 1", "read"]


def fail() -> None:
    raise BrokenError


@pytest.mark.parametrize("labels", [(1, 2, 3), (True, False), (0.5, 2.5), ("a", 'b"', ""), (1, "a", False), (1, 2.5)])
def test_parts_of_a_tick_have_its_label_types(labels: tuple[Any, ...]) -> None:
    places = (Group(0, ()), *(Group(1, (("level_of", label),)) for label in labels))
    shape = ReleaseSchema("r", ("count", "sum"), places)
    numbers = np.arange(2.0 * len(places)).reshape(2, -1)
    numbers[0, 1] = np.nan
    tick = TickRelease(shape, 7, 0, 10**6, numbers, numbers, numbers, numbers, numbers > 1)
    form = build_format("arrow", "wide", shape, (), {})
    parts = [form.encode([slice_groups(tick, first, 1)]) for first in range(len(places))]
    table = pa.ipc.open_stream(b"".join([form.header, *parts, form.end])).read_all()
    assert table.equals(Releases(shape, [tick]).to_arrow())


def test_server_shortens_thread_switch_interval() -> None:
    before = sys.getswitchinterval()
    with serving.shorten_switch_interval():
        assert sys.getswitchinterval() == serving.SWITCH_INTERVAL_SECONDS < before
    assert sys.getswitchinterval() == before
