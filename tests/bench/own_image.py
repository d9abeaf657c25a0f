"""vmatrix's own image: how large it is, and how long it takes to make after a change of nothing but our sources."""

from __future__ import annotations

import re
import secrets
import shutil
import sys
from pathlib import Path

from harness import proc
from harness.artifacts.own import push
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.paths import project_dir
from tests.bench.figures import Ledger
from tests.bench.ground import Ground

SIZE_TARGET, SECONDS_TARGET = 250.0, 5.0
COMMAND_SECONDS = 600.0  # against hanging
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "runs", "node_modules")
CALL = "from harness.cli import main; main()"
MIB = 2**20


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Make the image; then again and again from a copy of the sources that is changed each time."""
    made = push.obtain_image(Store())
    ledger.add("own image", "MiB", [int(made.facts["size"]) / MIB], target=SIZE_TARGET, note="all layers, unpacked")
    copy = ground.directory / "sources"
    shutil.copytree(project_dir(), copy, ignore=LEFT_OUT)
    try:
        seconds = [_again(copy) for _ in range(runs)]
    finally:
        shutil.rmtree(copy)
    note = "`vmatrix operator image` from its start to its end; the other layers are cached"
    ledger.add("- made after a change of ours", "s", seconds, target=SECONDS_TARGET, note=note)


def _again(copy: Path) -> float:
    """Change a file and make the image of it; what is made is removed."""
    with (copy / "harness" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(f"# {secrets.token_hex(8)}\n")
    done = proc.run([sys.executable, "-c", CALL, "operator", "image"], timeout=COMMAND_SECONDS, cwd=copy)
    layout = re.search(r"^layout +(\S+)$", done.stdout, re.MULTILINE)
    if layout is None:
        raise InfraError("the image's layout is not told", detail=done.stdout)
    shutil.rmtree(Path(layout[1]).parent)
    return done.seconds
