"""Validate an instance's spec as virt-api does: names, CPU, memory, probes, networks, interfaces, disks, volumes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from decimal import Decimal

from harness.kube import objects
from harness.kube.admission import DUPLICATE, NOT_SUPPORTED, REQUIRED, StatusCause
from harness.kube.client import Json

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_LENGTH = 63
_MAC = re.compile(
    r"([0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2})"
)
EVICTION_STRATEGIES = frozenset({"None", "LiveMigrate", "LiveMigrateIfPossible", "External"})
PROBE_HANDLERS = ("httpGet", "tcpSocket", "exec", "guestAgentPing")
RESERVED_LABELS = frozenset(
    f"kubevirt.io/{name}"
    for name in (
        "created-by",
        "migrationJobUID",
        "nodeName",
        "migrationTargetNodeName",
        "schedulable",
        "install-strategy",
    )
)
BINDINGS = ("bridge", "masquerade", "sriov", "passtBinding", "slirp", "macvtap", "passt", "binding")
NETWORK_SOURCES = ("pod", "multus", "resourceClaim")
INLINE_LIMIT = 2048  # bytes of inline user data, and of inline network data
DISK_TARGETS = ("disk", "lun", "cdrom")
CLOUD_INIT = ("cloudInitNoCloud", "cloudInitConfigDrive")


def label_problems(name: str) -> list[str]:
    """Say why a name is not an RFC 1123 label; empty when it is one."""
    problems = [f"must be no more than {_LABEL_LENGTH} characters"] if len(name) > _LABEL_LENGTH else []
    if not re.fullmatch(_LABEL, name):
        problems.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
            f"'{_LABEL}')"
        )
    return problems


def is_mac(address: str) -> bool:
    """Tell whether a text is a MAC address of six bytes in one of the usual notations."""
    return _MAC.fullmatch(address) is not None


def quantity(text: object) -> Decimal:
    """Return what a quantity ("2Gi", "500m", 4) stands for; 0 for nothing or nonsense (the schema's matter)."""
    try:
        return objects.quantity(str(text or 0))
    except ValueError:
        return Decimal(0)


def metadata_causes(field: str, metadata: Json) -> Iterator[StatusCause]:
    """Judge the labels that a normal user may not set."""
    if RESERVED_LABELS & set(metadata.get("labels") or {}):
        message = "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
        yield StatusCause(message, f"{field}.labels", NOT_SUPPORTED)


def hostname_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge the hostname."""
    problems = label_problems(spec["hostname"]) if spec.get("hostname") else []
    if problems:
        where = f"{field}.hostname"
        message = f"{where} does not conform to the kubernetes DNS_LABEL rules : {', '.join(problems)}"
        yield StatusCause(message, where)


def resource_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge requests and limits: none negative, no request above its limit.

    Guest memory is not compared with the limit: virt-api does not either while virtual machines are updated live.
    """
    resources = spec.get("domain", {}).get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name in ("memory", "cpu"):
        asked, most = (f"{field}.domain.resources.{kind}.{name}" for kind in ("requests", "limits"))
        for where, given in ((asked, requests.get(name)), (most, limits.get(name))):
            if quantity(given) < 0:
                yield StatusCause(f"{where} '{given}': must be greater than or equal to 0.", where)
        if 0 < quantity(limits.get(name)) < quantity(requests.get(name)):
            yield StatusCause(f"{asked} '{requests[name]}' is greater than {most} '{limits[name]}'", asked)


def memory_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge that an instance (not a template) has memory at all."""
    domain = spec.get("domain", {})
    memory = domain.get("memory") or {}
    requested = ((domain.get("resources") or {}).get("requests") or {}).get("memory")
    if not quantity(requested) and not memory.get("guest") and not memory.get("hugepages"):
        names = [f"{field}.domain.{n}" for n in ("memory.guest", "memory.hugepages.size", "resources.requests.memory")]
        message = f"no memory requested, at least one of '{names[0]}', '{names[1]}' or '{names[2]}' must be set"
        yield StatusCause(message, reason=REQUIRED)


def probe_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge the probes: exactly one handler each, and a network for those that need one."""
    on_pod_network = any("pod" in network for network in spec.get("networks") or [])
    for name in ("readinessProbe", "livenessProbe"):
        probe, where = spec.get(name), f"{field}.{name}"
        if probe is None:
            continue
        handlers = [handler for handler in PROBE_HANDLERS if probe.get(handler) is not None]
        if len(handlers) > 1:
            yield StatusCause(f"{where} must have exactly one probe type set", where)
        elif not handlers:
            choice = f"either {where}.tcpSocket, {where}.exec or {where}.httpGet"
            yield StatusCause(f"{choice} must be set if a {where} is specified", where, REQUIRED)
        for handler in handlers:
            if handler in {"httpGet", "tcpSocket"} and not on_pod_network:
                message = f"{where}.{handler} is only allowed if the Pod Network is attached"
                yield StatusCause(message, f"{where}.{handler}")


def eviction_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge evictionStrategy."""
    strategy, where = spec.get("evictionStrategy"), f"{field}.evictionStrategy"
    if strategy is not None and strategy not in EVICTION_STRATEGIES:
        yield StatusCause(f"{where} is set with an unrecognized option: {strategy}", where)


def network_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge networks and interfaces, and how they go together."""
    networks: list[Json] = spec.get("networks") or []
    interfaces: list[Json] = (spec.get("domain", {}).get("devices") or {}).get("interfaces") or []
    yield from _sources(field, networks)
    yield from _pod_network(field, networks, interfaces)
    yield from _matches(field, networks, interfaces)
    by_name = {network.get("name"): network for network in networks}
    for index, interface in enumerate(interfaces):
        where = f"{field}.domain.devices.interfaces[{index}]"
        yield from _binding(where, interface, by_name.get(interface.get("name"), {}))
        mac = interface.get("macAddress")
        if mac and not is_mac(mac):
            yield StatusCause(f"interface {where}.name has malformed MAC address ({mac}).", f"{where}.macAddress")


def _sources(field: str, networks: list[Json]) -> Iterator[StatusCause]:
    names: set[str] = set()
    for index, network in enumerate(networks):
        where, name = f"{field}.networks[{index}]", network.get("name", "")
        sources = [source for source in NETWORK_SOURCES if network.get(source) is not None]
        if not sources:
            yield StatusCause("should have a network type", where, REQUIRED)
        elif len(sources) > 1:
            yield StatusCause("should have only one network type", where, REQUIRED)
        if name in names:
            message = f'Network with name "{name}" already exists, every network must have a unique name'
            yield StatusCause(message, f"{where}.name", DUPLICATE)
        names.add(name)


def _pod_network(field: str, networks: list[Json], interfaces: list[Json]) -> Iterator[StatusCause]:
    on_pod = {network.get("name") for network in networks if network.get("pod") is not None}
    if sum(interface.get("name") in on_pod for interface in interfaces) > 1:
        where = f"{field}.interfaces"
        yield StatusCause(f"more than one interface is connected to a pod network in {where}", where, DUPLICATE)


def _matches(field: str, networks: list[Json], interfaces: list[Json]) -> Iterator[StatusCause]:
    names = [network.get("name", "") for network in networks]
    taken: list[str] = [interface.get("name", "") for interface in interfaces]
    for index, name in enumerate(taken):
        where = f"{field}.domain.devices.interfaces[{index}].name"
        if name not in names:
            yield StatusCause(f"{where} '{name}' not found.", where)
        if name in taken[:index]:
            yield StatusCause("Only one interface can be connected to one specific network", where, DUPLICATE)
    for index, name in enumerate(names):
        if name not in taken:
            where = f"{field}.networks[{index}].name"
            yield StatusCause(f"{where} '{name}' not found.", where, REQUIRED)


def _binding(where: str, interface: Json, network: Json) -> Iterator[StatusCause]:
    bindings = [binding for binding in BINDINGS if interface.get(binding) is not None]
    if len(bindings) != 1:
        name = interface.get("name", "")
        yield StatusCause(f"logical {name} interface must have exactly one binding method or binding plugin", where)
    elif bindings == ["masquerade"] and network and network.get("pod") is None:
        yield StatusCause("Masquerade interface only implemented with pod network", f"{where}.name")


def boot_order_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge that each disk has its volume and that no boot order is given twice."""
    devices = spec.get("domain", {}).get("devices") or {}
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    orders: set[int] = set()
    for index, disk in enumerate(devices.get("disks") or []):
        where = f"{field}.domain.devices.disks[{index}]"
        if disk.get("name") not in volumes and disk.get("cdrom") is None:
            yield StatusCause(f"{where}.Name '{disk.get('name')}' not found.", f"{where}.name")
        yield from _duplicate_order(f"{where}.bootOrder", disk, orders)
    for index, interface in enumerate(devices.get("interfaces") or []):
        if interface.get("bootOrder", 1) < 1:
            where = f"{field}[{index}]"
            yield StatusCause(f"{where} must have a boot order > 0, if supplied", f"{where}.bootOrder")
        else:
            yield from _duplicate_order(f"{field}.domain.devices.interfaces[{index}].bootOrder", interface, orders)


def _duplicate_order(where: str, device: Json, orders: set[int]) -> Iterator[StatusCause]:
    order = device.get("bootOrder")
    if order is None:
        return
    if order in orders:
        yield StatusCause(f"Boot order for {where} already set for a different device.", where)
    orders.add(order)


def disk_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge the disks themselves: unique names, one target at most, boot orders above 0."""
    disks: list[Json] = (spec.get("domain", {}).get("devices") or {}).get("disks") or []
    names = [disk.get("name", "") for disk in disks]
    for index, disk in enumerate(disks):
        where = f"{field}.domain.devices.disks[{index}]"
        first = names.index(names[index])
        if first < index:
            other = f"{field}.domain.devices.disks[{first}]"
            yield StatusCause(f"{where} and {other} must not have the same Name.", f"{where}.name")
        if sum(disk.get(target) is not None for target in DISK_TARGETS) > 1:
            yield StatusCause(f"{where} can only have a single target type defined", where)
        if disk.get("bootOrder", 1) < 1:
            yield StatusCause(f"{where} must have a boot order > 0, if supplied", f"{where}.bootOrder")


def volume_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge the volumes: unique names, exactly one source, and what a cloud-init source holds."""
    volumes: list[Json] = spec.get("volumes") or []
    names = [volume.get("name", "") for volume in volumes]
    for index, volume in enumerate(volumes):
        where = f"{field}.volumes[{index}]"
        first = names.index(names[index])
        if first < index:
            message = f"{where} and {field}.volumes[{first}] must not have the same Name."
            yield StatusCause(message, f"{where}.name")
        sources = [source for source, value in volume.items() if source != "name" and value is not None]
        if len(sources) != 1:
            yield StatusCause(f"{where} must have exactly one source type set", where)
        for kind in CLOUD_INIT:
            if volume.get(kind) is not None:
                yield from _cloud_init(f"{where}.{kind}", kind, volume[kind])


def _cloud_init(where: str, kind: str, source: Json) -> Iterator[StatusCause]:
    sources = 0
    for data, secret, label, hint in (
        ("userData", "secretRef", "userdata", "UserDataSecretRef"),
        ("networkData", "networkDataSecretRef", "networkdata", "NetworkDataSecretRef"),
    ):
        inline, encoded = source.get(data) or "", source.get(f"{data}Base64") or ""
        count = sum(map(bool, (inline, encoded, (source.get(secret) or {}).get("name"))))
        sources += count
        if count > 1:
            yield StatusCause(f"{where} must have only one {label}source set.", where)
        size = len(inline.encode())
        if encoded:
            try:
                size = len(base64.b64decode(encoded, validate=True))
            except binascii.Error:
                field = f"{where}.{data}Base64"
                yield StatusCause(f"{field}.{kind}.{data}Base64 is not a valid base64 value.", field)
        if size > INLINE_LIMIT:
            message = f"{where} {label} exceeds {INLINE_LIMIT} byte limit. Should use {hint} for larger data."
            yield StatusCause(message, where)
    if not sources:
        yield StatusCause(f"{where} must have at least one userdatasource or one networkdatasource set.", where)


def unmapped_volume_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge that each volume of an instance (not of a template) has its disk or file system."""
    devices = spec.get("domain", {}).get("devices") or {}
    mapped = {d.get("name") for d in [*(devices.get("disks") or []), *(devices.get("filesystems") or [])]}
    for index, volume in enumerate(spec.get("volumes") or []):
        where = f"{field}.domain.volumes[{index}].name"
        if volume.get("memoryDump") is None and volume.get("name") not in mapped:
            yield StatusCause(f"{where} '{volume.get('name')}' not found.", where)
