"""The `vmatrix` command: maps options to calls and errors to exit codes; nothing else."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from rich.console import Console

from harness.cli.programs import program
from harness.errors import EXIT_HARNESS, VmatrixError


def __getattr__(name: str) -> Any:
    """Return `app`, all commands: whoever calls one of `programs` does without them."""
    if name != "app":
        raise AttributeError(name)
    from harness.cli.commands import app

    return app


def main() -> None:
    """Run the command and end the process with its exit code."""
    verbose = "-vv" in sys.argv
    if verbose:
        sys.argv.remove("-vv")
    try:
        (program(sys.argv[1:]) or __getattr__("app"))(standalone_mode=True)
    except VmatrixError as error:
        show(error)
        if verbose:
            traceback.print_exc()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the last resort: a bug of ours, reported as one
        Console(stderr=True).print(f"error: {type(error).__name__}: {error}", markup=False)
        Console(stderr=True).print("this is a bug in vmatrix: repeat with -vv and report the traceback", markup=False)
        if verbose:
            traceback.print_exc()
        sys.exit(EXIT_HARNESS)


def show(error: VmatrixError) -> None:
    """Print an error as a person reads it: what, details, where to look, what to do."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"error ({error.blame.value}): {error.summary}", markup=False, style="red")
    if error.detail:
        console.print("\n".join(f"  {line}" for line in error.detail.splitlines()), markup=False)
    for path in error.paths:
        console.print(f"  see: {path}", markup=False)
    if error.hint:
        console.print(f"hint: {error.hint}", markup=False)
