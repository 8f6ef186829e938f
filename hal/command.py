"""How every command of ours ends: one clean message and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys

import click

__all__ = ["run"]


def run(command: click.Command, *, prog_name: str, args: list[str] | None = None) -> int:
    """Run a click command and return its exit code; no user ever sees a traceback.

    An error of the hal.errors family becomes one message on stderr and its own exit code, Ctrl-C
    becomes 130, a closed pipe ends quietly. Anything else is a fault of ours: it is reported in
    one line with exit code 3, and HAL_TRACEBACK=1 shows where it came from.
    """
    try:
        result = command.main(args, prog_name=prog_name, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print(f"{prog_name}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        return _report(error, prog_name)


def _report(error: Exception, prog_name: str) -> int:
    """Print one clean message for an exception and return the exit code that it stands for."""
    if os.environ.get("HAL_TRACEBACK") == "1":
        import traceback

        traceback.print_exc()
    from hal.errors import HalError

    if isinstance(error, HalError):
        own = error.call.partition(" ")[0] in ("hal", "hal-certify")  # A command names itself.
        print(error if own else f"{prog_name}: {error}", file=sys.stderr)
        return int(getattr(error, "exit_code", 1))
    if isinstance(error, OSError) and error.strerror:
        print(f"{prog_name}: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 2
    print(
        f"{prog_name}: internal error: {type(error).__name__}: {error}. "
        "Set HAL_TRACEBACK=1 to see where, and please report it.",
        file=sys.stderr,
    )
    return 3
