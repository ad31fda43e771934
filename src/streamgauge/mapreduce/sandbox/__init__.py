"""Sandbox for whole programs: one block of records, one process, one slot of time.

errors           refusals and failures
seccomp          the allow-list of system calls, as a BPF program
bubblewrap       the command that builds the sandbox
block_worker     the script in the sandbox: reads records, runs the program, writes numbers
block_process    one block in one sandbox, and its bytes
slots            blocks in slots of fixed length
"""

from streamgauge.mapreduce.sandbox.block_process import BlockProcess, SandboxLauncher
from streamgauge.mapreduce.sandbox.bubblewrap import SandboxLimits
from streamgauge.mapreduce.sandbox.errors import SandboxError
from streamgauge.mapreduce.sandbox.slots import BlockLauncher, SlotSchedule

__all__ = ["BlockLauncher", "BlockProcess", "SandboxError", "SandboxLauncher", "SandboxLimits", "SlotSchedule"]
