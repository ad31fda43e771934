"""Allow-list of system calls: a program of classic BPF, written as bytes.

    architecture is not the machine's    the process is killed
    call is on the list                  allowed
    fcntl                                allowed for copies and flags of open files; no locks, no leases
    futex                                allowed if private to the process
    clone3, ioctl                        ENOSYS, ENOTTY, so that libraries take their other path
    any other call                       EPERM

The list has what Python and NumPy need to compute and to read files. Nothing on it makes a process or a thread, opens
a socket, changes a limit upwards, or reaches a resource that outlives the sandbox: System V memory, message
queues, keyrings and io_uring are not on it. `execve` is, because bubblewrap starts the interpreter with it. A
program that uses it stays in the same sandbox and process.

Locks and shared futexes of a file that all sandboxes can read would connect blocks that run at once.

A filter returns the action of its first match. Numbers of calls are those of the kernel's tables.
"""

import errno
import struct
from collections.abc import Mapping, Sequence

from streamgauge.mapreduce.sandbox.errors import SandboxError

# instructions of classic BPF
LOAD_WORD, JUMP_EQUAL, JUMP_GREATER_OR_EQUAL, JUMP_IF_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
CALL_OFFSET, ARCHITECTURE_OFFSET, COMMAND_OFFSET = 0, 4, 24  # bytes into struct seccomp_data
KILL_PROCESS, FAIL_WITH, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
X32_CALLS = 0x40000000  # calls of the second interface of x86-64 begin here
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
FILE_COMMANDS = (0, 1, 2, 3, 4, 1030)  # of fcntl: F_DUPFD to F_SETFL, F_DUPFD_CLOEXEC
PRIVATE_FUTEX = 128
OTHER_ERRORS = {"clone3": errno.ENOSYS, "ioctl": errno.ENOTTY}

# each call with its number on x86-64 and on 64-bit ARM; None if the machine has no such call
CALLS: dict[str, tuple[int | None, int | None]] = {
    # memory
    "brk": (12, 214),
    "madvise": (28, 233),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    # files and directories
    "access": (21, None),
    "close": (3, 57),
    "dup": (32, 23),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "fstat": (5, 80),
    "ftruncate": (77, 46),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "lseek": (8, 62),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "open": (2, None),
    "openat": (257, 56),
    "poll": (7, None),
    "ppoll": (271, 73),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "read": (0, 63),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "readv": (19, 65),
    "select": (23, None),
    "pselect6": (270, 72),
    "stat": (4, None),
    "statx": (332, 291),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "write": (1, 64),
    "writev": (20, 66),
    # time and chance
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "getrandom": (318, 278),
    "gettimeofday": (96, 169),
    "nanosleep": (35, 101),
    # the process itself
    "arch_prctl": (158, None),
    "execve": (59, 221),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "prlimit64": (302, 261),
    "rseq": (334, 293),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    "setrlimit": (160, 164),
    "sigaltstack": (131, 132),
    "tgkill": (234, 131),
    "uname": (63, 160),
    "wait4": (61, 260),
}
CHECKED_CALLS: dict[str, tuple[int | None, int | None]] = {"fcntl": (72, 25), "futex": (202, 98)}
FAILING_CALLS: dict[str, tuple[int | None, int | None]] = {"clone3": (435, 435), "ioctl": (16, 29)}


def build_filter(machine: str, calls: Mapping[str, tuple[int | None, int | None]] = CALLS) -> bytes:
    """Return the filter for a machine, as an array of `struct sock_filter`.

    >>> len(build_filter("x86_64")) % 8
    0
    """
    if machine not in ARCHITECTURES:
        raise SandboxError(f"the processor must be x86_64 or aarch64 for whole programs, got {machine!r}")
    code = [
        encode(LOAD_WORD, ARCHITECTURE_OFFSET),
        encode(JUMP_EQUAL, ARCHITECTURES[machine], 1, 0),
        encode(RETURN, KILL_PROCESS),
        encode(LOAD_WORD, CALL_OFFSET),
        encode(JUMP_GREATER_OR_EQUAL, X32_CALLS, 0, 1),
        encode(RETURN, KILL_PROCESS),
    ]
    for number in list_numbers(machine, calls):
        code += [encode(JUMP_EQUAL, number, 0, 1), encode(RETURN, ALLOW)]
    fcntl, futex = list_numbers(machine, CHECKED_CALLS)
    code += [encode(JUMP_EQUAL, fcntl, 0, 2 * len(FILE_COMMANDS) + 2), encode(LOAD_WORD, COMMAND_OFFSET)]
    for command in FILE_COMMANDS:
        code += [encode(JUMP_EQUAL, command, 0, 1), encode(RETURN, ALLOW)]
    code += [encode(RETURN, FAIL_WITH | errno.EPERM)]
    code += [encode(JUMP_EQUAL, futex, 0, 4), encode(LOAD_WORD, COMMAND_OFFSET)]
    code += [encode(JUMP_IF_BITS, PRIVATE_FUTEX, 0, 1), encode(RETURN, ALLOW), encode(RETURN, FAIL_WITH | errno.EPERM)]
    for name, error in OTHER_ERRORS.items():
        (number,) = list_numbers(machine, {name: FAILING_CALLS[name]})
        code += [encode(JUMP_EQUAL, number, 0, 1), encode(RETURN, FAIL_WITH | error)]
    return b"".join([*code, encode(RETURN, FAIL_WITH | errno.EPERM)])


def list_numbers(machine: str, calls: Mapping[str, tuple[int | None, int | None]]) -> list[int]:
    column = list(ARCHITECTURES).index(machine)
    return [number for numbers in calls.values() if (number := numbers[column]) is not None]


def encode(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction. Jumps skip that many instructions."""
    return struct.pack("=HBBI", operation, if_true, if_false, value)


def run_filter(code: bytes, architecture: int, call: int, command: int = 0) -> int:
    """Return the action of a filter for one call: the definition of the instructions that `build_filter` writes.

    Args:
        code: The filter.
        architecture: Architecture of the call.
        call: Number of the call.
        command: Second argument of the call.
    """
    words: Sequence[tuple[int, int, int, int]] = list(struct.iter_unpack("=HBBI", code))
    fields = {ARCHITECTURE_OFFSET: architecture, CALL_OFFSET: call, COMMAND_OFFSET: command}
    loaded, place = 0, 0
    while True:
        operation, if_true, if_false, value = words[place]
        place += 1
        if operation == RETURN:
            return value
        if operation == LOAD_WORD:
            loaded = fields[value]
            continue
        jumps = {JUMP_EQUAL: loaded == value, JUMP_GREATER_OR_EQUAL: loaded >= value, JUMP_IF_BITS: loaded & value}
        place += if_true if jumps[operation] else if_false
