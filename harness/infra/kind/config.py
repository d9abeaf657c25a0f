"""What a kind instance is made of, given by the caller: where programs and images come from is not known here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.infra.kvm.choice import Kvm
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
