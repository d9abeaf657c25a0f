"""The `vmatrix` command: maps options to calls and errors to exit codes; nothing else."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from harness.cli import ending
from harness.interpreter import begin_anew
from harness.startup import unsearched


def __getattr__(name: str) -> Any:
    """Return `app`, all commands, loaded: whoever calls one of them does without the others."""
    if name != "app":
        raise AttributeError(name)
    from harness.cli.front import together

    globals()[name] = together()
    return globals()[name]


def every_command() -> Any:
    """Return all commands, each loaded when it is called."""
    from harness.cli.front import late

    return late()


def _command(words: list[str]) -> Any:
    """Return what a command line calls. What is loaded for it stays, so it is no garbage to search for."""
    with unsearched():
        from harness.cli.front import program

        return program(words) or every_command()


def main() -> None:
    """Run the command and end the process with its exit code."""
    verbose = "-vv" in sys.argv
    try:
        begin_anew()
        if verbose:
            sys.argv.remove("-vv")
        with ending.spoken():
            _command(sys.argv[1:])(prog_name="vmatrix", standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the last resort: a bug of ours, reported as one
        code = ending.tell(error)
        if verbose:
            traceback.print_exc()
        sys.exit(code)
