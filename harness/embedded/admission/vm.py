"""The webhooks of VirtualMachine: `virtualmachines-mutator` and `virtualmachine-validator`."""

from __future__ import annotations

import copy
import platform
import uuid
from collections.abc import Iterator

from harness.embedded.admission.response import (
    ALLOWED,
    AdmissionResponse,
    Json,
    StatusCause,
    change,
    failure,
    kubevirt_refusal,
)
from harness.embedded.admission.vm_network import network_causes
from harness.embedded.admission.vm_resources import (
    eviction_causes,
    hostname_causes,
    metadata_causes,
    probe_causes,
    resource_causes,
)
from harness.embedded.admission.vm_templates import namespace_causes, run_strategy_causes, template_causes
from harness.embedded.admission.vm_volumes import boot_order_causes, disk_causes, volume_causes
from harness.embedded.crds import schema
from harness.kube.objects import dig

PCI_TOPOLOGY = "kubevirt.io/pci-topology-version"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x"}
MACHINE_TYPES = {"amd64": "q35", "arm64": "virt", "s390x": "s390-ccw-virtio"}


def architecture() -> str:
    """Return the cluster's default architecture: this machine's."""
    return ARCHITECTURES.get(platform.machine(), "amd64")


def default_vm(request: Json) -> AdmissionResponse:
    """Answer for the mutator: fill in what a machine keeps for its whole life."""
    vm = request["object"]
    refused = undecodable("virtualmachines", vm, "VirtualMachineInstanceTemplateSpec", "spec.template.spec")
    if refused is not None:
        return refused
    if vm["metadata"].get("deletionTimestamp"):
        return ALLOWED
    spec = copy.deepcopy(vm["spec"])
    template = spec["template"]
    annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(PCI_TOPOLOGY, "v3")
    instance = template["spec"]
    instance.setdefault("architecture", architecture())
    domain = instance["domain"]
    firmware = domain.setdefault("firmware", {})
    firmware.setdefault("uuid", str(uuid.uuid4()))
    firmware.setdefault("serial", str(uuid.uuid4()))
    domain.setdefault("machine", {}).setdefault("type", MACHINE_TYPES[instance["architecture"]])
    domain.setdefault("resources", {})
    return change(request, {"spec": spec})


def validate_vm(request: Json) -> AdmissionResponse:
    """Answer for the validator."""
    vm = request["object"]
    if vm["metadata"].get("deletionTimestamp"):
        return ALLOWED
    spec = vm["spec"]
    template = spec["template"]
    instance, field = template["spec"], "spec.template.spec"
    causes = [
        *metadata_causes("spec.template.metadata", template.get("metadata") or {}),
        *instance_causes(field, instance),
        *template_causes("spec", spec),
        *run_strategy_causes("spec", spec),
    ] or [*namespace_causes("spec", spec, request["namespace"])]
    if causes:
        return kubevirt_refusal(causes)
    deprecated = spec.get("running") is not None
    warning = "spec.running is deprecated, please use spec.runStrategy instead."
    return AdmissionResponse(allowed=True, warnings=(warning,)) if deprecated else ALLOWED


def instance_causes(field: str, spec: Json) -> list[StatusCause]:
    """Judge an instance's spec wherever it stands, in the real validator's order."""
    rules = (
        hostname_causes,
        resource_causes,
        network_causes,
        boot_order_causes,
        probe_causes,
        disk_causes,
        volume_causes,
        eviction_causes,
    )
    return [cause for rule in rules for cause in rule(field, spec)]


def undecodable(plural: str, obj: Json, struct: str, path: str) -> AdmissionResponse | None:
    """Refuse an object that lacks a required part of its spec, or has a negative CPU count (an unsigned number in Go).

    List items are left to the API server's own check.

    Args:
        struct: the Go structure that the real decoder names.
        path: where an instance's spec lies in the object.
    """
    missing = _missing(schema(plural, "kubevirt.io"), obj, "")
    if causes := [StatusCause(f"{name} in body is required", reason="") for name in missing]:
        return kubevirt_refusal(causes)
    for name, value in (dig(obj, *path.split("."), "domain", "cpu") or {}).items():
        if name in {"cores", "sockets", "threads", "maxSockets"} and isinstance(value, int) and value < 0:
            field = f"{struct}.{path}.domain.cpu.{name}"
            return failure(f"json: cannot unmarshal number {value} into Go struct field {field} of type uint32")
    return None


def _missing(rules: Json, value: object, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for name in rules.get("required", []):
        if name not in value:
            yield path + name
    for name, part in rules.get("properties", {}).items():
        if name in value and name != "status":
            yield from _missing(part, value[name], f"{path}{name}.")
