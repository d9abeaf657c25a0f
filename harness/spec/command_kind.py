"""What a product of kind `command` must have, on the plain data of product.yml: programs that can be run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from shutil import which
from typing import Any

from harness.spec.ansible_kind import is_there
from harness.spec.declared import EACH, texts
from harness.spec.lines import Finding


def program(phase: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    """Find a phase without a program, or with one that cannot be run."""
    if phase.get("command") is None:
        yield ("command",), "missing; this key is required"
    for at, folder in texts(phase, "working_directory"):
        if not is_there((directory / folder).is_dir):
            yield at, f"the directory {directory / folder} does not exist"
    for at, name in islice(texts(phase, "command", EACH), 1):
        why = _not_run(name, directory)
        if at == ("command", 0) and why:
            yield at, why


def _not_run(program: str, directory: Path) -> str:
    """Say why a program cannot be run; "" when it can."""
    if "/" not in program:
        found = which(program) if "\0" not in program else None
        return "" if found else f"no folder of the PATH has the program {program}; install it, or write ./{program}"
    file = directory / program
    if not is_there(file.exists):
        return f"the program {file} does not exist; create it, or remove the phase"
    if not file.is_file():
        return f"the program {file} is not a file"
    return "" if os.access(file, os.X_OK) else f"the program {file} is not executable; run `chmod +x {file}`"
