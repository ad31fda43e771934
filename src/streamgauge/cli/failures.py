"""What goes wrong, as one line on standard error and an exit code.

    2    refused: a bad file, option, key or source, or a run that must not start
    1    the world failed: a full disk, a read-only folder, a reader that went away; or a bug
    3    condemned: an audit found a claim that does not hold
    130  stopped by Ctrl-C or a termination signal

**Privacy.** Refusals of ours are written from declarations, so their words may be shown. The words of any
other exception may carry data: only its class is named.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from streamgauge.cli.screens import aside, one_line

REFUSED, FAILED, CONDEMNED, STOPPED = 2, 1, 3, 130
WORLD = {"StoreUnwritable", "SinkFailed", "MissingPackage", "EngineFailed", "MemoryError", "OSError"}


class BadArgument(ValueError):  # noqa: N818 - refusals are named by what they say
    """An argument of a command that breaks a rule."""


def bad_argument(name: str, rule: str, value: object) -> NoReturn:
    raise BadArgument(f"{name} must be {rule}, got {value}")


class Commands(TyperGroup):
    """All commands, behind one door for what goes wrong."""

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
            code = tell(error)
        sys.exit(flushed(code or 0))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except Exception as error:
            raise typer.Exit(tell(error, debug=ctx.params.get("debug", False))) from None


def flushed(code: int) -> int:
    """The exit code, once standard output has all that was printed; or that it did not take it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _let_go()
        return code or tell(error)
    return code


def tell(error: Exception, *, debug: bool = False) -> int:
    """Says what is wrong; returns the exit code."""
    if isinstance(error, BrokenPipeError):
        _let_go()
        return FAILED
    if isinstance(error, typer.Abort):
        return STOPPED
    if debug:
        traceback.print_exception(error)
    line, code = told(error)
    if line:
        aside().print(f"streamgauge: {line}", soft_wrap=True)
    return code


def told(error: Exception) -> tuple[str, int]:
    """The line and the code."""
    names = {cls.__name__ for cls in type(error).__mro__}
    code = FAILED if names & WORLD else REFUSED
    if hasattr(error, "format_message"):
        return _usage(error), REFUSED
    if type(error).__module__.partition(".")[0] == "streamgauge":
        return one_line(": ".join([*getattr(error, "__notes__", ()), worded(error)])), code
    if isinstance(error, OSError):
        where = "" if error.filename is None else f": {error.filename}"
        return one_line(f"{error.strerror or type(error).__name__}{where}").lower(), code
    if isinstance(error, MemoryError):
        return "memory must be enough, got too little", code
    return f"{type(error).__name__}: this is a bug; streamgauge --debug shows where", FAILED


def worded(error: Exception) -> str:
    """A refusal of ours; a charge that was refused, with its numbers as a curator writes them."""
    if type(error).__name__ != "BudgetExceeded":
        return str(error)
    from streamgauge.pipeline.words import exceeded_text

    refusal: Any = error
    return exceeded_text(refusal)


def _usage(error: Any) -> str:
    """A mistake in what was typed, and where to look; nothing where the help was shown instead."""
    context = getattr(error, "ctx", None)
    path = "streamgauge" if context is None else context.command_path
    said = one_line(error.format_message()).rstrip(".")
    return f"{said[:1].lower()}{said[1:]} (see {path} --help)" if said else ""


def _let_go() -> None:
    """Standard output takes no more: lets what is still in buffers go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
