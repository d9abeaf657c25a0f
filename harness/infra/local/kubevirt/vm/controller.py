"""Brings one VirtualMachine's world to what its run strategy asks for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from harness.infra.local.kubevirt.context import Context
from harness.infra.local.kubevirt.objects import condition, controller_of, deleting, dig, now
from harness.infra.local.kubevirt.vm import volumes
from harness.infra.local.kubevirt.vm.instance import (
    CONTROLLER_FINALIZER,
    FOREGROUND_FINALIZER,
    LATEST_API,
    STORAGE_API,
    instance_of,
    revision,
)
from harness.infra.local.kubevirt.vm.printable import Seen
from harness.infra.local.kubevirt.vm.status import vm_status
from harness.infra.local.kubevirt.vm.strategy import START, Decision, decide, is_final
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.reconcile import Controller
from harness.kube.resources import CONTROLLER_REVISION, DATA_VOLUME, NAMESPACE, PVC, VM, VMI

COMPONENT = "virtualmachine-controller"
ORPHAN = "orphan"  # the finalizer of a deletion that leaves dependents alone
API_VERSION = "v1"
WORKERS = 3
NOT_FOUND = 404


class VmController:
    """Reconciles VirtualMachines."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cluster = context.cluster
        self._vms = context.informers.of(VM)
        self._vmis = context.informers.of(VMI)
        self._data_volumes = context.informers.of(DATA_VOLUME)
        self._claims = context.informers.of(PVC)
        self._namespaces = context.informers.of(NAMESPACE)
        self.controller = Controller("vm", self.reconcile, workers=WORKERS)
        self._vms.subscribe(lambda _, vm: self.controller.queue.add(key_of(vm)))
        self._vmis.subscribe(lambda _, vmi: self.controller.queue.add(key_of(vmi)))
        self._data_volumes.subscribe(self._volume_changed)
        self._claims.subscribe(self._volume_changed)

    def _volume_changed(self, _: str, volume: Json) -> None:
        namespace, name = key_of(volume)
        for vm in self._vms.list(namespace):
            if name in volumes.claim_names(volumes.template_spec(vm)):
                self.controller.queue.add(key_of(vm))

    def reconcile(self, key: Key) -> float | None:
        """Look at one VM."""
        vm = self._vms.get(*key)
        if vm is None:
            return None
        vmi = self._instance(vm)
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
        self._write_status(vm, vmi, stop_expected=stopped)
        self._let_go(vmi)
        return decision.again

    def _instance(self, vm: Json) -> Json | None:
        vmi = self._vmis.get(*key_of(vm))
        owner = controller_of(vmi) if vmi is not None else None
        return vmi if owner is not None and owner["uid"] == vm["metadata"]["uid"] else None

    def _introduce(self, vm: Json) -> Json:
        """Write what every VM gets at first sight: snapshot statuses, observed versions, the finalizer."""
        if dig(vm, "status", "volumeSnapshotStatuses") is None and volumes.template_spec(vm).get("volumes"):
            vm = self._patch_status(vm, {"volumeSnapshotStatuses": volumes.snapshot_statuses(vm, "")})
        meta = vm["metadata"]
        annotations = meta.get("annotations") or {}
        if annotations.get(LATEST_API) != API_VERSION or annotations.get(STORAGE_API) != API_VERSION:
            observed = {LATEST_API: API_VERSION, STORAGE_API: API_VERSION}
            vm = self._patch(vm, {"annotations": observed})
        finalizers = vm["metadata"].get("finalizers") or []
        if CONTROLLER_FINALIZER not in finalizers:
            vm = self._patch(vm, {"finalizers": [*finalizers, CONTROLLER_FINALIZER]})
        return vm

    def _data_volumes_from_templates(self, vm: Json) -> None:
        namespace = vm["metadata"]["namespace"]
        for template in volumes.templates(vm):
            name = template["metadata"]["name"]
            if self._data_volumes.get(namespace, name) or self._claims.get(namespace, name):
                continue
            try:
                made = self._cluster.create(DATA_VOLUME, volumes.from_template(vm, template))
            except ApiFailure as failure:
                if failure.reason == "AlreadyExists":
                    continue
                self._warn(vm, "FailedDataVolumeCreate", f"Error creating DataVolume {name}: {failure.message}")
                raise
            self._data_volumes.observe(made)
            self._say(vm, "SuccessfulDataVolumeCreate", f"Created DataVolume {name}")

    def _waiting_for_volumes(self, vm: Json) -> bool:
        namespace = vm["metadata"]["namespace"]
        for template in volumes.templates(vm):
            name = template["metadata"]["name"]
            found = self._data_volumes.get(namespace, name)
            if found is not None and not volumes.usable(found):
                return True
            if found is None and self._claims.get(namespace, name) is None:
                return True
        return False

    def _start(self, vm: Json, decision: Decision) -> float | None:
        if self._waiting_for_volumes(vm) or self._namespace_going(vm):
            self._write_status(vm, None)
            return None
        try:
            self._create_revision(vm)
            vmi = self._cluster.create(VMI, instance_of(vm))
        except ApiFailure as failure:
            name = vm["metadata"]["name"]
            if failure.reason == "AlreadyExists":
                return 0.2  # an instance that is going away, or one that is not ours
            self._warn(vm, "FailedCreate", f"Error creating virtual machine instance {name}: {failure.message}")
            self._write_failure(vm, failure)
            raise
        self._vmis.observe(vmi)
        self._say(
            vm,
            "SuccessfulCreate",
            f"Started the virtual machine by creating the new virtual machine instance {vmi['metadata']['name']}",
        )
        vm = self._answer(vm, decision)
        vm = self._write_status(vm, None, start_expected=True)
        self._write_status(vm, vmi)
        return None

    def _namespace_going(self, vm: Json) -> bool:
        """Tell whether nothing can be made any more where the VM lives (its own deletion comes later)."""
        namespace = self._namespaces.get("", vm["metadata"]["namespace"])
        return namespace is not None and deleting(namespace)

    def _create_revision(self, vm: Json) -> None:
        """Keep what this generation is started from; of older generations nothing is kept."""
        try:
            self._cluster.create(CONTROLLER_REVISION, revision(vm))
        except ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                raise
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

    def _answer(self, vm: Json, decision: Decision) -> Json:
        """Drop the state change request that was acted upon, or leave one behind for RerunOnFailure."""
        requests = list(dig(vm, "status", "stateChangeRequests") or [])
        if decision.answered and requests:
            return self._patch_status(vm, {"stateChangeRequests": requests[1:] or None})
        if decision.rerun:
            return self._patch_status(vm, {"stateChangeRequests": [{"action": START}]})
        return vm

    def _tear_down(self, vm: Json, vmi: Json | None) -> None:
        finalizers = vm["metadata"].get("finalizers") or []
        if vmi is not None and ORPHAN not in finalizers:
            self._stop(vm, vmi)
            self._write_status(vm, vmi)
            self._let_go(vmi)
            return
        if CONTROLLER_FINALIZER in finalizers:
            self._patch(vm, {"finalizers": [f for f in finalizers if f != CONTROLLER_FINALIZER]})

    def _let_go(self, vmi: Json | None) -> None:
        """Give up the hold on an instance that ended, is being deleted, and has no launcher any more."""
        if vmi is None or not deleting(vmi) or not is_final(vmi):
            return
        finalizers = vmi["metadata"].get("finalizers") or []
        if CONTROLLER_FINALIZER in finalizers and FOREGROUND_FINALIZER not in finalizers:
            try:
                self._patch(vmi, {"finalizers": [f for f in finalizers if f != CONTROLLER_FINALIZER]}, VMI)
            except ApiFailure as failure:
                if failure.code != NOT_FOUND:  # gone meanwhile: nothing left to let go of
                    raise

    def _seen(self, vm: Json, vmi: Json | None, *, start_expected: bool, stop_expected: bool) -> Seen:
        namespace, names = vm["metadata"]["namespace"], volumes.claim_names(volumes.template_spec(vm))
        return Seen(
            vm,
            vmi,
            volumes.existing(self._data_volumes, namespace, names),
            volumes.existing(self._claims, namespace, names),
            start_expected,
            stop_expected,
        )

    def _write_status(
        self, vm: Json, vmi: Json | None, *, start_expected: bool = False, stop_expected: bool = False
    ) -> Json:
        seen = self._seen(vm, vmi, start_expected=start_expected, stop_expected=stop_expected)
        status = vm_status(seen, datetime.now(UTC))
        if not (vmi is None and not start_expected and condition(vm, "Failure")):
            status["conditions"] = [c for c in status["conditions"] if c["type"] != "Failure"]
        if status == (vm.get("status") or {}):
            return vm
        made = self._cluster.replace(VM, {**vm, "status": status}, subresource="status")
        self._vms.observe(made)
        return made

    def _write_failure(self, vm: Json, failure: ApiFailure) -> None:
        """Say on the VM that its instance could not be created."""
        conditions = [c for c in dig(vm, "status", "conditions") or [] if c["type"] != "Failure"]
        moment = now()
        conditions.append(
            {
                "type": "Failure",
                "status": "True",
                "reason": "FailedCreate",
                "message": failure.message,
                "lastProbeTime": None,
                "lastTransitionTime": moment,
            }
        )
        old = condition(vm, "Failure")
        if old is None or old.get("message") != failure.message:
            self._patch_status(vm, {"conditions": conditions})

    def _patch(self, obj: Json, metadata: dict[str, Any], resource: Any = VM) -> Json:
        meta = obj["metadata"]
        patch = {"metadata": {**metadata, "resourceVersion": meta["resourceVersion"]}}
        made = self._cluster.merge(resource, meta["name"], patch, meta["namespace"])
        if not (deleting(made) and not made["metadata"].get("finalizers")):
            (self._vms if resource is VM else self._vmis).observe(made)
        return made

    def _patch_status(self, vm: Json, status: Json) -> Json:
        meta = vm["metadata"]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        made = self._cluster.merge(VM, meta["name"], patch, meta["namespace"], subresource="status")
        self._vms.observe(made)
        return made

    def _say(self, vm: Json, reason: str, message: str) -> None:
        self._context.events.normal(vm, reason, message, component=COMPONENT)

    def _warn(self, vm: Json, reason: str, message: str) -> None:
        self._context.events.warning(vm, reason, message, component=COMPONENT)
