"""Errors as one line on standard error and an exit code.

    2    refused: a bad file, option, key or source, or a run that must not start
    1    the environment failed: a full disk, a read-only folder, a closed pipe; or a bug
    3    an audit found a claim that does not hold
    130  stopped by Ctrl-C or a termination signal

**Privacy.** Our own errors follow from declarations, so their text is printed. The text of any other exception
may contain data: only its class is printed.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from streamgauge.cli.console import stderr, to_one_line

EXIT_REFUSED, EXIT_FAILED, EXIT_CLAIM_BROKEN, EXIT_STOPPED = 2, 1, 3, 130
ENVIRONMENT_ERRORS = {
    "StoreUnwritableError",
    "SourceAccessError",
    "SinkAccessError",
    "MissingPackageError",
    "EngineError",
    "MemoryError",
    "OSError",
}


class BadArgumentError(ValueError):
    """An argument of a command that breaks a rule."""


def raise_bad_argument(name: str, rule: str, value: object) -> NoReturn:
    raise BadArgumentError(f"{name} must be {rule}, got {value}")


class CommandGroup(TyperGroup):
    """All commands, with one handler of errors."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            code = print_error(error)
        sys.exit(flush_stdout(code or 0))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except Exception as error:
            raise typer.Exit(print_error(error, debug=ctx.params.get("debug", False))) from None


def flush_stdout(code: int) -> int:
    """Flush standard output; return the exit code, or that of the failure."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _discard_stdout()
        return code or print_error(error)
    return code


def print_error(error: Exception, *, debug: bool = False) -> int:
    """Print an error; return the exit code."""
    if isinstance(error, BrokenPipeError):
        _discard_stdout()
        return EXIT_FAILED
    if isinstance(error, typer.Abort):
        return EXIT_STOPPED
    if debug:
        traceback.print_exception(error)
    line, code = describe_error(error)
    if line:
        stderr().print(f"streamgauge: {line}", soft_wrap=True)
    return code


def describe_error(error: Exception) -> tuple[str, int]:
    """Return the line and the exit code of an error."""
    names = {cls.__name__ for cls in type(error).__mro__}
    code = EXIT_FAILED if names & ENVIRONMENT_ERRORS else EXIT_REFUSED
    if hasattr(error, "format_message"):
        return _format_usage(error), EXIT_REFUSED
    if any(cls.__module__.partition(".")[0] == "streamgauge" for cls in type(error).__mro__):
        return to_one_line(": ".join([*getattr(error, "__notes__", ()), format_refusal(error)])), code
    if isinstance(error, OSError):
        where = "" if error.filename is None else f": {error.filename}"
        return to_one_line(f"{error.strerror or type(error).__name__}{where}").lower(), code
    if isinstance(error, MemoryError):
        return "memory must be enough, got too little", code
    return f"{type(error).__name__}: this is a bug; streamgauge --debug shows where", EXIT_FAILED


def format_refusal(error: Exception) -> str:
    """Return the text of our own error; of a refused charge with its numbers."""
    if type(error).__name__ != "BudgetExceededError":
        return str(error)
    from streamgauge.runtime.format import exceeded_text

    refusal: Any = error
    return exceeded_text(refusal)


def _format_usage(error: Any) -> str:
    """Return a usage error with a hint; empty if the help was printed instead."""
    context = getattr(error, "ctx", None)
    path = "streamgauge" if context is None else context.command_path
    said = to_one_line(error.format_message()).rstrip(".")
    return f"{said[:1].lower()}{said[1:]} (see {path} --help)" if said else ""


def _discard_stdout() -> None:
    """Send buffered output to the null device, since standard output accepts no more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
