"""Customised kubeadm: patches, scheduler configuration and volumes that a cell asks for are in effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from harness.kube.objects import same_setting
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView, Json, by_name
from harness.validate.findings import Mismatch, differs, on_every, unjudged
from harness.validate.layout import static_by_view
from harness.validate.variables import (
    DNS_TARGET,
    KUBELET_TARGET,
    OWN_SCHEDULER,
    SCHEDULER,
    SCHEDULER_FILE,
    VOLUMES,
    Patch,
    hardened_scheduler,
    patches_of,
    volumes_of,
)


@dataclass(frozen=True)
class SeenVolume:
    """A volume as a process sees it: whether it is the machine's own file or folder, and whether it can be written."""

    same: bool
    read_only: bool
    why: str


@dataclass(frozen=True)
class SeenScheduler:
    """A running scheduler.

    file: the file of its flag --config, "" without that flag.  content: of the file, as the process sees it.
    newer: by how many seconds the file is newer than the process.  status: of /configz.  running: what it has in
    effect.
    """

    file: str
    content: Any
    newer: float
    status: int
    running: Mapping[str, Any]


@dataclass(frozen=True)
class CustomisedFacts:
    """One machine: volumes by program and path in its container; the scheduler, None where none runs."""

    volumes: Mapping[str, Mapping[str, SeenVolume]]
    scheduler: SeenScheduler | None


def customised_of(raw: Mapping[str, Any]) -> CustomisedFacts:
    """Read what machine/customised.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    scheduler = raw["scheduler"]
    return CustomisedFacts(
        volumes={
            program: {path: SeenVolume(*fields) for path, fields in there.items()}
            for program, there in raw["volumes"].items()
        },
        scheduler=None
        if scheduler is None
        else SeenScheduler(
            scheduler["file"],
            _content(scheduler["content"]),
            float(scheduler["newer"]),
            int(scheduler["status"]),
            scheduler["running"],
        ),
    )


def _content(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:  # a finding, and not the machine's fault
        return f"no YAML: {error}"


Lack = tuple[str, Any, Any]  # path, what was asked for, what is there
# By which key lists are merged (kubernetes.io, "Strategic merge patch"), those of pods and of the scheduler's profiles
MERGE_KEYS = ("name", "schedulerName", "mountPath", "containerPort")
DIRECTIVE = "$"  # how the keys of a strategic patch begin that say what to do


def lacking(asked: Any, there: Any, path: str = "") -> Iterator[Lack]:
    """Yield what is not there of what is asked for.

    Mappings may have more keys, in any case of letters; lists of mappings with a name may have more of them; what is
    asked to be None must be absent or empty.
    """
    if isinstance(asked, Mapping):
        known = {str(key).lower(): value for key, value in there.items()} if isinstance(there, Mapping) else {}
        for key, value in asked.items():
            if not str(key).startswith(DIRECTIVE):
                yield from lacking(value, known.get(str(key).lower()), f"{path}.{key}" if path else str(key))
    elif key := _merge_key(asked):
        by_name = _by(key, there)
        for item in asked:
            yield from lacking(item, by_name.get(item[key]), f"{path}[{item[key]}]")
    elif not same_setting(asked, there) and not (asked in (None, False) and not there):  # JSON leaves out what is false
        yield path, asked, there


def _merge_key(asked: Any) -> str:
    """Return the key by which a list is merged, "" for what is not such a list."""
    if not isinstance(asked, Sequence) or isinstance(asked, str) or not asked:
        return ""
    return next((key for key in MERGE_KEYS if all(isinstance(item, Mapping) and key in item for item in asked)), "")


def _by(key: str, there: Any) -> dict[Any, Any]:
    rows = there if isinstance(there, Sequence) and not isinstance(there, str) else ()
    rows_by_name = {}
    for row in rows:
        if isinstance(row, Mapping):
            lowered = {str(name).lower(): value for name, value in row.items()}
            rows_by_name[lowered.get(key.lower())] = row
    return rows_by_name


def unapplied(operations: Sequence[Mapping[str, Any]], there: Any) -> Iterator[Lack]:
    """Yield what is not as operations of JSON patches (RFC 6902) leave an object; others than these leave no trace."""
    for operation in operations:
        path, name = str(operation.get("path", "")), operation.get("op")
        present = list(_at(there, path))
        if name in ("add", "replace"):
            item = operation.get("value")
            # an item that is added to a list has moved on where another was put before it
            if item not in present:
                yield path, item, present[0] if present else None
        elif name == "remove" and not path.rpartition("/")[2].isdigit() and present and present[0] is not None:
            yield path, None, present[0]


def _at(there: Any, pointer: str) -> Iterator[Any]:
    """Yield what is at a JSON pointer (RFC 6901); for an item of a list, that one first and then the others."""
    *steps, last = [word.replace("~1", "/").replace("~0", "~") for word in pointer.split("/")[1:]] or [""]
    for step in steps:
        if isinstance(there, Mapping):
            there = there.get(step)
        elif isinstance(there, Sequence) and not isinstance(there, str) and step.isdigit() and int(step) < len(there):
            there = there[int(step)]
        else:
            return
    if isinstance(there, Mapping):
        yield there.get(last)
    elif isinstance(there, Sequence) and not isinstance(there, str):
        first = [there[int(last)]] if last.isdigit() and int(last) < len(there) else []
        yield from [*first, *there]


DNS_SELECTOR = ("k8s-app", "kube-dns")


def unpatched_pods(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return static pods that run without a patch of the cell's."""
    mismatches: list[Mismatch] = []
    pods, judged = by_name(view.system_pods), False
    for program, static in static_by_view(view, expected).items():
        patches = patches_of(program, expected.variables)
        for node in expected.control_plane if static and patches else ():
            judged, name = True, f"{program}-{node}"
            there = pods.get(name)
            mismatches += (
                _lacks(f"pod {name}", patches, there) if there else [Mismatch(f"pod {name}", "to exist", "none")]
            )
    if not judged:
        return [unjudged("patches of static pods", "the cell has none for a program that is one", whole=True)]
    return mismatches


def unpatched_kubelets(
    settings: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return kubelets that run without a patch of the cell's.

    Args:
        settings: the configuration that each kubelet reports, by node.  silent: why others do not.
    """
    patches = patches_of(KUBELET_TARGET, expected.variables)
    if not patches:
        return [unjudged("patches of kubelets", "the cell has none", whole=True)]

    def judge(name: str, settings_of_node: Mapping[str, Any]) -> Iterator[Mismatch]:
        yield from _lacks(f"{name} kubelet", patches, settings_of_node)

    mismatches = [Mismatch(f"{name} kubelet", "its configuration", why) for name, why in silent.items()]
    asked = tuple(name for name in expected.nodes if name not in silent)
    return mismatches + (on_every(asked, settings, judge) if asked else [])


def unpatched_dns(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where CoreDNS' Deployment, or a pod of it, lacks a patch of the cell's."""
    patches = patches_of(DNS_TARGET, expected.variables)
    if not patches:
        return [unjudged("patches of CoreDNS", "the cell has none", whole=True)]
    namespace, _, name = (expected.leaves.dns.deployment or "kube-system/coredns").partition("/")
    deployment = view.find(view.deployments, namespace, name)
    if deployment is None:
        return [Mismatch(f"Deployment {namespace}/{name}", "to exist", "none")]
    mismatches = list(_lacks(f"Deployment {namespace}/{name}", patches, deployment))
    label, value = DNS_SELECTOR
    pods = [pod for pod in view.system_pods if pod["metadata"].get("labels", {}).get(label) == value]
    if not pods:
        mismatches.append(Mismatch(f"Deployment {namespace}/{name}", "pods", "none"))
    # a merge patch replaces whole lists, to which the API adds its defaults
    templates = [p.content.get("spec", {}).get("template", {}) for p in patches if p.kind == "strategic"]
    for pod in pods:
        for template in filter(None, templates):
            mismatches += _mismatches(f"pod {pod['metadata']['name']}", lacking(template, pod))
    return mismatches


def _lacks(where: str, patches: list[Patch], there: Json | Mapping[str, Any]) -> Iterator[Mismatch]:
    for patch in patches:
        lacks = unapplied(patch.content, there) if patch.kind == "json" else lacking(patch.content, there)
        for mismatch in _mismatches(where, lacks):
            yield Mismatch(mismatch.where, f"{mismatch.expected}, as of the patch {patch.name}", mismatch.seen)


def _mismatches(where: str, lacks: Iterator[tuple[str, Any, Any]]) -> Iterator[Mismatch]:
    for path, asked, there in lacks:
        yield Mismatch(where, f"{path} {asked!r}", repr(there))


OK = 200
NEWER_SECONDS = 2.0  # what clocks and times of files may differ by
OF_THE_FILE = ("apiVersion", "kind")  # which the scheduler does not report


def other_scheduler(customised: Mapping[str, CustomisedFacts], expected: ExpectedGuest) -> list[Mismatch]:
    """Return schedulers with another file, with a file that they have not read, and with other settings in effect."""
    overrides = expected.variables.get(SCHEDULER) or {}
    configuration = _merged({**OWN_SCHEDULER, **hardened_scheduler(expected.variables)}, overrides)

    def judge(name: str, facts: CustomisedFacts) -> Iterator[Mismatch]:
        where, there = f"{name} kube-scheduler", facts.scheduler
        if there is None:
            yield Mismatch(where, "a running process", "none")
            return
        yield from differs(where, "--config", SCHEDULER_FILE, there.file or None)
        yield from differs(f"{where} {SCHEDULER_FILE}", "the content", configuration, there.content)
        if there.newer > NEWER_SECONDS:
            late = f"the file is {there.newer:.0f} s newer than the process"
            yield Mismatch(where, f"a start after {SCHEDULER_FILE} had changed", late)
        if there.status != OK:
            yield Mismatch(f"{where} /configz", str(OK), str(there.status))
            return
        told = {key: value for key, value in configuration.items() if key not in OF_THE_FILE}
        for path, asked, running in lacking(told, there.running):
            yield Mismatch(f"{where} /configz", f"{path} {asked!r}", repr(running))

    return on_every(
        expected.control_plane, {n: customised[n] for n in expected.control_plane if n in customised}, judge
    )


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[key] = _merged(under, value) if both else value  # type: ignore[arg-type]
    return merged


def other_volumes(customised: Mapping[str, CustomisedFacts], expected: ExpectedGuest) -> list[Mismatch]:
    """Return volumes that a running program does not have, has from elsewhere, or may write to and should not."""
    asked = {program: volumes_of(program, expected.variables) for program in VOLUMES}
    if not any(asked.values()):
        return [unjudged("volumes of programs", "the cell asks for none", whole=True)]

    def judge(name: str, facts: CustomisedFacts) -> Iterator[Mismatch]:
        for program, volumes in asked.items():
            there = facts.volumes.get(program)
            if there is None:
                yield Mismatch(f"{name} {program}", "a running process", "none")
                continue
            for volume in volumes:
                path, mounted = volume["mountPath"], there.get(volume["mountPath"])
                where, outside = f"{name} {program} {path}", f"{volume['hostPath']} of the machine"
                if mounted is None or not mounted.same:
                    yield Mismatch(where, outside, mounted.why or "something else" if mounted else "nothing")
                elif mounted.read_only != bool(volume.get("readOnly", False)):
                    words = {True: "read-only", False: "to be written to"}
                    yield Mismatch(where, words[not mounted.read_only], words[mounted.read_only])

    return on_every(
        expected.control_plane, {n: customised[n] for n in expected.control_plane if n in customised}, judge
    )
