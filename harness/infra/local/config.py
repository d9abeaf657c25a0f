"""What an embedded infrastructure is made of, given by the caller: where binaries come from is not known here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.infra.local.layout import Layout
from harness.infra.local.programs import Program
from harness.model import Mirror

UP_SECONDS = 120.0


@dataclass(frozen=True)
class LocalConfig:
    """One instance's settings.

    Attributes:
        layout: the instance's name and folder.
        binaries: returns the path of a host binary ("etcd", "kube-apiserver", ...), making it when it is not there.
        mirror: returns the programs that serve binaries and images at the given address.
        publish: puts everything that guests need behind the mirror; called when its programs are ready.
        python: the interpreter that runs the harness's own programs.
        up_seconds: how long the programs may take together to become ready.
    """

    layout: Layout
    binaries: Callable[[str], Path]
    mirror: Callable[[Layout, Mirror], Sequence[Program]]
    publish: Callable[[Mirror], None]
    python: Path = field(default_factory=lambda: Path(sys.executable))
    up_seconds: float = UP_SECONDS
