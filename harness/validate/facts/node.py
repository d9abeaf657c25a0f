"""Facts of a machine, as machine/node.py prints them: processes, units, certificates, etcd, network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

from harness.validate.machine.node_state import environment_file


@dataclass(frozen=True)
class Certificate:
    """Where a certificate lies, its subject (RFC 4514), its beginning and end, its alternative names, its text.

    subject: its parts are sorted (CN before O), since Kubernetes reads them in any order, and CAs write them in theirs.
    usages: what it may be used for, in the words of RFC 5280: key usages that are set, and extended ones
    (serverAuth, clientAuth; others as their numbers).
    """

    path: str
    subject: str
    not_before: datetime
    not_after: datetime
    names: tuple[str, ...]
    pem: str = ""
    usages: frozenset[str] = frozenset()

    def signed_by(self, authority: Certificate) -> bool:
        """Tell whether an authority has signed it."""
        mine, theirs = (x509.load_pem_x509_certificate(certificate.pem.encode()) for certificate in (self, authority))
        try:
            mine.verify_directly_issued_by(theirs)
        except (InvalidSignature, TypeError, ValueError):
            return False
        return True


def certificate_of(path: str, pem: str) -> Certificate:
    """Read one PEM certificate."""
    read = x509.load_pem_x509_certificate(pem.encode())
    try:
        extension = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = tuple(str(name.value) for name in extension)
    except x509.ExtensionNotFound:
        names = ()
    return Certificate(
        path=path,
        subject=",".join(sorted(part.rfc4514_string() for part in read.subject.rdns)),
        not_before=read.not_valid_before_utc,
        not_after=read.not_valid_after_utc,
        names=names,
        pem=pem.strip(),
        usages=frozenset(_usages(read)),
    )


KEY_USAGES = {
    "digital_signature": "digitalSignature",
    "key_encipherment": "keyEncipherment",
    "key_cert_sign": "keyCertSign",
}
EXTENDED = {ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth", ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth"}


def _usages(read: x509.Certificate) -> Iterator[str]:
    with suppress(x509.ExtensionNotFound):
        usage = read.extensions.get_extension_for_class(x509.KeyUsage).value
        yield from (word for name, word in KEY_USAGES.items() if getattr(usage, name))
    with suppress(x509.ExtensionNotFound):
        for purpose in read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value:
            yield EXTENDED.get(purpose, purpose.dotted_string)


@dataclass(frozen=True)
class Member:
    """One line of a member list. A member that was added and never started has no name and no client URLs."""

    id: str
    name: str
    peer_urls: tuple[str, ...]
    started: bool
    learner: bool


@dataclass(frozen=True)
class EtcdView:
    """One member's answers about itself and about the cluster's members. Ids are decimal numbers.

    size, quota: bytes of its file, and how many it may have; 0 where the member does not say it (before etcd 3.6).
    defragmentations: since its process began; None where it does not say it.
    """

    healthy: bool
    version: str
    leader: str
    term: str
    cluster: str
    members: tuple[Member, ...]
    alarms: tuple[str, ...]
    errors: tuple[str, ...]
    size: int
    quota: int
    defragmentations: int | None


def etcd_view_of(raw: Mapping[str, Any]) -> EtcdView:
    """Read the answers of a machine's etcd (see machine/node.py).

    Field names are those of etcd's gRPC gateway (rpc.proto as JSON): false and empty values are left out there.
    """
    errors = [str(raw["error"])] if "error" in raw else []
    answers: dict[str, Any] = {}
    for part in ("health", "members", "status", "alarms"):
        answer = raw.get(part, {"status": 0, "body": "was not asked"})
        answers[part] = _decoded(answer["body"]) if answer["status"] == 200 else {}
        if answer["status"] != 200:
            errors.append(f"{part}: {answer['status']} {answer['body'][:200]}")
    status = answers["status"]
    return EtcdView(
        healthy=answers["health"].get("health") == "true",
        version=str(status.get("version", "")),
        leader=str(status.get("leader", "")),
        term=str(status.get("raftTerm", "")),
        cluster=str(status.get("header", {}).get("cluster_id", "")),
        members=tuple(_member(m) for m in answers["members"].get("members", [])),
        alarms=tuple(f"{a.get('alarm')} of {a.get('memberID')}" for a in answers["alarms"].get("alarms", [])),
        errors=(*errors, *(str(e) for e in status.get("errors", []))),
        size=int(status.get("dbSize", 0)),
        quota=int(status.get("dbSizeQuota", 0)),
        defragmentations=raw.get("defragmentations"),
    )


def _member(raw: Mapping[str, Any]) -> Member:
    name, client_urls = str(raw.get("name", "")), raw.get("clientURLs", [])
    return Member(
        id=str(raw.get("ID", "")),
        name=name,
        peer_urls=tuple(raw.get("peerURLs", [])),
        started=bool(name and client_urls),
        learner=bool(raw.get("isLearner", False)),
    )


def _decoded(body: str) -> dict[str, Any]:
    try:
        decoded = json.loads(body)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


UNIT = re.compile(r"/([^/]+\.service)")
VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)")


@dataclass(frozen=True)
class Unit:
    """A systemd unit's state, in systemd's own words."""

    loaded: str
    active: str
    sub: str
    enabled: str


@dataclass(frozen=True)
class Process:
    """A running process: what it was started with, and the file it runs ("... (deleted)" when that was replaced).

    cgroup: its control group.  settings: what it takes from its environment or a file, by the names of its flags.
    main_of: the unit whose main process it is: kubelet may have moved it out of the unit's control group.
    """

    name: str
    argv: tuple[str, ...]
    executable: str
    cgroup: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    main_of: str = ""

    @property
    def unit(self) -> str:
        """Return the systemd unit that it belongs to, "" for none."""
        units: list[str] = UNIT.findall(self.cgroup)
        return self.main_of or (units[-1] if units else "")

    @property
    def in_pod(self) -> bool:
        """Tell whether kubelet runs it, as a container of a pod."""
        return "kubepods" in self.cgroup

    def flag(self, name: str) -> str | None:
        """Return the value of a setting given as --name=value or --name value, or else by environment or file."""
        for place, word in enumerate(self.argv):
            if word.startswith(f"--{name}="):
                return word.split("=", 1)[1]
            if word == f"--{name}":
                return self.argv[place + 1] if place + 1 < len(self.argv) else ""
        return self.settings.get(name)


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer on the machine's loopback; status 0 when there was none, `body` then says why."""

    status: int
    body: str


@dataclass(frozen=True)
class ClockOffset:
    """How far a machine's clock is ahead of the harness's, in seconds: not less than `least`, not more than `most`.

    The program on the machine read its clock when it began and when it ended. It began after the harness had called it,
    and ended before the harness had its answer; in between, the machine may have been as busy as it liked.
    """

    least: float
    most: float


@dataclass(frozen=True)
class NodeFacts:
    """The facts of one machine. Sizes in bytes.

    manifests: file names of static pods.  routes: the gateway ("" when the network is on the link itself) by
    destination, a network or "default".  links: the kind (vxlan, bridge, veth, ...; "" for hardware and loopback) of
    every network interface, by name.  mtus: theirs.  carriers: the interfaces that packets of tunnels leave by.
    whose_certificates: paths, by whose certificate it is.  kubelet: what its files say (manifests, server, ca,
    kubeconfig).  environment: the ETCD_* variables of the product's file for etcd, by the names of flags; None without
    one.
    """

    clock: ClockOffset
    hostname: str
    machine_id: str
    versions: Mapping[str, str]
    cni_plugins: Mapping[str, str]
    units: Mapping[str, Unit]
    system_state: str
    failed_units: tuple[str, ...]
    processes: tuple[Process, ...]
    sysctls: Mapping[str, str]
    swaps: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    manifests: tuple[str, ...]
    disk_free: int
    disk_total: int
    nft_tables: tuple[str, ...]
    routes: Mapping[str, str]
    links: Mapping[str, str]
    mtus: Mapping[str, int]
    carriers: Mapping[str, str]
    endpoints: Mapping[str, HttpAnswer]
    etcd: EtcdView | None
    whose_certificates: Mapping[str, str] = field(default_factory=dict)
    kubelet: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] | None = None

    def running(self, name: str) -> tuple[Process, ...]:
        """Return the running processes of a program."""
        return tuple(process for process in self.processes if process.name == name)


def version_in(text: str | None) -> str:
    """Return the first version in a program's output, without its v; "" when there is none."""
    match = VERSION.search(text or "")
    return match.group(1) if match else ""


def facts_of(raw: Mapping[str, Any]) -> NodeFacts:
    """Read what machine/node.py printed, and when, by the harness's clock, it was `called` and had `answered`.

    Raises ValueError, KeyError or TypeError when it is malformed.
    """
    return NodeFacts(
        clock=ClockOffset(float(raw["ended"]) - raw["answered"], float(raw["began"]) - raw["called"]),
        hostname=raw["hostname"],
        machine_id=raw["machine_id"],
        versions={name: version_in(output) for name, output in raw["versions"].items()},
        cni_plugins={name: version_in(output) for name, output in raw["cni_plugins"].items()},
        units={name: _unit(row) for name, row in raw["units"].items()},
        system_state=raw["system_state"] or "",
        failed_units=tuple(raw["failed_units"]),
        processes=tuple(map(_process, raw["processes"])),
        sysctls=raw["sysctls"],
        swaps=tuple(raw["swaps"]),
        certificates=tuple(certificate_of(path, pem) for path, pem in raw["certificates"].items()),
        manifests=tuple(raw["manifests"]),
        disk_free=int(raw["disk_free"]),
        disk_total=int(raw["disk_total"]),
        nft_tables=tuple(raw["nft_tables"]),
        # a destination of both families ("default") is that of IPv4
        routes={route["dst"]: route.get("gateway", "") for route in (*raw.get("ipv6_routes", ()), *raw["routes"])},
        links={link["ifname"]: link.get("linkinfo", {}).get("info_kind", "") for link in raw["links"]},
        mtus={link["ifname"]: int(link["mtu"]) for link in raw["links"] if "mtu" in link},
        carriers={link["ifname"]: _carrier(link) for link in raw["links"] if _carrier(link)},
        endpoints={name: HttpAnswer(int(a["status"]), a["body"]) for name, a in raw["endpoints"].items()},
        etcd=etcd_view_of(raw["etcd"]) if raw["etcd"] is not None else None,
        whose_certificates=raw["whose_certificates"],
        kubelet=raw["kubelet"],
        environment=_environment(raw["environment_file"]),
    )


def _carrier(link: Mapping[str, Any]) -> str:
    return str(link.get("linkinfo", {}).get("info_data", {}).get("link", ""))


def _process(raw: Mapping[str, Any]) -> Process:
    named = raw["name"], tuple(raw["argv"]), raw["executable"]
    return Process(*named, raw["cgroup"], raw["settings"], raw["main_of"])


def _environment(text: str | None) -> Mapping[str, str] | None:
    """Return the settings of etcd in a file of variables, by the names of its flags."""
    if text is None:
        return None
    settings = {name: value for name, value in environment_file(text).items() if name.startswith("ETCD_")}
    return {name.removeprefix("ETCD_").replace("_", "-").lower(): value for name, value in settings.items()}


def _unit(row: Mapping[str, str]) -> Unit:
    return Unit(row["LoadState"], row["ActiveState"], row["SubState"], row["UnitFileState"])
