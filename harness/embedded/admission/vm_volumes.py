"""Rules for an instance's disks and volumes (virt-api's instance validator)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from harness.embedded.admission.response import Json, StatusCause

INLINE_LIMIT = 2048  # bytes of inline user data, and of inline network data
DISK_TARGETS = ("disk", "lun", "cdrom")
CLOUD_INIT = ("cloudInitNoCloud", "cloudInitConfigDrive")


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
    given = 0
    for data, secret, label, hint in (
        ("userData", "secretRef", "userdata", "UserDataSecretRef"),
        ("networkData", "networkDataSecretRef", "networkdata", "NetworkDataSecretRef"),
    ):
        inline, encoded = source.get(data) or "", source.get(f"{data}Base64") or ""
        count = sum(map(bool, (inline, encoded, (source.get(secret) or {}).get("name"))))
        given += count
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
    if not given:
        yield StatusCause(f"{where} must have at least one userdatasource or one networkdatasource set.", where)


def unmapped_volume_causes(field: str, spec: Json) -> Iterator[StatusCause]:
    """Judge that each volume of an instance (not of a template) has its disk or file system."""
    devices = spec.get("domain", {}).get("devices") or {}
    mapped = {d.get("name") for d in [*(devices.get("disks") or []), *(devices.get("filesystems") or [])]}
    for index, volume in enumerate(spec.get("volumes") or []):
        where = f"{field}.domain.volumes[{index}].name"
        if volume.get("memoryDump") is None and volume.get("name") not in mapped:
            yield StatusCause(f"{where} '{volume.get('name')}' not found.", where)
