"""Faults as data: what is broken, how it is undone, and which check must say it with which words."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from harness.errors import BadInput
from harness.spec.base import Model, Text
from harness.spec.loader import load_file

DIRECTORY = Path(__file__).parent
CHECK = r"^(nodes|cluster|network|policies|hardening): test_[a-z0-9_]+$"


class Where(StrEnum):
    """A machine: the first control plane, the last one, the last worker, the first of etcd; `api`: kubectl."""

    CONTROL_PLANE = "cp"
    OTHER = "other"
    WORKER = "w"
    ETCD = "etcd"
    API = "api"


class Need(StrEnum):
    """What a fault needs of a cell."""

    THREE = "three"  # control planes
    EXTERNAL = "external-etcd"
    STACKED = "stacked-etcd"
    ADDONS = "addons"
    LOAD_BALANCER = "load-balancer"
    POLICIES = "network-policies"
    INGRESS = "ingress"
    NFTABLES = "nftables"
    IPTABLES = "iptables"
    HARDENED = "hardened"
    CUSTOMISED = "customised"
    EXTERNAL_CA = "external-ca"
    DUAL = "dual"  # IPv4 and IPv6
    REPLACED = "replaced-runtime"  # the machines still have the version of before
    CRIO = "crio"  # the others are of cells with containerd, whose files some of them change


Steps = dict[Where, Text]


class Fault(Model):
    """One fault.

    inject, undo: shell by machine, in this order, with the functions of shell.sh.
    check: the check that must fail, SUITE: NAME.  words: what its message must contain, in small or capital letters.
    missed: why no check finds it; "" for a fault that must be found.  quick: whether `make test` tries it.
    """

    id: Annotated[str, StringConstraints(pattern=r"^[A-Z][0-9]{2}[a-z]?$")]
    what: Text
    inject: Annotated[Steps, Field(min_length=1)]
    undo: Annotated[Steps, Field(min_length=1)]
    check: Annotated[str, StringConstraints(pattern=CHECK)]
    words: Annotated[tuple[Text, ...], Field(min_length=1)]
    needs: tuple[Need, ...] = ()
    missed: str = ""
    quick: bool = False

    @property
    def suite(self) -> str:
        """Return the suite of the check: it alone is run while the fault lasts."""
        return self.check.partition(":")[0]

    @property
    def digest(self) -> str:
        """Return what changes when the fault does: what is known of the old one says nothing of the new one."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    @property
    def of_add_ons(self) -> bool:
        """Tell whether the checks of add-ons, which work for seconds, are to be run."""
        return bool({Need.ADDONS, Need.LOAD_BALANCER, Need.POLICIES, Need.INGRESS} & set(self.needs))

    @model_validator(mode="after")
    def _undone_where_injected(self) -> Self:
        if not set(self.inject) <= set(self.undo) and Where.API not in self.undo:
            raise ValueError("undo names every machine that inject names")
        return self


class FaultFile(Model):
    """A file of faults."""

    faults: Annotated[tuple[Fault, ...], Field(min_length=1)]


def load(directory: Path = DIRECTORY) -> tuple[Fault, ...]:
    """Load all faults, in the order of files and of each file.

    Raises:
        BadInput: a line per mistake: file, line, field; or two faults with one id.
    """
    found: dict[str, tuple[Fault, Path]] = {}
    for file in sorted(directory.glob("*.yml")):
        for fault in load_file(file, FaultFile)[0].faults:
            if fault.id in found:
                raise BadInput(
                    f"{file}: the id {fault.id} is taken by a fault of {found[fault.id][1]}",
                    hint="every fault has an id of its own",
                )
            found[fault.id] = (fault, file)
    return tuple(fault for fault, _ in found.values())
