"""VirtualMachine controller: create, delete and follow the instance that the run strategy asks for."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from harness.embedded.context import Context
from harness.embedded.vm.instance import (
    CONTROLLER_FINALIZER,
    OBSERVED,
    USABLE_PHASES,
    claim_names,
    data_volume_from,
    data_volume_templates,
    existing_objects,
    instance_of,
    revision,
    snapshot_statuses,
    template_spec,
)
from harness.embedded.vm.status import START, InstanceAction, Seen, decide, is_final, vm_status
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import condition, controller_of, deleting, dig, new_condition, phase, without_condition
from harness.kube.reconcile import Controller
from harness.kube.resources import CONTROLLER_REVISION, DATA_VOLUME, NAMESPACE, PVC, VM, VMI, Resource

COMPONENT = "virtualmachine-controller"
ORPHAN = "orphan"  # the finalizer of a deletion that leaves dependents alone
WORKERS = 3


class VmController:
    """Reconciles VirtualMachines."""

    def __init__(self, context: Context) -> None:
        self._cluster = context.cluster
        self._store = VmStore(context)
        self._say = partial(context.events.normal, component=COMPONENT)
        self._warn = partial(context.events.warning, component=COMPONENT)
        self.controller = Controller("vm", self.reconcile, workers=WORKERS)
        self._store.vms.subscribe(lambda _, vm: self.controller.queue.add(key_of(vm)))
        self._store.vmis.subscribe(lambda _, vmi: self.controller.queue.add(key_of(vmi)))
        self._store.data_volumes.subscribe(self._volume_changed)
        self._store.claims.subscribe(self._volume_changed)

    def _volume_changed(self, _: str, volume: Json) -> None:
        namespace, name = key_of(volume)
        for vm in self._store.vms.list(namespace):
            if name in claim_names(template_spec(vm)):
                self.controller.queue.add(key_of(vm))

    def reconcile(self, key: Key) -> float | None:
        """Look at one VM."""
        vm = self._store.vms.get(*key)
        if vm is None:
            return None
        vmi = self._store.instance(vm)
        if deleting(vm):
            self._tear_down(vm, vmi)
            return None
        vm = self._introduce(vm)
        self._data_volumes_from_templates(vm)
        decision = decide(vm, vmi, datetime.now(UTC))
        if decision.start:
            return self._start(vm, decision)
        stopped = decision.stop and vmi is not None and self._stop(vm, vmi)
        vm = self._answer(vm, decision) if stopped else vm
        self._store.write_status(vm, vmi, stop_expected=stopped)
        self._let_go(vmi)
        return decision.again

    def _introduce(self, vm: Json) -> Json:
        """Write what every VM gets at first sight: snapshot statuses, observed versions, the finalizer."""
        if dig(vm, "status", "volumeSnapshotStatuses") is None and template_spec(vm).get("volumes"):
            vm = self._store.patch_status(vm, {"volumeSnapshotStatuses": snapshot_statuses(vm)})
        if not OBSERVED.items() <= (vm["metadata"].get("annotations") or {}).items():
            vm = self._store.patch(vm, {"annotations": OBSERVED})
        finalizers = vm["metadata"].get("finalizers") or []
        if CONTROLLER_FINALIZER not in finalizers:
            vm = self._store.patch(vm, {"finalizers": [*finalizers, CONTROLLER_FINALIZER]})
        return vm

    def _data_volumes_from_templates(self, vm: Json) -> None:
        namespace = vm["metadata"]["namespace"]
        for template in data_volume_templates(vm):
            name = template["metadata"]["name"]
            if self._store.data_volumes.get(namespace, name) or self._store.claims.get(namespace, name):
                continue
            try:
                made = self._cluster.create(DATA_VOLUME, data_volume_from(vm, template))
            except ApiFailure as failure:
                if failure.exists:
                    continue
                self._warn(vm, "FailedDataVolumeCreate", f"Error creating DataVolume {name}: {failure.message}")
                raise
            self._store.data_volumes.observe(made)
            self._say(vm, "SuccessfulDataVolumeCreate", f"Created DataVolume {name}")

    def _waiting_for_volumes(self, vm: Json) -> bool:
        for template in data_volume_templates(vm):
            key = vm["metadata"]["namespace"], template["metadata"]["name"]
            volume = self._store.data_volumes.get(*key)
            if volume is None and self._store.claims.get(*key) is None:
                return True
            if volume is not None and phase(volume) not in USABLE_PHASES:
                return True
        return False

    def _start(self, vm: Json, decision: InstanceAction) -> float | None:
        if self._waiting_for_volumes(vm) or self._store.namespace_going(vm):
            self._store.write_status(vm, None)
            return None
        try:
            self._create_revision(vm)
            vmi = self._cluster.create(VMI, instance_of(vm))
        except ApiFailure as failure:
            name = vm["metadata"]["name"]
            if failure.exists:
                return 0.2  # an instance that is going away, or one that is not ours
            self._warn(vm, "FailedCreate", f"Error creating virtual machine instance {name}: {failure.message}")
            self._store.write_failure(vm, failure)
            raise
        self._store.vmis.observe(vmi)
        name = vmi["metadata"]["name"]
        message = f"Started the virtual machine by creating the new virtual machine instance {name}"
        self._say(vm, "SuccessfulCreate", message)
        vm = self._store.write_status(self._answer(vm, decision), None, start_expected=True)
        self._store.write_status(vm, vmi)
        return None

    def _create_revision(self, vm: Json) -> None:
        """Keep what this generation is started from; of older generations nothing is kept."""
        self._cluster.create_if_absent(CONTROLLER_REVISION, revision(vm))
        if vm["metadata"]["generation"] == 1:
            return
        mine, keep = f"revision-start-vm-{vm['metadata']['uid']}-", revision(vm)["metadata"]["name"]
        for old in self._cluster.list(CONTROLLER_REVISION, vm["metadata"]["namespace"]).items:
            name = old["metadata"]["name"]
            if name.startswith(mine) and name != keep:
                self._cluster.delete(CONTROLLER_REVISION, name, vm["metadata"]["namespace"])

    def _stop(self, vm: Json, vmi: Json) -> bool:
        """Delete the instance; False when that was asked for before."""
        if deleting(vmi):
            return False
        self._cluster.delete(VMI, vmi["metadata"]["name"], vmi["metadata"]["namespace"])
        uid = vmi["metadata"]["uid"]
        self._say(vm, "SuccessfulDelete", f"Stopped the virtual machine by deleting the virtual machine instance {uid}")
        return True

    def _answer(self, vm: Json, decision: InstanceAction) -> Json:
        """Drop the state change request that was acted upon, or leave one behind for RerunOnFailure."""
        requests = list(dig(vm, "status", "stateChangeRequests") or [])
        if decision.answered and requests:
            return self._store.patch_status(vm, {"stateChangeRequests": requests[1:] or None})
        if decision.rerun:
            return self._store.patch_status(vm, {"stateChangeRequests": [{"action": START}]})
        return vm

    def _tear_down(self, vm: Json, vmi: Json | None) -> None:
        finalizers = vm["metadata"].get("finalizers") or []
        if vmi is not None and ORPHAN not in finalizers:
            self._stop(vm, vmi)
            self._store.write_status(vm, vmi)
            self._let_go(vmi)
            return
        if CONTROLLER_FINALIZER in finalizers:
            self._store.patch(vm, {"finalizers": [f for f in finalizers if f != CONTROLLER_FINALIZER]})

    def _let_go(self, vmi: Json | None) -> None:
        """Give up the hold on an instance that has ended; what it left behind is on the VM by then."""
        if vmi is None or not is_final(vmi):
            return
        finalizers = vmi["metadata"].get("finalizers") or []
        if CONTROLLER_FINALIZER in finalizers:
            try:
                self._store.patch(vmi, {"finalizers": [f for f in finalizers if f != CONTROLLER_FINALIZER]}, VMI)
            except ApiFailure as failure:
                if not failure.not_found:  # gone meanwhile: nothing left to let go of
                    raise


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
        data_volumes = existing_objects(self.data_volumes, namespace, names)
        claims = existing_objects(self.claims, namespace, names)
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
