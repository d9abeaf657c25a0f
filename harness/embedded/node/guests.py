"""Machines of this node by their launcher pods, and addresses for them.

A namespace's network index is written on the Namespace, a pod's address in its status, so nothing is lost when this
process is.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness.embedded.machines import POWER_CUT, Machines, MachineSpec, MachineStatus, netns
from harness.embedded.machines.cgroups import Memory
from harness.embedded.machines.names import FIRST_SPARE, PODS_NETWORK
from harness.errors import InfraError
from harness.kube.client import Cluster, Json
from harness.kube.informer import Informer
from harness.kube.objects import deleting, dig
from harness.kube.resources import NAMESPACE
from harness.proc import Service

log = logging.getLogger(__name__)
ID_DIGITS = 8
PID_FILE = "nspawn.pid"  # beside the console log: the process that holds the machine
# The power button that systemd-nspawn presses (SIGRTMIN+3) has systemd halt, which ends the machine as well.
_POWERED_OFF = re.compile(r"power(ing|ed)?[ -]?off|halting system", re.IGNORECASE)
_REBOOTED = re.compile(rf"reboot(ing)?\b|{POWER_CUT}", re.IGNORECASE)
_REBOOT = signal.SIGRTMIN + 5  # to systemd as pid 1: start reboot.target (systemd(1))


def machine_id(uid: str) -> str:
    """Return the machine id of the instance with a uid."""
    return uid.replace("-", "")[:ID_DIGITS]


class Guests:
    """Starts and ends machines; never two things at once with one machine."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._locks: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        self._of_locks = threading.Lock()

    def _lock(self, identity: str) -> threading.RLock:
        with self._of_locks:
            return self._locks[identity]

    def networks(self) -> set[int]:
        """Return the indices of the VM namespaces' networks that are on the host."""
        return {index for index, _ in netns.owned(self._machines.names)}

    def start(self, spec: MachineSpec, is_wanted: Callable[[], bool]) -> bool:
        """Boot a machine unless it runs already; False when, its turn having come, it is not wanted any more.

        Raises:
            InfraError: it did not boot.
        """
        with self._lock(spec.id):
            if not is_wanted():
                return False
            if self._machines.status(spec.id).phase not in {"booting", "running"}:
                self._machines.start(spec)
            return True

    def supervised(self, uid: str) -> bool:
        """Tell cheaply whether an instance's machine runs; False means: look closer."""
        return self._supervisor(uid) is not None

    def _supervisor(self, uid: str) -> Service | None:
        service = Service.load(self.console(uid).with_name(PID_FILE))
        return service if service is not None and service.alive() else None

    def status(self, uid: str) -> MachineStatus:
        """Say what an instance's machine is doing; walks its control groups, so not to be asked every second."""
        return self._machines.status(machine_id(uid))

    def power_off(self, uid: str) -> None:
        """Ask an instance's machine to shut down; nothing to do when it does not run."""
        if service := self._supervisor(uid):
            os.kill(service.pid, signal.SIGTERM)  # systemd-nspawn passes it on as the guest's power button

    def restart(self, spec: MachineSpec, is_wanted: Callable[[], bool]) -> None:
        """Boot a machine again that has ended for that, unless it is not wanted any more.

        Raises:
            InfraError: it did not boot.
        """
        with self._lock(spec.id):
            if is_wanted() and self._machines.status(spec.id).phase == "exited":
                self._machines.restart(spec)

    def reboot(self, uid: str) -> None:
        """Ask an instance's machine to reboot; nothing to do when it does not run."""
        if (pid := self._machines.init(machine_id(uid))) is not None:
            os.kill(pid, _REBOOT)

    def reset(self, uid: str) -> None:
        """End an instance's machine as if its power had failed, for it to boot again."""
        identity = machine_id(uid)
        with self._lock(identity):
            self._machines.cut(identity)

    def pause(self, uid: str, *, paused: bool) -> None:
        """Have an instance's machine stand still, or go on."""
        identity = machine_id(uid)
        with self._lock(identity):
            (self._machines.pause if paused else self._machines.resume)(identity)

    def console(self, uid: str) -> Path:
        """Return the file with what an instance's machine wrote to its console."""
        return self._machines.console(machine_id(uid))

    def memory(self, uid: str) -> Memory | None:
        """Return what an instance's machine takes of this host's memory; None when nothing of it is there."""
        return self._machines.memory(machine_id(uid))

    def kill(self, uid: str) -> None:
        """Take an instance's machine away."""
        identity = machine_id(uid)
        with self._lock(identity):
            self._machines.kill(identity)

    def kill_others(self, named: Callable[[], Iterable[str]]) -> None:
        """Take every machine away whose instance is not among the wanted uids."""
        for identity in self._machines.list():
            with self._lock(identity):
                if identity not in {machine_id(uid) for uid in named()}:
                    log.warning("machine %s belongs to no instance; killing it", identity)
                    self._machines.kill(identity)


def ended_well(status: MachineStatus) -> bool:
    """Tell whether a machine that is gone was shut down from inside (its console says so last)."""
    return status.phase == "exited" and _last_of(status) is _POWERED_OFF


def boots_again(status: MachineStatus) -> bool:
    """Tell whether a machine has ended to boot again: rebooted from inside, or reset (its console says so last)."""
    return status.phase == "exited" and _last_of(status) is _REBOOTED


def _last_of(status: MachineStatus) -> re.Pattern[str] | None:
    """Return which kind of end the last line that speaks of one speaks of."""
    for line in reversed(status.detail.splitlines()):
        for kind in (_REBOOTED, _POWERED_OFF):
            if kind.search(line):
                return kind
    return None


NETWORK_INDEX = "local.vmatrix.dev/network-index"
FIRST_NETWORK, LAST_NETWORK = 1, PODS_NETWORK - 1
FIRST_HOST, LAST_HOST = 2, FIRST_SPARE - 1  # .1 is the host's end, .254 the guests' default gateway


def index_of(namespace: Json) -> int | None:
    """Return the network index written on a namespace."""
    text = (namespace["metadata"].get("annotations") or {}).get(NETWORK_INDEX, "")
    return int(text) if text.isdigit() else None


@dataclass
class Addresses:
    """Gives out network indices and addresses; unique, also while several pods ask at once."""

    cluster: Cluster
    namespaces: Informer
    pods: Informer
    second_octet: int
    lock: threading.RLock = field(default_factory=threading.RLock)  # under it indices and addresses are given out
    _given: dict[str, str] = field(default_factory=dict)  # pod uid -> address
    _last: dict[int, int] = field(default_factory=dict)  # network index -> last host number given

    def network(self, namespace: str, *, on_host: Iterable[int] = ()) -> int:
        """Return a namespace's network index, giving it one at first.

        Args:
            on_host: networks that are still on the host, perhaps of a namespace that is gone: not given anew.

        Raises:
            InfraError: the namespace is gone or going, or all indices are taken.
        """
        with self.lock:
            obj = self.namespaces.get("", namespace) or self.cluster.get(NAMESPACE, namespace)
            if obj is None:
                raise InfraError(f"namespace {namespace} is gone")
            known = index_of(obj)
            if known is not None:
                return known
            if deleting(obj):
                raise InfraError(f"namespace {namespace} is being deleted")
            taken = self.claimed() | set(on_host)
            free = next((n for n in range(FIRST_NETWORK, LAST_NETWORK + 1) if n not in taken), None)
            if free is None:
                raise InfraError(f"all {LAST_NETWORK} VM networks of this infrastructure are in use")
            patch = {"metadata": {"annotations": {NETWORK_INDEX: str(free)}}}
            self.namespaces.observe(self.cluster.merge(NAMESPACE, namespace, patch))
            return free

    def claimed(self) -> set[int]:
        """Return the indices that namespaces hold."""
        with self.lock:
            return {n for namespace in self.namespaces.list() if (n := index_of(namespace)) is not None}

    def address(self, pod: Json, network: int) -> str:
        """Return a pod's address, giving it one at first; a freed one is given again as late as possible.

        Raises:
            InfraError: the namespace's network is full.
        """
        own = dig(pod, "status", "podIP")
        if own:
            return str(own)
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        with self.lock:
            living = {p["metadata"]["uid"]: p for p in self.pods.list(namespace)}
            prefix = f"10.{self.second_octet}.{network}."
            self._given = {u: a for u, a in self._given.items() if u in living or not a.startswith(prefix)}
            if uid not in self._given:
                taken = {dig(p, "status", "podIP") for p in living.values()} | set(self._given.values())
                self._given[uid] = self._next(network, taken)
            return self._given[uid]

    def _next(self, network: int, taken: set[str]) -> str:
        after = self._last.get(network, FIRST_HOST - 1)
        for host in (*range(after + 1, LAST_HOST + 1), *range(FIRST_HOST, after + 1)):
            address = f"10.{self.second_octet}.{network}.{host}"
            if address not in taken:
                self._last[network] = host
                return address
        raise InfraError(f"network {network} has no free address")
