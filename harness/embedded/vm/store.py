"""Reads and writes of VirtualMachines and their instances, through the API and the informers' local copies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from harness.embedded.context import Context
from harness.embedded.vm.printable import Seen
from harness.embedded.vm.status import vm_status
from harness.embedded.vm.volumes import claim_names, existing, template_spec
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import key_of
from harness.kube.objects import condition, controller_of, deleting, dig, new_condition, without_condition
from harness.kube.resources import DATA_VOLUME, NAMESPACE, PVC, VM, VMI, Resource


class VmStore:
    """What the VM controller reads and writes; every write is seen by the next read."""

    def __init__(self, context: Context) -> None:
        self._cluster = context.cluster
        self.vms = context.informers.of(VM)
        self.vmis = context.informers.of(VMI)
        self.data_volumes = context.informers.of(DATA_VOLUME)
        self.claims = context.informers.of(PVC)
        self._namespaces = context.informers.of(NAMESPACE)

    def instance(self, vm: Json) -> Json | None:
        """Return a VM's instance; one of the same name that is not its own does not count."""
        vmi = self.vmis.get(*key_of(vm))
        owner = controller_of(vmi) if vmi is not None else None
        return vmi if owner is not None and owner["uid"] == vm["metadata"]["uid"] else None

    def namespace_going(self, vm: Json) -> bool:
        """Tell whether nothing can be made any more where the VM lives (its own deletion comes later)."""
        namespace = self._namespaces.get("", vm["metadata"]["namespace"])
        return namespace is not None and deleting(namespace)

    def write_status(
        self, vm: Json, vmi: Json | None, *, start_expected: bool = False, stop_expected: bool = False
    ) -> Json:
        """Write a VM's status if it differs; return the VM as it is then."""
        namespace, names = vm["metadata"]["namespace"], claim_names(template_spec(vm))
        data_volumes = existing(self.data_volumes, namespace, names)
        claims = existing(self.claims, namespace, names)
        status = vm_status(Seen(vm, vmi, data_volumes, claims, start_expected, stop_expected), datetime.now(UTC))
        if not (vmi is None and not start_expected and condition(vm, "Failure")):
            status["conditions"] = [c for c in status["conditions"] if c["type"] != "Failure"]
        if status == (vm.get("status") or {}):
            return vm
        made = self._cluster.replace(VM, {**vm, "status": status}, subresource="status")
        self.vms.observe(made)
        return made

    def write_failure(self, vm: Json, failure: ApiFailure) -> None:
        """Say on the VM that its instance could not be created."""
        old = condition(vm, "Failure")
        if old is not None and old.get("message") == failure.message:
            return
        others = without_condition(dig(vm, "status", "conditions") or [], "Failure")
        new = new_condition("Failure", "True", "FailedCreate", failure.message, datetime.now(UTC), probed=False)
        self.patch_status(vm, {"conditions": [*others, new]})

    def patch(self, obj: Json, metadata: dict[str, Any], resource: Resource = VM) -> Json:
        """Change metadata of a VM (or of its instance), unless it has changed meanwhile (409)."""
        meta = obj["metadata"]
        patch = {"metadata": {**metadata, "resourceVersion": meta["resourceVersion"]}}
        made = self._cluster.merge(resource, meta["name"], patch, meta["namespace"])
        if not (deleting(made) and not made["metadata"].get("finalizers")):
            (self.vms if resource is VM else self.vmis).observe(made)
        return made

    def patch_status(self, vm: Json, status: Json) -> Json:
        """Change some of a VM's status, unless the VM has changed meanwhile (409)."""
        meta = vm["metadata"]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        made = self._cluster.merge(VM, meta["name"], patch, meta["namespace"], subresource="status")
        self.vms.observe(made)
        return made
