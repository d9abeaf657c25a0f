"""What an instance was made with, so that a second `up`, a run and `down` agree with the first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from harness.errors import BadInput
from harness.files import write_atomically
from harness.infra.host.layout import Layout
from harness.infra.kind.config import KindConfig, KubeVirt
from harness.infra.kvm.choice import Kvm


@dataclass(frozen=True)
class Installed:
    """What an installation of releases came to: the versions, and the operators' Deployments as NAMESPACE/NAME."""

    kubevirt: str
    cdi: str
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """Which KubeVirt an instance has, of which Kubernetes version it is, and what was chosen of it.

    kvm: whether this host's is used.  releases: the file of KubeVirt's and CDI's releases; None for the default.
    installed: None as long as the installation of releases has not come to its end.
    """

    kubevirt: KubeVirt
    version: str
    kvm: Kvm = "auto"
    releases: Path | None = None
    installed: Installed | None = None


def load(layout: Layout) -> Made | None:
    """Read it; None when there is none or it is unreadable."""
    try:
        raw = json.loads((layout.root / "kind.json").read_text(encoding="utf-8"))
        return Made(
            "embedded" if raw["kubevirt"] == "embedded" else "release",
            str(raw["version"]),
            kvm=next((known for known in get_args(Kvm) if known == raw.get("kvm")), "auto"),
            releases=Path(raw["releases"]) if raw.get("releases") else None,
            installed=_installed(raw.get("installed")),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _installed(raw: Mapping[str, Any] | None) -> Installed | None:
    return Installed(str(raw["kubevirt"]), str(raw["cdi"]), tuple(map(str, raw["operators"]))) if raw else None


def save(layout: Layout, made: Made) -> None:
    """Write it."""
    write_atomically(layout.root / "kind.json", json.dumps(asdict(made), default=str) + "\n")


def wanted(layout: Layout, config: KindConfig) -> Made:
    """Return what an instance is, or is to be.

    Raises:
        BadInput: it exists with another KubeVirt, or another Kubernetes version, than is asked for.
    """
    found = load(layout)
    if found is None:
        return Made(config.kubevirt or "release", config.version, config.kvm or "auto", config.releases)
    asked = (("--kubevirt", found.kubevirt, config.kubevirt), ("Kubernetes", found.version, config.version))
    for what, made, other in asked:
        if other not in (None, made):
            raise BadInput(
                f"instance {layout.name} was made with {what} {made}, not {other}",
                hint=f"vmatrix infra down --provider kind --infra-name {layout.name}, then up again",
            )
    return Made(
        found.kubevirt, found.version, config.kvm or found.kvm, config.releases or found.releases, found.installed
    )
