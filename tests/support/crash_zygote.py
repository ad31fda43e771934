"""A process that has imported everything, and forks a child for each start of a run.

It is a process of its own, because DuckDB's threads do not survive a fork: it must never open DuckDB. An order has the
run and its end. The answer has the end of the child, the steps that it reached, and its standard error.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.crash_child import body, worked_out
from tests.support.crash_streams import KINDS
from tests.support.crash_twins import replace

Order = dict[str, Any]
KILLING = ("after", "wait", "beside")  # what an order says about its child's end


@dataclass(frozen=True)
class End:
    """End of a child: its status from `waitpid`, and the steps that it reached."""

    code: int
    steps: tuple[str, ...]
    error: str  # its class and its words
    beside: "End | None" = None  # how another ended that was started while it was at work

    @classmethod
    def told(cls, answer: dict[str, Any]) -> "End":
        beside = cls.told(answer["beside"]) if "beside" in answer else None
        return cls(answer["code"], tuple(answer["steps"]), answer["error"], beside)

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Zygote:
    """The process, as tests talk to it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.crash_zygote"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self._process.communicate)

    def child(self, kind: str, folder: Path, **order: Any) -> End:
        """Start a run of a kind of stream in a folder; return the end of the child."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"kind": kind, "folder": str(folder), **order}) + "\n")
        self._process.stdin.flush()
        return End.told(json.loads(self._process.stdout.readline()))


@cache
def zygote() -> Zygote:
    """The one of this process."""
    return Zygote()


def main() -> None:
    """Read orders, write answers."""
    import duckdb  # noqa: F401 - imported before the forks, opened after them

    from streamgauge.config.settings import PipelineFile, Release
    from streamgauge.plan.planner import ReleasePlan, plan_release
    from streamgauge.runtime import edits as as_charged
    from streamgauge.runtime import session as opening

    replace(opening, read_system_key=lambda: bytes(32))  # which of a user's events survive depends on it
    pipes: dict[str, tuple[int, int]] = {}
    for text in sys.stdin:
        order = json.loads(text)
        plans = worked_out(order["kind"])

        def known(file: PipelineFile, release: Release, *pinned: Any, plans: Any = plans) -> ReleasePlan:
            plan: ReleasePlan = plan_release(file, release, *pinned) if pinned else plans[release.name]
            return plan

        replace(opening, plan_release=known)
        replace(as_charged, plan_release=known)
        if KINDS[order["kind"]].source == "-":
            order["pipe"] = pipes.get(order["folder"]) or pipes.setdefault(order["folder"], os.pipe())
        print(json.dumps(started(order)), flush=True)
    os._exit(0)


def started(order: Order) -> dict[str, Any]:
    """Fork a child, watch it, and kill it if the order says so."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        body(order, writing)
    os.close(writing)
    answer: dict[str, Any] = {}
    with os.fdopen(reading) as told:
        lines: list[str] = []
        if "after" in order:
            lines += islice(told, order["after"])
            if "beside" in order:
                answer["beside"] = started({key: order[key] for key in order if key not in KILLING})
            time.sleep(order["wait"])
            os.kill(child, signal.SIGKILL)
        lines += told
    return answer | ended(child, lines)


def ended(child: int, lines: Iterable[str]) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = [line.rstrip("\n") for line in lines]
    steps = [line for line in said if not line.startswith("!")]
    return {"code": code, "steps": steps, "error": "".join(line[1:] for line in said if line.startswith("!"))}


if __name__ == "__main__":
    main()
