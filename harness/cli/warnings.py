"""What a command says of the matrix besides its errors, on standard error."""

from __future__ import annotations

from rich.console import Console

from harness.plan.quarantine import idle_globs
from harness.spec import Spec
from harness.spec.project import matrix_dir


def tell_idle(spec: Spec) -> None:
    """Say which globs of the matrix match nothing."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for said in idle_globs(spec, matrix_dir()):
        console.print(f"warning: {said}", markup=False)
