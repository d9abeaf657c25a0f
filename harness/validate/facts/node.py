"""A machine's facts, as on_node.py told them: read once, then asked by every check of machines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import InfraError
from harness.validate.facts.certificates import Certificate, certificate_of
from harness.validate.judge.etcd import EtcdView, view_of

VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)")


@dataclass(frozen=True)
class Unit:
    """A systemd unit's state, in systemd's own words."""

    name: str
    loaded: str
    active: str
    sub: str
    enabled: str
    main_pid: int
    restarts: int


@dataclass(frozen=True)
class Process:
    """A running process: what it was started with, and the file it runs ("... (deleted)" when that was replaced)."""

    pid: int
    name: str
    argv: tuple[str, ...]
    executable: str

    def flag(self, name: str) -> str | None:
        """Return the value of a flag given as --name=value or --name value; None when it is not given."""
        for place, word in enumerate(self.argv):
            if word.startswith(f"--{name}="):
                return word.split("=", 1)[1]
            if word == f"--{name}":
                return self.argv[place + 1] if place + 1 < len(self.argv) else ""
        return None


@dataclass(frozen=True)
class Route:
    """An IPv4 route: a network or "default", and the gateway ("" when the network is on the link itself)."""

    destination: str
    gateway: str
    device: str


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer on the machine's loopback; status 0 when nobody answered, `body` then says why."""

    status: int
    body: str


@dataclass(frozen=True)
class NodeFacts:
    """Everything that was asked of one machine. Sizes in bytes, `time` in seconds since the epoch.

    links: the kind (vxlan, bridge, veth, ...; "" for hardware and loopback) of every network interface, by name.
    """

    time: float
    hostname: str
    machine_id: str
    boot_id: str
    kernel: str
    os_release: Mapping[str, str]
    versions: Mapping[str, str]
    cni_plugins: Mapping[str, str]
    units: Mapping[str, Unit]
    system_state: str
    failed_units: tuple[str, ...]
    processes: tuple[Process, ...]
    sysctls: Mapping[str, str]
    swaps: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    manifests: Mapping[str, str]
    mounts: Mapping[str, str]
    disk_free: int
    disk_total: int
    listening: frozenset[str]
    nft_tables: tuple[str, ...]
    routes: tuple[Route, ...]
    links: Mapping[str, str]
    endpoints: Mapping[str, HttpAnswer]
    etcd: EtcdView | None

    def running(self, name: str) -> tuple[Process, ...]:
        """Return the running processes of a program."""
        return tuple(process for process in self.processes if process.name == name)

    def listens_on(self, port: int) -> bool:
        """Tell whether anything listens on a TCP port."""
        return any(address.rpartition(":")[2] == str(port) for address in self.listening)


def version_in(text: str | None) -> str:
    """Return the first version in what a program printed, without its v; "" when the program is not there."""
    match = VERSION.search(text or "")
    return match.group(1) if match else ""


def parse(text: str) -> NodeFacts:
    """Read what on_node.py printed.

    Raises:
        InfraError: it is not that.
    """
    try:
        return _facts(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise InfraError(
            f"a machine's facts cannot be read: {type(error).__name__}: {error}", detail=text[:500]
        ) from error


def _facts(raw: Mapping[str, Any]) -> NodeFacts:
    return NodeFacts(
        time=float(raw["time"]),
        hostname=raw["hostname"],
        machine_id=raw["machine_id"],
        boot_id=raw["boot_id"],
        kernel=raw["kernel"],
        os_release=raw["os_release"],
        versions={name: version_in(said) for name, said in raw["versions"].items()},
        cni_plugins={name: version_in(said) for name, said in raw["cni_plugins"].items()},
        units={name: _unit(name, row) for name, row in raw["units"].items()},
        system_state=raw["system_state"] or "",
        failed_units=tuple(raw["failed_units"]),
        processes=tuple(Process(int(p["pid"]), p["name"], tuple(p["argv"]), p["executable"]) for p in raw["processes"]),
        sysctls=raw["sysctls"],
        swaps=tuple(raw["swaps"]),
        certificates=tuple(certificate_of(path, pem) for path, pem in raw["certificates"].items()),
        manifests=raw["manifests"],
        mounts=raw["mounts"],
        disk_free=int(raw["disk_free"]),
        disk_total=int(raw["disk_total"]),
        listening=frozenset(raw["listening"]),
        nft_tables=tuple(raw["nft_tables"]),
        routes=tuple(Route(r["dst"], r.get("gateway", ""), r.get("dev", "")) for r in raw["routes"]),
        links={link["ifname"]: link.get("linkinfo", {}).get("info_kind", "") for link in raw["links"]},
        endpoints={name: HttpAnswer(int(a["status"]), a["body"]) for name, a in raw["endpoints"].items()},
        etcd=view_of(raw["etcd"]) if raw["etcd"] is not None else None,
    )


def _unit(name: str, row: Mapping[str, str]) -> Unit:
    return Unit(
        name=name,
        loaded=row["LoadState"],
        active=row["ActiveState"],
        sub=row["SubState"],
        enabled=row["UnitFileState"],
        main_pid=int(row.get("MainPID", 0)),  # units of other kinds than services have neither
        restarts=int(row.get("NRestarts", 0)),
    )
