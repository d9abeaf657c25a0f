"""What an instance was made with, so that a second `up`, a run and `down` agree with the first."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from harness.errors import BadInput
from harness.files import write_atomically
from harness.infra.host.layout import Layout
from harness.infra.kind.config import KindConfig, KubeVirt


@dataclass(frozen=True)
class Made:
    """Which KubeVirt an instance has, of which Kubernetes version it is."""

    kubevirt: KubeVirt
    version: str


def load(layout: Layout) -> Made | None:
    """Read it; None when there is none or it is unreadable."""
    try:
        raw = json.loads((layout.root / "kind.json").read_text(encoding="utf-8"))
        return Made("embedded" if raw["kubevirt"] == "embedded" else "release", str(raw["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(layout: Layout, made: Made) -> None:
    """Write it."""
    write_atomically(layout.root / "kind.json", json.dumps(asdict(made)) + "\n")


def wanted(layout: Layout, config: KindConfig) -> Made:
    """Return what an instance is, or is to be.

    Raises:
        BadInput: it exists with another KubeVirt, or another Kubernetes version, than is asked for.
    """
    found = load(layout)
    if found is None:
        return Made(config.kubevirt or "release", config.version)
    asked = (("--kubevirt", found.kubevirt, config.kubevirt), ("Kubernetes", found.version, config.version))
    for what, made, other in asked:
        if other not in (None, made):
            raise BadInput(
                f"instance {layout.name} was made with {what} {made}, not {other}",
                hint=f"vmatrix infra down --provider kind --name {layout.name}, then up again",
            )
    return found
