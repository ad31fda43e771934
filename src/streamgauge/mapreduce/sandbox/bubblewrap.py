"""Command that builds the sandbox of one block.

namespaces      all new: users, processes, network, mounts, System V memory, host name, control groups
files           the interpreter and the system's libraries, read-only; the rest of the root is empty and read-only
/tmp            a new file system in memory, bounded, gone with the sandbox
environment     empty, but for one thread of linear algebra and the directory of temporary files
capabilities    none; the user has no name and no rights outside
system calls    an allow-list (`seccomp`)
lifetime        ends with the process that started it
"""

import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from streamgauge.mapreduce.sandbox.errors import SandboxError

WORKER = Path(__file__).with_name("block_worker.py")
WORKER_PATH = "/run/block_worker.py"  # in the sandbox
UNNAMED_USER = "65534"
SYSTEM_PATHS = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share/zoneinfo", "/lib", "/lib64", "/etc/ld.so.cache")
ENVIRONMENT = {
    "HOME": "/tmp",
    "LC_ALL": "C.UTF-8",
    "TMPDIR": "/tmp",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of one block. A block that passes one fails, and has the default output."""

    cpu_seconds: int = 60
    memory_bytes: int = 2 << 30  # address space
    file_bytes: int = 16 << 20  # of one file, and of all files in /tmp
    files: int = 64  # open at once

    def __post_init__(self) -> None:
        for name in ("cpu_seconds", "memory_bytes", "file_bytes", "files"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def find_bubblewrap(system: str | None = None, path: str | None = None) -> str:
    """Return the path of bubblewrap, or raise SandboxError with the reason.

    Args:
        system: Name of the operating system, for tests.
        path: Folders to search, as in PATH, for tests.
    """
    system = platform.system() if system is None else system
    if system != "Linux":
        raise SandboxError(f"whole programs need Linux, for its namespaces and seccomp, got {system or 'another'}")
    found = shutil.which("bwrap", path=path)
    if found is None:
        raise SandboxError("whole programs need bubblewrap, found none: install the package bubblewrap")
    return found


def build_command(bubblewrap: str, seccomp_fd: int, sync_fd: int, result_fd: int, limits: SandboxLimits) -> list[str]:
    """Return the command of one block. It inherits the three files by their numbers."""
    command = [bubblewrap, "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    command += ["--uid", UNNAMED_USER, "--gid", UNNAMED_USER, "--hostname", "sandbox"]
    command += ["--die-with-parent", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        command += ["--setenv", name, value]
    command += ["--size", str(limits.file_bytes), "--tmpfs", "/tmp"]  # first: an environment may lie in /tmp
    for path in list_read_only_paths():
        command += ["--symlink", str(path.readlink()), str(path)] if path.is_symlink() else bind(path, str(path))
    command += bind(WORKER, WORKER_PATH)
    command += ["--chdir", "/tmp", "--remount-ro", "/"]
    command += ["--seccomp", str(seccomp_fd), "--sync-fd", str(sync_fd)]
    return [*command, "--", sys.executable, "-I", "-B", WORKER_PATH, str(result_fd)]


def bind(source: Path, target: str) -> list[str]:
    return ["--ro-bind", str(source), target]


def list_read_only_paths() -> list[Path]:
    """Return the paths of the system's libraries, and those of the interpreter and its packages."""
    prefixes = {Path(prefix) for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix)}
    interpreter = {Path(sys.executable).resolve().parents[1]} - {Path("/")}
    paths = [Path(path) for path in SYSTEM_PATHS if Path(path).exists()]
    return [*paths, *sorted(prefixes | interpreter, key=lambda path: len(path.parts))]
