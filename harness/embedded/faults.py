"""Failures on request: an annotation of an object names what is to go wrong with it.

docs/chaos.md lists them.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness import yaml_text
from harness.embedded.node.pods import container_status
from harness.errors import BadInput
from harness.files import read_text
from harness.kube.client import Json
from harness.kube.objects import dig, parse_time, stamp, with_condition

PREFIX = "fault.vmatrix.dev/"
MACHINE = "VirtualMachine"  # annotate the VM's template, or the VMI
DISK = "DataVolume"
log = logging.getLogger(__name__)
SCENARIO = "faults.yml"
VM_NAME = "vm.kubevirt.io/name"  # label of a launcher pod
KINDS: Mapping[str, str] = {
    "VirtualMachine": MACHINE,
    "VirtualMachineInstance": MACHINE,
    "Pod": MACHINE,
    "DataVolume": DISK,
    "PersistentVolumeClaim": DISK,
}


@dataclass(frozen=True)
class Fault:
    """One fault: what it befalls, and its parameters with their defaults; docs/chaos.md tells what is to be seen of it.

    Every fault has the parameter `seconds` as well: how long after the object's creation it ends; 0 for never.
    """

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


CATALOGUE: Mapping[str, Fault] = {
    "unschedulable": Fault(MACHINE, {"resource": "devices.kubevirt.io/kvm", "amount": "2k", "cpu_model": ""}),
    "image-pull": Fault(MACHINE, {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "{image}"'}),
    "launcher-stuck": Fault(MACHINE),
    "handler-down": Fault(MACHINE),
    "sync-failed": Fault(
        MACHINE,
        {"message": "server error. command SyncVMI failed: \"LibvirtError(Code=38, Domain=0, Message='no space')\""},
    ),
    "launcher-crashes": Fault(
        MACHINE,
        {"exit_code": 1, "reason": "Error", "message": "panic: timed out waiting for domain to be defined", "after": 0},
    ),
    "launcher-vanishes": Fault(MACHINE, {"after": 1}),
    "no-guest": Fault(MACHINE),
    "address": Fault(MACHINE, {"reported": "", "pod": ""}),
    "agent": Fault(MACHINE, {"after": 1, "address": "10.0.2.2"}),
    "moves": Fault(MACHINE, {"after": 1, "node": "elsewhere", "address": "10.244.9.9"}),
    "instance-stays": Fault(MACHINE),
    "launcher-stays": Fault(MACHINE),
    "portforward-drops": Fault(MACHINE, {"after_bytes": 0, "times": 1}),
    "import-fails": Fault(
        DISK, {"message": "Unable to connect to http data source: 404", "every": 1, "times": 0, "fatal": False}
    ),
    "import-stalls": Fault(DISK, {"at": 42.0}),
    "import-slow": Fault(DISK, {"extra": 5.0}),
    "no-importer": Fault(DISK, {"message": "exceeded quota: cell, requested: pods=1, used: pods=4, limited: pods=4"}),
    "importer-waits": Fault(
        DISK, {"reason": "CreateContainerConfigError", "message": 'configmap "images-ca" not found'}
    ),
    "clone-blocked": Fault(DISK, {"message": "pod {source} in use"}),
    "claim-pending": Fault(
        DISK, {"message": "rpc error: code = InvalidArgument desc = multi-node access is not supported"}
    ),
}


class Faults:
    """Answers whether an object is to be befallen by a fault, and with which parameters."""

    def __init__(self, state: Path | None = None) -> None:
        self._scenario = state / SCENARIO if state is not None else None
        self._read: tuple[float, Sequence[Json]] = (0.0, ())
        self._complained: set[str] = set()

    def of(self, obj: Json, name: str) -> Mapping[str, Any] | None:
        """Return the parameters of a fault that an object (see KINDS) asks for, None when it does not, or no more."""
        fault = CATALOGUE[name]
        if KINDS.get(obj["kind"]) != fault.kind:
            return None
        asked = self._annotated(obj, name)
        if asked is None:
            asked = self._in_scenario(obj, name, fault.kind)
        if asked is None:
            return None
        parameters = {"seconds": 0, **fault.parameters, **asked}
        over = parameters["seconds"] and _age(obj) >= float(parameters["seconds"])
        return None if over else parameters

    def has(self, obj: Json, name: str) -> bool:
        """Tell whether an object asks for a fault, still."""
        return self.of(obj, name) is not None

    def _annotated(self, obj: Json, name: str) -> Json | None:
        text, where = (obj["metadata"].get("annotations") or {}).get(PREFIX + name), f"annotation {PREFIX}{name}"
        if text is None:
            return None
        try:
            faults = yaml_text.document(text, where) if text.strip() else {}
        except BadInput as error:
            self._complain(error.summary)
            return None
        return self._checked(name, faults, where)

    def _checked(self, name: str, value: Any, where: str) -> Json | None:
        if not isinstance(value, dict):
            self._complain(f"{where} is not a mapping of parameters")
            return None
        unknown = sorted(set(value) - {"seconds", *CATALOGUE[name].parameters})
        if unknown:
            self._complain(f"{where}: fault {name} has no parameter {', '.join(map(str, unknown))}")
            return None
        return value

    def _complain(self, about: str) -> None:
        """Say once what is wrong with a request; the fault is not shown."""
        if about not in self._complained:
            self._complained.add(about)
            log.warning("fault request ignored: %s", about)

    def _in_scenario(self, obj: Json, name: str, kind: str) -> Json | None:
        namespace, own = obj["metadata"].get("namespace", ""), _name(obj)
        for rule in self._rules():
            if rule.get("kind") != kind or name not in (rule.get("faults") or {}):
                continue
            if fnmatchcase(namespace, rule.get("namespace", "*")) and fnmatchcase(own, rule.get("name", "*")):
                return self._checked(name, rule["faults"][name] or {}, f"{self._scenario}: {name}")
        return None

    def _rules(self) -> Sequence[Json]:
        """Return the scenario file's rules, read again only when it changed."""
        if self._scenario is None:
            return ()
        try:
            changed = self._scenario.stat().st_mtime_ns
            if changed != self._read[0]:
                rules = yaml_text.document(read_text(self._scenario), self._scenario) or []
                self._read = (changed, rules if isinstance(rules, list) else ())
                unknown = {n for rule in self._read[1] for n in rule.get("faults") or {}} - CATALOGUE.keys()
                if unknown:
                    self._complain(f"{self._scenario}: unknown fault {', '.join(sorted(unknown))}")
        except FileNotFoundError:
            return ()
        except (OSError, BadInput) as error:
            self._complain(str(error))
            return ()
        return self._read[1]


def _name(obj: Json) -> str:
    labels = obj["metadata"].get("labels") or {}
    return str(labels.get(VM_NAME, "") if obj["kind"] == "Pod" else obj["metadata"]["name"])


def _age(obj: Json) -> float:
    """Return the seconds since an object's creation; Kubernetes writes whole ones."""
    created = obj["metadata"].get("creationTimestamp")
    return (datetime.now(UTC) - parse_time(created)).total_seconds() if created else 0.0


MOVED_TO = "00000000-0000-4000-8000-"  # begins the uid of the launcher that an instance moved to
HELD = "held"


def reported_status(faults: Faults, vmi: Json) -> Json | None:
    """Return the status that a running instance is to have in place of its own; None when it has it already."""
    status: Json = copy.deepcopy(vmi["status"])
    moment = datetime.now(UTC)
    asked = faults.of(vmi, "address")
    if asked is not None and asked["reported"]:
        _set_address(status, str(asked["reported"]))
    _connect_agent(faults, vmi, status, moment)
    _move(faults, vmi, status, moment)
    return None if status == vmi["status"] else status


def _connect_agent(faults: Faults, vmi: Json, status: Json, moment: datetime) -> None:
    asked = faults.of(vmi, "agent")
    if asked is None or _instance_running_for(vmi, moment) < float(asked["after"]):
        return
    times = {"lastProbeTime": stamp(moment), "lastTransitionTime": None}
    connected = {"type": "AgentConnected", "status": "True", **times}
    status["conditions"] = with_condition(status.get("conditions") or [], connected)
    status["guestOSInfo"] = {"id": "debian", "name": "Debian GNU/Linux", "version": "13"}
    _set_address(status, str(asked["address"]))
    for interface in status.get("interfaces") or []:
        interface["infoSource"] = "domain, guest-agent"


def _move(faults: Faults, vmi: Json, status: Json, moment: datetime) -> None:
    asked = faults.of(vmi, "moves")
    if asked is None or _instance_running_for(vmi, moment) < float(asked["after"]):
        return
    source = next(iter(dig(vmi, "status", "activePods") or {"": ""}))
    if source.startswith(MOVED_TO):
        return
    target = MOVED_TO + vmi["metadata"]["uid"][-12:]
    status["activePods"] = {target: asked["node"]}
    status["migrationState"] = {
        "sourceNode": status.get("nodeName", ""),
        "targetNode": asked["node"],
        "completed": True,
        "startTimestamp": stamp(moment),
        "endTimestamp": stamp(moment),
        "mode": "PreCopy",
    }
    status["nodeName"] = asked["node"]
    _set_address(status, str(asked["address"]))


def _set_address(status: Json, address: str) -> None:
    for interface in (status.get("interfaces") or [])[:1]:
        interface |= {"ipAddress": address, "ipAddresses": [address]}


def _instance_running_for(vmi: Json, moment: datetime) -> float:
    entered = {t["phase"]: t["phaseTransitionTimestamp"] for t in dig(vmi, "status", "phaseTransitionTimestamps") or []}
    return (moment - parse_time(entered["Running"])).total_seconds() if "Running" in entered else 0.0


def with_requests(faults: Faults, pod: Json) -> Json:
    """Return the launcher pod to create: with a wish that no node can fulfil, where that is asked for."""
    asked = faults.of(pod, "unschedulable")
    if asked is None:
        return pod
    changed = copy.deepcopy(pod)
    if asked["cpu_model"]:
        changed["spec"]["nodeSelector"][f"cpu-model.node.kubevirt.io/{asked['cpu_model']}"] = "true"
        return changed
    resources = changed["spec"]["containers"][0]["resources"]
    for part in ("limits", "requests"):
        resources[part] = {**resources[part], asked["resource"]: str(asked["amount"])}
    return changed


def not_started(faults: Faults, pod: Json) -> str | Json:
    """Return why a bound launcher is not started: "" when it is, "held" when nothing is to be seen, else its status."""
    if faults.has(pod, "launcher-stuck"):
        return HELD
    asked = faults.of(pod, "image-pull")
    return "" if asked is None else _waiting(pod, asked)


def _waiting(pod: Json, asked: Mapping[str, Any]) -> Json:
    """Return the status of a pod whose containers wait for their image, as a kubelet writes it."""
    status = {k: v for k, v in (pod.get("status") or {}).items() if k in {"conditions", "qosClass", "hostIP"}}
    containers = []
    for container in pod["spec"]["containers"]:
        message = str(asked["message"]).replace("{image}", container["image"])
        containers.append(container_status(container, {"waiting": {"reason": asked["reason"], "message": message}}))
    return {**status, "phase": "Pending", "containerStatuses": containers}


def crashes(faults: Faults, pod: Json) -> Mapping[str, Any] | None:
    """Return how a running launcher is to end now: exit_code, reason and message; None when it is not."""
    return _due(faults, pod, "launcher-crashes")


def _due(faults: Faults, pod: Json, name: str) -> Mapping[str, Any] | None:
    asked = faults.of(pod, name)
    return asked if asked is not None and _running_for(pod) >= float(asked["after"]) else None


def vanishes(faults: Faults, pod: Json) -> bool:
    """Tell whether a running launcher is to be gone now, without its instance learning of it."""
    return _due(faults, pod, "launcher-vanishes") is not None


def next_look(faults: Faults, pod: Json) -> float | None:
    """Return the seconds after which a running launcher is to be looked at again, None when nothing is planned."""
    planned = (faults.of(pod, name) for name in ("launcher-crashes", "launcher-vanishes"))
    after = [float(asked["after"]) for asked in planned if asked is not None]
    return max(0.1, min(after) - _running_for(pod)) if after else None


def addresses(faults: Faults, pod: Json, usual: tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses that a launcher gets: those that it was given, or a useless one, or none."""
    asked = faults.of(pod, "address")
    if asked is None or not asked["pod"]:
        return usual
    return () if asked["pod"] == "none" else (str(asked["pod"]),)


def _running_for(pod: Json) -> float:
    statuses = dig(pod, "status", "containerStatuses") or [{}]
    started = dig(statuses[0], "state", "running", "startedAt")
    return (datetime.now(UTC) - parse_time(started)).total_seconds() if started else 0.0
