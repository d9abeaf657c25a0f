"""Configuration of a kind instance: what the caller gives, and the record of what it was made with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from harness.errors import BadInput
from harness.files import write_atomically
from harness.infra.host.layout import Layout
from harness.infra.kvm.trial import Kvm
from harness.spec.models import Timeouts

KubeVirt = Literal["release", "embedded"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class OwnNode:
    """A node image of our making: its name, the archive it is loaded from, the repository of the images in it."""

    image: str
    archive: Path
    repository: str


@dataclass(frozen=True)
class KindLimits:
    """Seconds for the steps of a start, as in timeouts.yml without `kind_`; the defaults where nothing is started."""

    create: float = 1200.0
    ready: float = 300.0
    kubevirt: float = 900.0
    pull: float = 600.0
    load: float = 900.0

    @staticmethod
    def of(timeouts: Timeouts) -> KindLimits:
        """Return the limits that a site's timeouts.yml sets."""
        return KindLimits(
            create=timeouts.kind_create,
            ready=timeouts.kind_ready,
            kubevirt=timeouts.kind_kubevirt,
            pull=timeouts.kind_pull,
            load=timeouts.kind_load,
        )


@dataclass(frozen=True)
class KindConfig:
    """One instance's settings.

    Attributes:
        kubevirt: `release` installs KubeVirt and CDI, `embedded` attaches our own part; None: what the instance has,
            or else `release`.
        version: of Kubernetes.
        node_image: one that the engine has or can pull; None: a published one of that version, or else our own.
        releases: the file that names KubeVirt's and CDI's releases; None: what the instance has, or else the default.
        kvm: whether this host's KVM is used; None: what the instance has, or else `auto`.
        kind: returns the program `kind`, obtained first if need be.
        own_node: returns our own node, made first if need be; may take minutes.
        own_node_made: tells whether `own_node` has nothing to do.
        say: is told each step in one line.
        limits: how long the steps may take.
    """

    kubevirt: KubeVirt | None
    version: str
    node_image: str | None
    releases: Path | None
    kind: Callable[[], Path]
    own_node: Callable[[], OwnNode]
    own_node_made: Callable[[], bool]
    say: Say
    limits: KindLimits = KindLimits()
    kvm: Kvm | None = None


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


def load_record(layout: Layout) -> Made | None:
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


def save_record(layout: Layout, made: Made) -> None:
    """Write it."""
    write_atomically(layout.root / "kind.json", json.dumps(asdict(made), default=str) + "\n")


def wanted(layout: Layout, config: KindConfig) -> Made:
    """Return what an instance is, or is to be.

    Raises:
        BadInput: it exists with another KubeVirt, or another Kubernetes version, than is asked for.
    """
    found = load_record(layout)
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
