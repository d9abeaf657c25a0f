"""Kubelet: run the launcher pods that are bound to this host, and end each after its machine."""

from __future__ import annotations

import logging
from ipaddress import IPv4Address

from harness.embedded import faults as failures
from harness.embedded.context import Context
from harness.embedded.machines.names import ipv6_address
from harness.embedded.node import pods
from harness.embedded.node.guests import Addresses, Guests
from harness.embedded.vmi.launcher import CREATED_BY, LAUNCHER, is_consumer
from harness.embedded.vmi.status import UNPAUSED
from harness.kube.client import Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import controller_of, deleting, dig, is_condition, phase
from harness.kube.reconcile import Controller
from harness.kube.resources import POD, VMI

log = logging.getLogger(__name__)
WORKERS = 4
LOOK_SECONDS = 0.2  # how often a machine that shuts down is looked at
KILLED = 137  # exit code of a container that ended by SIGKILL
COMPONENT = "kubelet"


def is_launcher(pod: Json) -> bool:
    """Tell whether a pod is an instance's launcher."""
    return LAUNCHER.items() <= labels_of(pod).items()


def instance_uid(pod: Json) -> str:
    """Return the uid of the instance that a launcher was made for."""
    return str(labels_of(pod).get(CREATED_BY, ""))


class Kubelet:
    """Reconciles launcher pods on this node."""

    def __init__(self, context: Context, guests: Guests, addresses: Addresses) -> None:
        self._context = context
        self._guests = guests
        self._addresses = addresses
        self._pods = context.informers.of(POD)
        self._vmis = context.informers.of(VMI)
        self._uids: dict[Key, str] = {}  # launchers seen: what to kill when one vanishes without a word
        self.controller = Controller("kubelet", self.reconcile, workers=WORKERS)
        self._pods.subscribe(self._pod_changed)
        self._vmis.subscribe(self._instance_changed)

    def _mine(self, pod: Json) -> bool:
        return is_launcher(pod) and bool(pod["spec"].get("nodeName") == self._context.node)

    def _pod_changed(self, _: str, pod: Json) -> None:
        if self._mine(pod):
            if not is_consumer(pod):
                self._uids[key_of(pod)] = instance_uid(pod)
            self.controller.queue.add(key_of(pod))

    def _instance_changed(self, _: str, vmi: Json) -> None:
        if phase(vmi) not in {"Succeeded", "Failed"}:
            return
        for pod in self._pods.list(vmi["metadata"]["namespace"]):
            if self._mine(pod) and not is_consumer(pod) and instance_uid(pod) == vmi["metadata"]["uid"]:
                self.controller.queue.add(key_of(pod))

    def reconcile(self, key: Key) -> float | None:
        """Look at one launcher pod."""
        pod = self._pods.get(*key)
        if pod is None or not self._mine(pod):
            uid = self._uids.pop(key, None)
            if uid is not None:
                self._guests.kill(uid)
            return None
        if is_consumer(pod):
            self._consume(pod)
            return None
        if deleting(pod):
            return self._end(pod)
        if phase(pod) == "Pending" and is_condition(pod, UNPAUSED, "True"):
            return self._start(pod)
        if phase(pod) == "Running":
            self._follow_gate(pod)
            self._end_with_instance(pod)
            return self._befall(pod)
        return None

    def _consume(self, pod: Json) -> None:
        """End a pod that was only there for its claims to be bound, and let it go."""
        if deleting(pod):
            pods.remove(self._context.cluster, pod)
        elif phase(pod) == "Pending":
            self._write(pod, pods.ended(pod, exit_code=0, reason="Completed"))

    def _start(self, pod: Json) -> float | None:
        """Run a pod, unless something keeps it from it that is looked at again soon."""
        held = failures.not_started(self._context.faults, pod)
        if not held:
            self._run(pod)
            return None
        if isinstance(held, dict) and dig(pod, "status", "containerStatuses") is None:
            self._write(pod, held)
            waiting = held["containerStatuses"][0]["state"]["waiting"]
            for message in (f"Error: {waiting['reason']}", waiting["message"]):
                self._context.events.warning(pod, "Failed", message, component=COMPONENT)
        return LOOK_SECONDS

    def _write(self, pod: Json, status: Json) -> None:
        self._pods.observe(pods.write_status(self._context.cluster, pod, status))

    def _befall(self, pod: Json) -> float | None:
        """End a running pod, or take it away, when a fault says so."""
        faults = self._context.faults
        ended = failures.crashes(faults, pod)
        if ended is not None:
            self._guests.kill(instance_uid(pod))
            code, reason, message = int(ended["exit_code"]), ended["reason"], ended["message"]
            self._write(pod, pods.ended(pod, exit_code=code, reason=reason, message=message))
            return None
        if failures.vanishes(faults, pod):
            pods.remove(self._context.cluster, pod)
            return None
        return failures.next_look(faults, pod)

    def _follow_gate(self, pod: Json) -> None:
        """Keep a running pod's Ready in line with its readiness gate, which closes while the machine is paused."""
        conditions = pods.ready_by_gate(pod, UNPAUSED)
        if conditions is not None:
            self._pods.observe(pods.patch_conditions(self._context.cluster, pod, conditions))

    def _end(self, pod: Json) -> float | None:
        """End a launcher that is told to go after its machine, which the node agent ends; then take the pod away."""
        faults, vmi = self._context.faults, self._instance(pod)
        if faults.has(pod, "launcher-stays"):
            return LOOK_SECONDS
        if phase(vmi) == "Running" and not faults.has(vmi or {}, "handler-down"):
            return LOOK_SECONDS
        self._guests.kill(instance_uid(pod))
        if phase(pod) == "Running":
            code, reason = (0, "Completed") if phase(vmi) in {"Succeeded", "Failed"} else (KILLED, "Error")
            self._write(pod, pods.ended(pod, exit_code=code, reason=reason))
        else:
            pods.remove(self._context.cluster, pod)
        return None

    def _instance(self, pod: Json) -> Json | None:
        """Return the instance that a launcher was made for, while it is there."""
        owner = controller_of(pod)
        vmi = self._vmis.get(pod["metadata"]["namespace"], owner["name"]) if owner else None
        return vmi if vmi is not None and vmi["metadata"]["uid"] == instance_uid(pod) else None

    def _run(self, pod: Json) -> None:
        namespace = pod["metadata"]["namespace"]
        network = self._addresses.network(namespace, on_host=self._guests.networks())
        given = self._addresses.address(pod, network)
        addresses = failures.addresses(self._context.faults, pod, (given, str(ipv6_address(IPv4Address(given)))))
        self._write(pod, pods.running(pod, addresses=addresses, host_address=self._context.host_address))

    def _end_with_instance(self, pod: Json) -> None:
        """End a pod whose instance has ended; what is left of the machine goes, its console with it."""
        vmi = self._instance(pod)
        if vmi is None or phase(vmi) not in {"Succeeded", "Failed"}:
            return
        self._guests.kill(instance_uid(pod))
        if phase(vmi) == "Succeeded":
            self._write(pod, pods.ended(pod, exit_code=0, reason="Completed"))
        else:
            message = str(dig(vmi, "status", "reason") or "")
            self._write(pod, pods.ended(pod, exit_code=1, reason="Error", message=message))
