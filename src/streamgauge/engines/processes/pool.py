"""Pool of worker processes that answer tasks in any order.

A worker that ends is replaced, and the replacement repeats its task. A task has one answer, however often it was begun.
A task that ends MAX_ATTEMPTS workers is an error: probably the machine has too little memory.

A stop ends all workers at once. They have nothing to save.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Event as Flag
from threading import Thread
from typing import BinaryIO, ClassVar, cast

from streamgauge.engines.duckdb.connection import POLL_SECONDS, EngineError
from streamgauge.engines.processes.tasks import ScanTask, read_message, write_message
from streamgauge.interfaces import EngineRequest, check_stop
from streamgauge.plan.measure import Pass

Answer = list[Pass] | Exception
MAX_ATTEMPTS = 3
ROOT = Path(__file__).resolve().parents[3]  # of the imports, wherever the package is
WORKER_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from streamgauge.engines.processes.worker import main; main()"
)


class Worker:
    """A worker process, started when it gets its first task."""

    def __init__(self, request: EngineRequest) -> None:
        self.request = request
        self.process: subprocess.Popen[bytes] | None = None

    def answer(self, task: ScanTask) -> Answer:
        """Return the answer to a task; raise EOFError or OSError if the process ends."""
        process = self.process or self._start()
        write_message(cast("BinaryIO", process.stdin), task)
        answer: Answer = read_message(cast("BinaryIO", process.stdout))
        return answer

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the process in a session of its own, which no Ctrl-C of the terminal reaches."""
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        command = [sys.executable, "-P", "-c", WORKER_CODE, str(ROOT)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, start_new_session=True)
        for message in ([str(ROOT), *sys.path], self.request):
            write_message(cast("BinaryIO", self.process.stdin), message)
        return self.process

    def close(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                cast("BinaryIO", pipe).close()


class WorkerPool:
    """Workers for one engine."""

    WORKER: ClassVar[type[Worker]] = Worker

    def __init__(self, request: EngineRequest, processes: int) -> None:
        self._workers = [self.WORKER(request) for _ in range(processes)]

    def answer(self, tasks: Sequence[ScanTask], stop: Flag | None) -> list[list[Pass]]:
        """Return the answer to each task, in their order. After an error no worker is left."""
        waiting: Queue[int] = Queue()
        done: Queue[tuple[int, Answer]] = Queue()
        ended = Flag()
        for number in range(len(tasks)):
            waiting.put(number)

        def work(worker: Worker) -> None:
            while not ended.is_set():
                with suppress(Empty):
                    number = waiting.get(timeout=POLL_SECONDS)
                    done.put((number, _answer(worker, tasks[number], ended)))

        threads = [Thread(target=work, args=(worker,), daemon=True) for worker in self._workers[: len(tasks)]]
        for thread in threads:
            thread.start()
        answers: dict[int, list[Pass]] = {}
        try:
            while len(answers) < len(tasks):
                check_stop(stop)
                with suppress(Empty):
                    number, answer = done.get(timeout=POLL_SECONDS)
                    if isinstance(answer, Exception):
                        raise answer
                    answers[number] = answer
        except BaseException:
            ended.set()
            while any(thread.is_alive() for thread in threads):
                self.close()
                threads[0].join(POLL_SECONDS)
            raise
        ended.set()
        for thread in threads:
            thread.join()
        return [answers[number] for number in range(len(tasks))]

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.close()


def _answer(worker: Worker, task: ScanTask, ended: Flag) -> Answer:
    """Return the answer of a worker, or of its replacement if it ends."""
    for _ in range(MAX_ATTEMPTS):
        if ended.is_set():
            break
        try:
            return worker.answer(task)
        except (EOFError, OSError):
            worker.close()
        except Exception as error:  # raised again by the engine's thread
            return error
    rule = "a worker process must finish its task: use fewer processes if the memory of the machine is too small"
    return EngineError(f"{rule}, got {MAX_ATTEMPTS} that ended")
