"""Print the walk of one record: files that run from the open store to the sink.

    python -P benchmarks/trace.py            the files in the order of their first call, with that call
    python -P benchmarks/trace.py --count    their number only
    python -P benchmarks/trace.py --table    the table of docs/architecture.md

The pipeline is the smallest that shows everything: one CSV of 40 visits, one release with COUNT and AVG by region,
one JSON sink. `sys.setprofile` reports each call of a Python function in every thread. The walk starts when
the session is built (store open, charges committed) and ends when the sink has written.
"""

import argparse
import ast
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import streamgauge
from streamgauge.store.keys import create_key

PACKAGE = f"{Path(streamgauge.__file__).parent}/"
FIRST_CALL = "SessionBuilder.build"  # the walk begins when it returns: store open, charges committed
TABLES = {
    "stream": {
        "name": "visits",
        "source": "visits.csv",
        "mode": "batch",
        "time": "ts",
        "start": "2026-01-05T00:00:00Z",
        "end": "2026-01-05T00:10:00Z",
        "tick": "1m",
        "unit": "event",
        "budget": {"epsilon": 2},
        "columns": {"region": {"values": ["north", "south"]}, "age": {"bounds": [0, 100], "grid": 1}},
    },
    "release": [
        {
            "name": "ages",
            "sql": "SELECT region, COUNT(*), AVG(age) FROM visits GROUP BY region",
            "window": "each",
            "epsilon": 1,
        }
    ],
    "sink": [{"to": "ages.jsonl"}],
}


class Walk:
    """Files of the package in the order of their first call, between two marks."""

    def __init__(self) -> None:
        self.calls: dict[str, str] = {}
        self.is_open = False

    def __call__(self, frame: FrameType, event: str, _value: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or event not in ("call", "return"):
            return
        file = code.co_filename[len(PACKAGE) :]
        if event == "call" and self.is_open:
            self.calls.setdefault(file, code.co_qualname)
        elif event == "return" and code.co_qualname == FIRST_CALL:
            self.is_open = True
        elif event == "return" and file.startswith("sinks/") and code.co_name == "write":
            self.is_open = False


def write_visits(path: Path) -> None:
    lines = [f"2026-01-05T00:0{n % 10}:30Z,{('north', 'south')[n % 2]},{20 + n}\n" for n in range(40)]
    path.write_text("ts,region,age\n" + "".join(lines))


def trace() -> dict[str, str]:
    """Run the pipeline and return each file with its first call."""
    walk = Walk()
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_visits(folder / "visits.csv")
        create_key(folder / "visits.key")
        pipeline = streamgauge.Pipeline.from_tables(TABLES, folder / "visits.toml")
        threading.setprofile(walk)
        sys.setprofile(walk)
        try:
            pipeline.run()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        if len((folder / "ages.jsonl").read_text().splitlines()) == 0:
            raise SystemExit("trace: the sink has no line")
    return walk.calls


def summarize(file: str) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(Path(PACKAGE, file).read_text())) or ""
    return docstring.split("\n")[0].rstrip(".:")


def build_table(calls: dict[str, str]) -> list[str]:
    """Return the lines of the table in docs/architecture.md."""
    rows = (
        f"| {number} | `{file}` | `{call}` | {summarize(file)} |"
        for number, (file, call) in enumerate(calls.items(), 1)
    )
    return ["| | file | first call | purpose |", "|---:|---|---|---|", *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="print the number of files only")
    parser.add_argument("--table", action="store_true", help="print the table of docs/architecture.md")
    options = parser.parse_args()
    calls = trace()
    if options.table:
        print("\n".join(build_table(calls)))
        return
    if not options.count:
        width = max(map(len, calls))
        for number, (file, call) in enumerate(calls.items(), 1):
            print(f"{number:3}  {file:{width}}  {call}")
    print(f"{len(calls)} files")


if __name__ == "__main__":
    main()
