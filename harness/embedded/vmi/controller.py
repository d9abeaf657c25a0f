"""VirtualMachineInstance controller: launcher pod, status and machine of an instance, from Pending to its end."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial

from harness.embedded import faults as failures
from harness.embedded.context import Context
from harness.embedded.node.pods import patch_conditions, remove
from harness.embedded.node.registration import placed
from harness.embedded.vm.instance import (
    CONTROLLER_FINALIZER,
    FOREGROUND_FINALIZER,
    OBSERVED,
    claim_names,
    existing_objects,
)
from harness.embedded.vm.status import is_final
from harness.embedded.vmi.agent import LOOK_SECONDS, Agent
from harness.embedded.vmi.launcher import CREATED_BY, consumer_pod, launcher_pod, pod_name
from harness.embedded.vmi.status import (
    NODE_LABEL,
    SyncError,
    add_placement,
    image_error,
    next_status,
    unpaused_condition,
    volumes_problem,
    waits_for_consumer,
)
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import condition, controller_of, deleting, dig, is_condition, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import DATA_VOLUME, POD, PVC, VM, VMI

COMPONENT = "virtualmachine-controller"
WORKERS = 6  # a machine's start holds one for a second or so
PATIENCE = 3  # refusals of a launcher pod before they are said: a new namespace's service account comes late
FIRST_BOOT_RETRY_SECONDS = 0.5  # pacing, doubled with each refusal
STOP_SECONDS = 0.2  # how often a machine that shuts down is looked at
LAST_BOOT_RETRY_SECONDS = 15.0  # the longest pause between two tries to start a machine


class VmiController:
    """Reconciles VirtualMachineInstances."""

    def __init__(self, context: Context, agent: Agent) -> None:
        self._context = context
        self._cluster = context.cluster
        self._agent = agent
        self._say = partial(context.events.normal, component=COMPONENT)
        self._vms = context.informers.of(VM)
        self._vmis = context.informers.of(VMI)
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(PVC)
        self._data_volumes = context.informers.of(DATA_VOLUME)
        self._refusals: dict[str, int] = {}  # instance uid -> refusals of its pod, or failed boots, in a row
        self._boot_at: dict[str, float] = {}  # instance uid -> when to try the next boot (monotonic seconds)
        self.controller = Controller("vmi", self.reconcile, workers=WORKERS)
        self._vmis.subscribe(lambda _, vmi: self.controller.queue.add(key_of(vmi)))
        self._pods.subscribe(self._pod_changed)
        self._claims.subscribe(self._volume_changed)
        self._data_volumes.subscribe(self._volume_changed)
        self._vms.subscribe(lambda kind, vm: self.controller.queue.add(key_of(vm)) if kind == "DELETED" else None)

    def _pod_changed(self, _: str, pod: Json) -> None:
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == VMI.kind:
            self.controller.queue.add((pod["metadata"]["namespace"], owner["name"]))

    def _volume_changed(self, _: str, volume: Json) -> None:
        namespace, name = key_of(volume)
        for vmi in self._vmis.list(namespace):
            if phase(vmi) in {"", "Pending"} and name in claim_names(vmi["spec"]):
                self.controller.queue.add(key_of(vmi))

    def reconcile(self, key: Key) -> float | None:
        """Look at one instance."""
        vmi = self._vmis.get(*key)
        if vmi is None:
            return None
        vmi = self._introduce(vmi)
        pod = self._launcher(vmi)
        if deleting(vmi) or is_final(vmi):
            return self._tear_down(vmi, pod)
        error = None
        if pod is None and phase(vmi) in {"", "Pending"}:
            error, pod = self._launch(vmi)
        elif phase(vmi) == "Scheduled" and is_condition(vmi, "Synchronized", "False"):
            written = condition(vmi, "Synchronized") or {}
            error = SyncError(written.get("reason", ""), written.get("message", ""))
        elif pod is not None:
            error = image_error(pod)
        elif phase(vmi) == "Running" and self._context.faults.has(vmi, "launcher-vanishes"):
            return None
        vmi = self._write(vmi, pod, error)
        if pod is None or is_final(vmi):
            return None  # what is left of it is done when this has come back
        self._set_gate(vmi, pod)
        self._label_node(vmi, pod)
        return self._drive_machine(vmi, pod)

    def _launcher(self, vmi: Json) -> Json | None:
        pod = self._pods.get(vmi["metadata"]["namespace"], pod_name(vmi))
        return pod if pod is not None and labels_of(pod).get(CREATED_BY) == vmi["metadata"]["uid"] else None

    def _introduce(self, vmi: Json) -> Json:
        """Write the observed versions, as on every instance at first sight."""
        annotations = vmi["metadata"].get("annotations") or {}
        if OBSERVED.items() <= annotations.items():
            return vmi
        return self._replace({**vmi, "metadata": {**vmi["metadata"], "annotations": {**annotations, **OBSERVED}}})

    def _launch(self, vmi: Json) -> tuple[SyncError | None, Json | None]:
        """Create the launcher pod once the volumes are there."""
        namespace = vmi["metadata"]["namespace"]
        data_volume = partial(self._data_volumes.get, namespace)
        problem = volumes_problem(vmi, partial(self._claims.get, namespace), data_volume)
        if isinstance(problem, SyncError):
            self._say(vmi, problem.reason, problem.message)
            return problem, None
        if not problem:
            return None, None
        # A pod that does nothing else has the claims bound where the instance fits.
        consumer = placed(self._context, consumer_pod(vmi))
        known = self._pods.get(*key_of(consumer))
        if waits_for_consumer(vmi, data_volume):
            if known is None:
                self._cluster.create_if_absent(POD, consumer)
            return None, None
        if known is not None and not deleting(known):
            remove(self._cluster, consumer)
        return None, self._create_pod(vmi)

    def _create_pod(self, vmi: Json) -> Json:
        uid = vmi["metadata"]["uid"]
        try:
            pod = self._cluster.create(
                POD, failures.with_requests(self._context.faults, placed(self._context, launcher_pod(vmi)))
            )
        except ApiFailure as failure:
            if failure.exists:
                raise
            self._refusals[uid] = self._refusals.get(uid, 0) + 1
            if self._refusals[uid] >= PATIENCE:
                message = f"Error creating pod: {failure.message}"
                self._context.events.warning(vmi, "FailedCreate", message, component=COMPONENT)
                self._write(vmi, None, SyncError("FailedCreate", failure.message))
            raise
        self._refusals.pop(uid, None)
        self._pods.observe(pod)
        self._say(vmi, "SuccessfulCreate", f"Created virtual machine pod {pod['metadata']['name']}")
        return pod

    def _write(self, vmi: Json, pod: Json | None, error: SyncError | None) -> Json:
        """Write the status (and, with the place, the node's label) if it differs."""
        status = self._status(vmi, pod, error)
        meta = vmi["metadata"]
        if status.get("phase") == "Scheduled" and phase(vmi) != "Scheduled" and pod is not None:
            names = claim_names(vmi["spec"])
            claims = {c["metadata"]["name"]: c for c in existing_objects(self._claims, meta["namespace"], names)}
            add_placement(status, vmi, pod, claims)
            meta = {**meta, "labels": {**(meta.get("labels") or {}), NODE_LABEL: pod["spec"]["nodeName"]}}
        if status == (vmi.get("status") or {}):
            return vmi
        return self._replace({**vmi, "metadata": meta, "status": status})

    def _status(self, vmi: Json, pod: Json | None, error: SyncError | None = None) -> Json:
        data_volumes = existing_objects(self._data_volumes, vmi["metadata"]["namespace"], claim_names(vmi["spec"]))
        return next_status(vmi, pod, datetime.now(UTC), error, data_volumes)

    def _replace(self, vmi: Json) -> Json:
        made = self._cluster.replace(VMI, vmi)
        if made["metadata"].get("finalizers") or not deleting(made):
            self._vmis.observe(made)
        return made

    def _set_gate(self, vmi: Json, pod: Json) -> None:
        """Open the readiness gate of a launcher that the scheduler has looked at, while its instance is not paused."""
        if condition(pod, "PodScheduled") is None or deleting(pod):
            return
        gate = unpaused_condition(vmi, pod, datetime.now(UTC))
        if gate is not None:
            self._pods.observe(patch_conditions(self._cluster, pod, gate))

    def _label_node(self, vmi: Json, pod: Json) -> None:
        node = dig(vmi, "status", "nodeName")
        if node and labels_of(pod).get(NODE_LABEL) != node and not deleting(pod):
            meta = pod["metadata"]
            patch = {"metadata": {"labels": {NODE_LABEL: node}}}
            self._pods.observe(self._cluster.merge(POD, meta["name"], patch, meta["namespace"]))

    def _drive_machine(self, vmi: Json, pod: Json) -> float | None:
        """Start an instance's machine, look after it, or end it with its launcher: what the node agent does."""
        faults = self._context.faults
        if not self._context.here(pod) or faults.has(vmi, "handler-down"):
            return None
        if deleting(pod) and (faults.has(pod, "launcher-stays") or faults.has(vmi, "launcher-vanishes")):
            return LOOK_SECONDS
        if phase(vmi) == "Scheduled" and not deleting(pod):
            return self._boot(vmi, pod)
        if phase(vmi) != "Running":
            return None
        if not deleting(pod) and self._agent.reboots(vmi, pod):
            return LOOK_SECONDS
        ended = self._agent.stop(vmi, pod) if deleting(pod) else self._agent.ended(vmi)
        if status := ended or (None if deleting(pod) else failures.reported_status(faults, vmi)):
            self._replace({**vmi, "status": status})
        if ended:
            return None
        return STOP_SECONDS if deleting(pod) else LOOK_SECONDS

    def _boot(self, vmi: Json, pod: Json) -> float | None:
        uid = vmi["metadata"]["uid"]
        early = self._boot_at.get(uid, 0.0) - time.monotonic()
        if early > 0:
            return early
        error = self._agent.boot(vmi, pod)
        vmi = self._vmis.get(*key_of(vmi)) or vmi
        if error is not None:
            self._refusals[uid] = self._refusals.get(uid, 0) + 1
            delay = float(min(LAST_BOOT_RETRY_SECONDS, FIRST_BOOT_RETRY_SECONDS * 2 ** self._refusals[uid]))
            self._boot_at[uid] = time.monotonic() + delay
            self._write(vmi, pod, error)
            return delay
        self._forget(uid)
        if deleting(vmi) or is_final(vmi):
            return None
        status = self._agent.running(vmi, pod)
        status["conditions"] = [c for c in status.get("conditions") or [] if c["type"] != "Synchronized"]
        self._replace({**vmi, "status": status})
        return LOOK_SECONDS

    def _tear_down(self, vmi: Json, pod: Json | None) -> float | None:
        """Take an instance's launcher away when it is being deleted; let it go once it has ended and has none."""
        meta = vmi["metadata"]
        if pod is not None and deleting(vmi) and not deleting(pod):
            name = pod["metadata"]["name"]
            self._cluster.delete(POD, name, meta["namespace"])
            self._say(vmi, "SuccessfulDelete", f"Deleted virtual machine pod {name}")
            return None
        if is_final(vmi) and pod is None:
            return self._release(vmi)
        written = self._write(vmi, pod, None)
        return self._drive_machine(written, pod) if pod is not None else None

    def _release(self, vmi: Json) -> float | None:
        """Give up the last hold on an instance that has ended and has no launcher any more.

        The VM controller gives its own up as soon as the instance has ended. A real launcher is gone long after that,
        so nobody sees the status that is written here; launchers go fast here, and the VM controller is waited for.
        """
        if deleting(vmi) and self._context.faults.has(vmi, "instance-stays"):
            return LOOK_SECONDS
        meta, status = vmi["metadata"], self._status(vmi, None)
        owner, vm = controller_of(vmi), self._vms.get(*key_of(vmi))
        owned = owner is not None and vm is not None and vm["metadata"]["uid"] == owner["uid"]
        held = meta.get("finalizers") or []
        if owned and CONTROLLER_FINALIZER in held:
            return None
        kept = [f for f in held if f not in {FOREGROUND_FINALIZER, CONTROLLER_FINALIZER}]
        self._forget(meta["uid"])
        self._agent.forget(meta["uid"])
        for key in ("activePods", "launcherContainerImageVersion"):
            status.pop(key, None)
        if kept != held or status != vmi["status"]:
            self._replace({**vmi, "metadata": {**meta, "finalizers": kept}, "status": status})
        return None

    def _forget(self, uid: str) -> None:
        self._refusals.pop(uid, None)
        self._boot_at.pop(uid, None)
