"""The webhooks of VirtualMachine: `virtualmachines-mutator` and `virtualmachine-validator`."""

from __future__ import annotations

import copy
import platform
import uuid

from harness.embedded.admission.decoding import undecodable
from harness.embedded.admission.response import ALLOWED, AdmissionResponse, Json, StatusCause, change, kubevirt_refusal
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
