"""Reading over HTTP: every format has the same numbers, pages add up, closed ranges are cached, and no reply
reveals unpublished ticks."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest

from streamgauge.releases.release import TickRelease
from streamgauge.server.publishing.clock import PublishSchedule
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning
from tests.support.served import Stepped, ask, close, eventually, file_of, leave, running, stepped, write

TICKS = 6
RELEASES: list[dict[str, Any]] = [
    {"name": "counts", "sql": "SELECT g, COUNT(*), AVG(x) FROM v GROUP BY g", "title": "How many"},
    {"name": "up", "sql": "SELECT g, COUNT(*) FROM v GROUP BY ROLLUP(g)"},
    {
        "name": "smooth",
        "sql": "SELECT g, COUNT(*) FROM v GROUP BY g",
        "mechanism": "Pegasus",
        "alerts": {"kind": "drop", "size": 2, "window": "30s"},
    },
    {
        "name": "several",
        "sql": "SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g",
        "window": ["sliding 30s", "sliding 20s"],
    },
]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A run with six published ticks and a committed seventh."""
    folder, clock = tmp_path_factory.mktemp("read"), stepped()
    write(folder, 100)
    with running(file_of(folder, *RELEASES), clock) as made:
        for tick in range(1, TICKS + 1):
            close(made, clock, tick)
        leave(made, clock, 72)
        close(made, clock, TICKS + 1)
        yield made


def rows_of(reply: httpx.Response) -> list[dict[str, Any]]:
    assert reply.status_code == 200, reply.text
    return list(reply.json()["rows"])


def published(runner: Runner, name: str = "counts") -> list[TickRelease]:
    """Return the published ticks of a release from the store."""
    from streamgauge.runtime.published import read_releases

    return list(read_releases(runner.file, name, 1, TICKS))


def test_rows_are_those_of_sinks_without_traces(runner: Runner) -> None:
    for name in ("counts", "up", "smooth"):
        details = [row for item in published(runner, name) for row in item.rows()]
        assert rows_of(ask(runner, f"/api/releases/{name}")) == [
            {key: value for key, value in row.items() if key != "trace"} for row in details
        ]


def test_columns_have_same_numbers_as_rows(runner: Runner) -> None:
    for name in ("counts", "up"):
        rows = rows_of(ask(runner, f"/api/releases/{name}"))
        details = ask(runner, f"/api/releases/{name}?shape=columns").json()
        again = []
        for i, tick in enumerate(details["tick"]):
            for j, place in enumerate(details["places"]):
                times = {"tick": tick, "start": details["start"][i], "end": details["end"][i]}
                level = {"level": details["levels"][j]} if "levels" in details else {}
                numbers = {
                    measure: {part: block[i][j] for part, block in parts.items()}
                    for measure, parts in details["measures"].items()
                }
                again.append({"release": name, **times, **level, "group": place, **numbers})
        assert again == rows


def test_csv_has_same_numbers_as_rows(runner: Runner) -> None:
    reply = ask(runner, "/api/releases/counts", accept="text/csv")
    assert reply.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    details = list(csv.DictReader(io.StringIO(reply.text), strict=True))
    rows = rows_of(ask(runner, "/api/releases/counts"))
    assert "trace" not in details[0]
    assert [(int(line["tick"]), line["g"], float(line["count"]), float(line["avg_x_low"])) for line in details] == [
        (row["tick"], row["group"]["g"], row["count"]["value"], row["avg_x"]["low"]) for row in rows
    ]


def test_long_csv_has_same_numbers_as_rows(runner: Runner) -> None:
    reply = ask(runner, "/api/releases/counts?format=csv&shape=long")
    details = list(csv.DictReader(io.StringIO(reply.text), strict=True))
    rows = rows_of(ask(runner, "/api/releases/counts"))
    assert len(details) == 2 * len(rows) == int(reply.headers["row-count"])
    assert "trace" not in details[0]
    numbers = {(row["tick"], str(row["group"]), m): row[m]["value"] for row in rows for m in ("count", "avg_x")}
    assert numbers == {
        (int(line["tick"]), str(json.loads(line["group"])), line["measure"]): float(line["value"]) for line in details
    }


def test_arrow_has_same_numbers_as_rows(runner: Runner) -> None:
    reply = ask(runner, "/api/releases/counts?format=arrow")
    assert reply.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(reply.content).read_all().to_pylist()
    rows = rows_of(ask(runner, "/api/releases/counts"))
    assert [(row["tick"], row["g"], row["count"], row["count_low"]) for row in table] == [
        (row["tick"], row["group"]["g"], row["count"]["value"], row["count"]["low"]) for row in rows
    ]


def test_accept_header_selects_the_format(runner: Runner) -> None:
    def kind(accept: str) -> str:
        reply = ask(runner, "/api/releases/counts", accept=accept)
        return str(reply.status_code if reply.status_code != 200 else reply.headers["content-type"].split(";")[0])

    assert kind("*/*") == kind("application/*") == kind("text/html, */*;q=0.1") == "application/json"
    assert kind("text/*") == kind("application/json;q=0.2, text/csv;q=0.9") == "text/csv"
    assert kind("text/html") == kind("application/json;q=0") == kind("application/json;q=nan") == "406"


@pytest.mark.parametrize("shape", ["rows", "columns"])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 10_000])
def test_pages_add_up_to_the_whole(runner: Runner, limit: int, shape: str) -> None:
    whole = [(row["tick"], row["group"]["g"]) for row in rows_of(ask(runner, "/api/releases/counts"))]
    href, found = f"/api/releases/counts?limit={limit}&shape={shape}", []
    while href:
        reply = ask(runner, href)
        details = reply.json()
        if shape == "rows":
            some = [(row["tick"], row["group"]["g"]) for row in details["rows"]]
        else:
            some = [(tick, place["g"]) for tick in details["tick"] for place in details["places"]]
        assert len(some) <= limit
        assert details["ticks"] == {"from": some[0][0], "to": some[-1][0]}
        assert (f'<{details["next"]}>; rel="next"' == reply.headers.get("link")) == bool(details["next"])
        found, href = found + some, details["next"]
    assert found == whole


def test_next_page_keeps_the_query(runner: Runner) -> None:
    requested = "/api/releases/counts?group=g:a&measure=count&limit=4&from=2&to=6"
    following = ask(runner, requested).json()["next"]
    assert following == "/api/releases/counts?from=6&to=6&limit=4&group=g%3Aa&measure=count"
    (row,) = rows_of(ask(runner, following))
    assert (row["tick"], row["group"], set(row) & {"count", "avg_x"}) == (6, {"g": "a"}, {"count"})


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_pages_keep_the_step(runner: Runner, limit: int) -> None:
    href, found = f"/api/releases/counts?from=2&step=2&limit={limit}", []
    while href:
        details = ask(runner, href).json()
        found += [(row["tick"], row["group"]["g"]) for row in details["rows"]]
        href = details["next"]
        assert href is None or "step=2" in href
    assert found == [(tick, g) for tick in (2, 4, 6) for g in "ab"]


def test_bytes_read_for_a_page_are_bounded(runner: Runner) -> None:
    details = ask(runner, "/api/releases/counts?group=g:none", Tuning(max_page_bytes=1)).json()
    assert (details["rows"], details["ticks"]) == ([], {"from": 1, "to": 1})
    assert details["next"].startswith("/api/releases/counts?from=2&to=6&")


def test_query_selects_ticks_and_groups(runner: Runner) -> None:
    def ticks(query: str) -> list[int]:
        return [row["tick"] for row in rows_of(ask(runner, f"/api/releases/counts?group=g:b&{query}"))]

    assert ticks("from=2&to=3") == [2, 3]
    assert ticks("last=2") == [5, 6]
    assert ticks("last=99") == ticks("") == [1, 2, 3, 4, 5, 6]
    assert ticks("step=2") == ticks("step=2&to=5") == [1, 3, 5]
    assert ticks("from=2&step=2") == [2, 4, 6]
    assert ticks("last=5&step=3") == [2, 5]
    assert ticks("step=99") == ticks("step=2147483648") == [1]
    assert ticks("from=7") == ticks("from=7&to=9") == []
    assert [row["group"] for row in rows_of(ask(runner, "/api/releases/up?to=1&group=g:b&group=g:a"))] == [
        {"g": "a"},
        {"g": "b"},
    ]


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("from=0", "from must be a whole number of at least 1, got '0'"),
        ("from=%C2%B2", "from must be a whole number of at least 1"),
        ("from=" + "9" * 400, "from must be a whole number of at least 1, got '" + "9" * 40 + "'"),
        ("from=3&to=2", "from must be at most to, 2, got '3'"),
        ("last=2&to=2", "last must be given without from and to"),
        ("step=0", "step must be a whole number from 1 to 2147483648, got '0'"),
        ("step=2147483649", "step must be a whole number from 1 to 2147483648"),
        ("step=1&step=2", "step must be given once, got '2 times'"),
        ("limit=10001", "limit must be a whole number from 1 to 10000"),
        ("limit=1&limit=2", "limit must be given once, got '2 times'"),
        ("shape=round", "shape must be one of rows, columns, wide, long"),
        ("shape=wide", "shape must be rows or columns for json, got 'wide'"),
        ("shape=rows&format=csv", "shape must be wide or long for csv, got 'rows'"),
        ("shape=long&format=arrow", "shape must be wide for arrow, got 'long'"),
        ("limit=9&format=csv", "limit must be left out for csv, which is sent whole: choose ticks with"),
        ("limit=10000&format=arrow", "limit must be left out for arrow, which is sent whole"),
        ("place=1&format=csv", "place must be left out for csv, which is sent whole"),
        ("format=xml", "format must be one of json, csv, arrow"),
        ("group=h:a", "group must be column:label with a column of g"),
        ("measure=sum", "measure must be one of count, avg_x"),
        ("form=2", "parameter must be one of from, to"),
    ],
)
def test_bad_parameter_is_refused_with_its_rule(runner: Runner, query: str, rule: str) -> None:
    reply = ask(runner, f"/api/releases/counts?{query}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "bad_parameter")
    assert reply.json()["error"]["message"].startswith(rule)


@pytest.mark.parametrize("name", ["nothing", "counts%00", "' OR 1=1", "C" * 5000])
def test_uncharged_release_is_not_found(runner: Runner, name: str) -> None:
    reply = ask(runner, f"/api/releases/{name if '%' in name else quote(name)}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")


def test_closed_ranges_are_cached_for_ever_and_open_ones_revalidated(runner: Runner) -> None:
    def caches(query: str) -> str:
        return str(ask(runner, f"/api/releases/counts?{query}").headers["cache-control"])

    for closed in ("from=2&to=6", "to=6", "to=1&shape=columns", "to=3&format=csv"):
        assert caches(closed) == "public, max-age=31536000, immutable"
    for still_open in ("", "to=7", "to=99", "from=2", "last=3"):
        assert caches(still_open) == "public, no-cache"


def test_replies_with_a_token_are_cached_privately(runner: Runner) -> None:
    closed = replace(runner.file.server, anonymous=False)
    reply = ask(runner, "/api/releases/counts?to=1", settings=closed)
    assert reply.headers["cache-control"].startswith("private, max-age")
    assert ask(runner, "/api/releases", settings=closed).headers["cache-control"] == "private, no-cache"


def test_matching_etag_gets_304(runner: Runner) -> None:
    for path in ("/api/releases", "/api/releases/counts", "/api/releases/counts?to=2&format=csv"):
        first = ask(runner, path)
        etag = first.headers["etag"]
        for details in (etag, f'W/{etag}, "x"', "*"):
            again = ask(runner, path, if_none_match=details)
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert ask(runner, path, if_none_match='"x"').content == first.content


def test_every_query_has_its_own_etag(runner: Runner) -> None:
    queries = [
        "",
        "shape=columns",
        "format=csv",
        "format=arrow",
        "format=json",
        "from=2",
        "to=5",
        "last=2",
        "step=2",
        "limit=3",
        "format=csv&shape=long",
    ]
    queries += ["place=1", "group=g:a", "group=g:b", "measure=count"]
    replies = {query: ask(runner, f"/api/releases/counts?{query}") for query in queries}
    assert len({reply.headers["etag"] for reply in replies.values()}) == len(queries)


def test_release_list_has_declarations_and_published_tick(runner: Runner) -> None:
    details = ask(runner, "/api/releases").json()
    assert (details["state"], details["published_until"], details["demo"]) == ("running", {"tick": TICKS}, False)
    assert (
        details["stream"].items()
        >= {
            **{"name": "v", "tick": 10.0, "start": "2026-01-05T00:00:00Z", "end": None, "ticks": None},
            **{"unit": "one event", "mode": "streaming", "allowed_lateness": 5.0},
        }.items()
    )
    counts, up, smooth, several = details["releases"]
    assert several["measures"] == ["count_20s", "count_30s", "sum_x_20s", "sum_x_30s"]
    assert (several["kinds"], several["window"]) == (["count"] * 2 + ["sum"] * 2, "sliding 20s, sliding 30s")
    assert (smooth["measures"], smooth["kinds"]) == (["count", "count_drop"], ["count", "alert"])
    assert smooth["mechanisms"] == ["Pegasus"]
    assert counts["title"] == "How many"
    assert counts["sql"].startswith("SELECT")
    assert (counts["loss"], counts["loss_text"], counts["requested_by"]) == ({"epsilon": "1/4"}, "epsilon 0.25", None)
    assert (counts["measures"], counts["groups"], counts["places"]) == (["count", "avg_x"], ["g"], 2)
    assert (up["places"], up["discovered"], up["ticks"]) == (3, False, {"from": 1, "to": TICKS})
    assert ask(runner, up["href"]).status_code == 200


PATHS = (
    *("/api/releases", "/api/releases/counts", "/api/releases/counts?last=1", "/api/releases/counts?from=1&to=2"),
    *("/api/releases/counts?from=2", "/api/releases/counts?shape=columns", "/api/releases/counts?format=csv"),
    *("/api/releases/counts?limit=2", "/api/releases/nothing", "/api/releases/counts?to=2&format=arrow"),
)


def everything(runner: Runner) -> list[tuple[int, bytes, dict[str, str]]]:
    """Return status, body and headers of the replies to a reader."""
    replies = [ask(runner, path) for path in PATHS]
    return [(reply.status_code, reply.content, dict(reply.headers)) for reply in replies]


def before_and_after_a_commit(folder: Path, kind: type[Runner] = Runner) -> tuple[Any, Any, Any]:
    """Return all replies after tick 1 is published, after tick 2 is committed, and after it is published."""
    write(folder, 60)
    clock = stepped()
    with running(file_of(folder), clock, kind=kind) as runner:
        close(runner, clock, 1)
        leave(runner, clock, 20)
        clock.to(24)
        before = everything(runner)
        close(runner, clock, 2)
        runner.publisher.publish_due()
        between = everything(runner)
        leave(runner, clock, 32)
        return before, between, everything(runner)


def test_commit_changes_no_reply_before_its_publish_time(tmp_path: Path) -> None:
    before, between, after = before_and_after_a_commit(tmp_path)
    assert before == between != after
    details = [(one == other) for one, other in zip(between, after, strict=True)]
    assert [PATHS[i] for i, same in enumerate(details) if same] == ["/api/releases/nothing"]


class HastySchedule(PublishSchedule):
    """A twin that publishes a commit at once."""

    def add(self, entry: int, *, committed: int, closed: int = 0) -> int:
        return self.add_at(entry, committed)


class HastyRunner(Runner):
    def start(self) -> None:
        schedule = self.publisher.schedule
        self.publisher.schedule = HastySchedule(schedule.start, schedule.interval)
        super().start()


def test_twin_that_publishes_before_the_publish_time_is_caught(tmp_path: Path) -> None:
    before, between, _ = before_and_after_a_commit(tmp_path, HastyRunner)
    assert before != between


def test_second_store_of_same_file_has_other_etags(tmp_path: Path) -> None:
    def tags(folder: Path) -> list[str]:
        folder.mkdir()
        write(folder, 20)
        clock = stepped()
        with running(file_of(folder), clock) as runner:
            close(runner, clock, 1)
            leave(runner, clock, 20)
            return [ask(runner, path).headers["etag"] for path in PATHS[1:6]]

    assert not set(tags(tmp_path / "one")) & set(tags(tmp_path / "other"))


def test_discovered_groups_are_read_like_declared_ones(tmp_path: Path) -> None:
    events = [{"ts": 1_767_571_200 + s, "w": "a" if s < 10 else "b"} for s in range(20) for _ in range(60)]
    release = {"name": "words", "sql": "SELECT w, COUNT(*) FROM v GROUP BY w", "epsilon": 1, "delta": 1e-6}
    file = file_of(tmp_path, release, columns={"w": {"max_groups": 10}}, budget={"epsilon": 20, "delta": 1e-5})
    (tmp_path / "v.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    clock = Stepped(time=stepped().time)
    with running(file, clock) as runner:
        close(runner, clock, 1)
        close(runner, clock, 2)
        leave(runner, clock, 32)
        details = ask(runner, "/api/releases/words?shape=columns").json()
        assert details["places"] == [{"w": "a"}, {"w": "b"}]
        first, _ = details["measures"]["count"]["value"]
        assert [number is None for number in first] == [False, True]
        (listed,) = ask(runner, "/api/releases").json()["releases"]
        assert (listed["discovered"], listed["places"]) == (True, None)
        assert ask(runner, "/api/releases/words?format=arrow").status_code == 200
        href, found = "/api/releases/words?limit=1", []
        while href:
            page = ask(runner, href).json()
            found, href = found + [(row["tick"], row["group"]["w"]) for row in page["rows"]], page["next"]
        assert found == [(row["tick"], row["group"]["w"]) for row in rows_of(ask(runner, "/api/releases/words"))]


def test_server_before_first_start_has_no_releases(tmp_path: Path) -> None:
    runner = Runner(file_of(tmp_path))
    assert ask(runner, "/api/releases").json()["releases"] == []
    assert ask(runner, "/api/releases/counts").status_code == 404
    eventually(lambda: runner.load_entries() == ())
