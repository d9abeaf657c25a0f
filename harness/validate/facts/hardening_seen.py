"""Part of hardening.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KubeletDoor:
    """What a kubelet says to strangers (status by path), why its certificate is not the cluster's, its open port."""

    strangers: Mapping[str, int]
    unsigned: str
    read_only: bool


@dataclass(frozen=True)
class AuditTrail:
    """What an audit log has of one request: level, stage, verb and user of each event.

    status: what the request was answered with.  leaked: lines with the content of a Secret.
    """

    path: str
    status: int
    events: tuple[tuple[str, str, str, str], ...]
    leaked: int


@dataclass(frozen=True)
class StoredSecrets:
    """Secrets in etcd: by key how each is encrypted (provider:version:key, "" for not), and where a marker is read.

    error: why they were not read.
    """

    sealed: Mapping[str, str]
    shown: tuple[str, ...]
    error: str


@dataclass(frozen=True)
class HardeningFacts:
    """One machine.

    listeners: by program and port, what became of each offer.  etcd_strangers: of clients without a certificate.
    profiles, strangers: status by program, by path.  rights: permissions, owner and group by path, by control.
    status: /proc/1/status, of the machine's first process.
    """

    listeners: Mapping[str, Mapping[str, Sequence[str]]]
    etcd_strangers: Mapping[str, Sequence[str]]
    profiles: Mapping[str, int]
    kubelet: KubeletDoor | None
    rights: Mapping[str, Mapping[str, Sequence[int]]]
    strangers: Mapping[str, int]
    stored: StoredSecrets | None
    audited: AuditTrail | None
    status: str


def hardening_of(raw: Mapping[str, Any]) -> HardeningFacts:
    """Read what machine/hardening.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    door, stored, trail = raw["kubelet"], raw["stored"], raw["audited"]
    return HardeningFacts(
        listeners=raw["listeners"],
        etcd_strangers=raw["etcd_strangers"],
        profiles=raw["profiles"],
        kubelet=KubeletDoor(door["strangers"], door["unsigned"], door["read_only"]) if door else None,
        rights=raw["rights"],
        strangers=raw["strangers"],
        stored=None
        if stored is None
        else StoredSecrets(stored.get("sealed", {}), tuple(stored.get("shown", ())), stored.get("error", "")),
        audited=None
        if trail is None
        else AuditTrail(trail["path"], trail["status"], tuple(map(tuple, trail["events"])), trail["leaked"]),
        status=raw["status"],
    )
