"""Benchmark of import times above a bare interpreter: CPU and wall, best of 7.

    python benchmarks/imports.py

Bars: 0.3 s for a mechanism, 0.6 s for `Pipeline`. Each run is a separate process. A first run, which is not
counted, writes the bytecode to a temporary folder, as pip does at installation. NumPy is listed for comparison:
on a loaded machine, compare the other rows with it.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
STATEMENTS = {
    "numpy": "import numpy",
    "sg.continual.Binary": "import streamgauge as sg; sg.continual.Binary",
    "sg.Pipeline": "import streamgauge as sg; sg.Pipeline",
}


def time_statement(statement: str, environment: dict[str, str]) -> tuple[float, float]:
    """Return CPU and wall seconds of one process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", statement], check=True, env=environment)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, end - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        best = {}
        for name, statement in {"bare interpreter": "pass", **STATEMENTS}.items():
            time_statement(statement, environment)
            runs = [time_statement(statement, environment) for _ in range(ROUNDS)]
            best[name] = min(cpu for cpu, _ in runs), min(wall for _, wall in runs)
    bare_cpu, bare_wall = best.pop("bare interpreter")
    print(f"{'above a bare interpreter':24} {'CPU s':>7} {'wall s':>7}")
    for name, (cpu, wall) in best.items():
        print(f"{name:24} {cpu - bare_cpu:7.3f} {wall - bare_wall:7.3f}")


if __name__ == "__main__":
    main()
