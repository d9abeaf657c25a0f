"""Fault catalogue: names and parameters of faults, and which of them an object asks for.

An object asks by its annotations, or by the scenario file of the instance (`faults.yml` in its state directory),
which befalls objects that nobody can annotate, a cell's own for one: a list of {kind: VirtualMachine or DataVolume,
namespace: GLOB, name: GLOB, faults: {NAME: {...}}}, where a glob that is left out matches all. The file may be
changed or taken away; an object learns of it when it is next looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from harness.kube.client import Json
from harness.kube.objects import parse_time

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
            given = yaml.safe_load(text) if text.strip() else {}
        except yaml.YAMLError as error:
            self._complain(f"{where} is not a YAML mapping: {error}")
            return None
        return self._checked(name, given, where)

    def _checked(self, name: str, given: Any, where: str) -> Json | None:
        if not isinstance(given, dict):
            self._complain(f"{where} is not a mapping of parameters")
            return None
        unknown = sorted(set(given) - {"seconds", *CATALOGUE[name].parameters})
        if unknown:
            self._complain(f"{where}: fault {name} has no parameter {', '.join(map(str, unknown))}")
            return None
        return given

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
                found = yaml.safe_load(self._scenario.read_text(encoding="utf-8")) or []
                self._read = (changed, found if isinstance(found, list) else ())
                unknown = {n for rule in self._read[1] for n in rule.get("faults") or {}} - CATALOGUE.keys()
                if unknown:
                    self._complain(f"{self._scenario}: unknown fault {', '.join(sorted(unknown))}")
        except FileNotFoundError:
            return ()
        except (OSError, yaml.YAMLError) as error:
            self._complain(f"{self._scenario} cannot be read: {error}")
            return ()
        return self._read[1]


def _name(obj: Json) -> str:
    labels = obj["metadata"].get("labels") or {}
    return str(labels.get(VM_NAME, "") if obj["kind"] == "Pod" else obj["metadata"]["name"])


def _age(obj: Json) -> float:
    """Return the seconds since an object's creation; Kubernetes writes whole ones."""
    created = obj["metadata"].get("creationTimestamp")
    return (datetime.now(UTC) - parse_time(created)).total_seconds() if created else 0.0
