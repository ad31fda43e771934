"""Refusals and failures of the sandbox."""


class SandboxError(RuntimeError):
    """The sandbox is not available, or a process in it cannot be stopped.

    The message depends on the machine and on the settings, never on records.
    """
