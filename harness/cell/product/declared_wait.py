"""Wait for objects of a declared product: one that is done, failed or gone, and machines that have addresses."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cell.finalizers import is_own
from harness.cell.product.protocol import OuterCluster, Tell
from harness.errors import HarnessBug, InfraError, ProductError, VmatrixError
from harness.kube.client import Cluster, Json, resource_of
from harness.kube.objects import condition, dig, is_condition
from harness.kube.resources import JOB, JOB_NAME_LABEL, POD, Resource
from harness.spec.models.product_declared import (
    AlsoDone,
    DeclaredOptions,
    DoneWhen,
    InObject,
    MadeMachines,
    value_at,
)
from harness.until import Deadline, NotYet, TimedOut, until

NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
PASSING_LOOKS = 5  # of a second: controllers see objects that are applied together one after the other
CRASHES = 3  # of one container: whatever it waited for at first is there by then
KILLS = "vmatrix.dev/kills"  # annotation of a pod: how often the setting `chaos` has killed its containers
LINES = 200  # of a controller's log, in a failed phase's


@dataclass
class PodWatch:
    """Looks at the pods of a namespace again and again, and knows for how long something has been wrong."""

    outer: OuterCluster
    namespace: str
    _since: dict[str, float] = field(default_factory=dict)

    def refuse_broken(self) -> None:
        """Raise for what does not come right by waiting.

        Raises:
            ProductError: a container crashes.  HarnessBug: an image cannot be pulled.  InfraError: no node has room.
        """
        patience = self.outer.timeouts.unschedulable
        for trouble in self._troubles():
            began = self._since.setdefault(str(trouble), time.monotonic())
            if isinstance(trouble, ProductError) or time.monotonic() - began > patience:
                raise trouble

    def verdict(self, message: str, detail: str) -> VmatrixError:
        """Return the error of a wait that was in vain: the pods' trouble, if they have any, else the product's."""
        trouble = next(self._troubles(), None)
        hint = "the phase's log has the controllers' own words"
        return trouble or ProductError(message, hint=hint, detail=f"{detail}\n{self.described()}".strip())

    def said(self) -> str:
        """Return what is wrong now, "" when nothing is."""
        return next((trouble.summary for trouble in self._troubles()), "")

    def described(self) -> str:
        """Return each pod with its state."""
        pods = own_pods(self.outer.cluster, self.namespace)
        return "\n".join(f"pod {p['metadata']['name']}: {dig(p, 'status', 'phase') or 'Pending'}" for p in pods)

    def _troubles(self) -> Iterator[VmatrixError]:
        for pod in own_pods(self.outer.cluster, self.namespace):
            yield from _trouble(pod)


def own_pods(cluster: Cluster, namespace: str) -> list[Json]:
    """Return the pods of a namespace that are the product's."""
    return [pod for pod in cluster.list(POD, namespace).items if is_own(pod)]


def kills_of(pod: Json) -> int:
    """Return how often the containers of a pod were killed on request: these restarts are not crashes."""
    return int((pod["metadata"].get("annotations") or {}).get(KILLS, 0))


def _trouble(pod: Json) -> Iterator[VmatrixError]:
    name = f"pod {pod['metadata']['name']}"
    placed = condition(pod, "PodScheduled")
    if placed is not None and placed.get("status") == "False":
        hint = "the infra cluster needs a node for pods beside the machines' (docs/infrastructure.md)"
        yield InfraError(f"no node takes {name}: {placed.get('message', '')}", hint=hint)
    for state in dig(pod, "status", "containerStatuses") or []:
        waiting = dig(state, "state", "waiting") or {}
        if waiting.get("reason") in NOT_PULLED:
            message = f"the image {state.get('image')} of {name} cannot be pulled: {waiting.get('message', '')}"
            yield HarnessBug(message, hint="the run pushes it into the registry, which the node must be able to read")
        crashes = state.get("restartCount", 0) - kills_of(pod)
        if waiting.get("reason") == "CrashLoopBackOff" and crashes >= CRASHES:
            last = dig(state, "lastState", "terminated") or {}
            message = f"container {state['name']} of {name} crashes (exit code {last.get('exitCode')})"
            hint = "the phase's log ends with its last lines"
            yield ProductError(message, hint=hint, detail=str(last.get("message", "")))


def jobs(cluster: Cluster, namespace: str, selector: str) -> dict[str, str]:
    """Return the Jobs of a selector: names by uid, oldest first."""
    listed = cluster.list(JOB, namespace, labels=selector).items
    listed.sort(key=lambda job: str(job["metadata"].get("creationTimestamp", "")))
    return {str(job["metadata"]["uid"]): str(job["metadata"]["name"]) for job in listed}


def keep_logs(cluster: Cluster, namespace: str, names: Iterator[str], log: Path) -> None:
    """Append what the pods of Jobs said to a phase's log."""
    for name in names:
        for pod in cluster.list(POD, namespace, labels=f"{JOB_NAME_LABEL}={name}").items:
            _append(cluster, pod, f"job {name}", log, None)


def keep_controllers(cluster: Cluster, namespace: str, log: Path) -> None:
    """Append the last lines of pods that belong to no Job to a phase's log."""
    for pod in own_pods(cluster, namespace):
        if JOB_NAME_LABEL not in (pod["metadata"].get("labels") or {}):
            _append(cluster, pod, "controller", log, LINES)


def _append(cluster: Cluster, pod: Json, what: str, log: Path, tail: int | None) -> None:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    for container in pod["spec"]["containers"]:
        try:
            text = cluster.pod_log(namespace, name, container=container["name"], tail=tail)
        except VmatrixError as error:  # a pod that never ran has no log; that must not hide why
            text = f"(no log: {error.summary})"
        with log.open("a", encoding="utf-8") as file:
            file.write(f"==== {what}, pod {name}, container {container['name']}\n{text.rstrip()}\n")


LOOKS_SECONDS = 1.0  # between looks: progress is shown about so often


@dataclass
class Watched:
    """The object of one cell, and what its product's file says of it."""

    outer: OuterCluster
    namespace: str
    options: DeclaredOptions
    on_task: Tell

    def wait_done(self, deadline: Deadline) -> Json:
        """Return the object once it is done.

        Raises:
            ProductError, InfraError, HarnessBug: it has failed, or time is up; by its record or by its pods.
        """
        resource, watch = self.resource_at(), PodWatch(self.outer, self.namespace)
        name, done = self.options.object.name, self.options.done

        def look() -> Json | NotYet:
            obj = self.outer.cluster.get(resource, name, self.namespace)
            if obj is None:
                return NotYet("the object is not there")
            self.on_task(self._progress(obj))
            self._refuse_failed(obj)
            watch.refuse_broken()
            return obj if (lacking := _lacking(obj, done)) is None else lacking

        made: Json = self._until(look, f"{self._what} to be {done.condition}", watch, deadline)
        return made

    def wait_other(self, other: AlsoDone, deadline: Deadline) -> None:
        """Wait for another object that a phase makes; raises as `wait_done`, which is about the object itself.

        A failure of the object itself counts once it lasts: what ends it may have been applied together with it.
        """
        failures = 0
        where = InObject(apiVersion=other.apiVersion, kind=other.kind, path="{.status}")
        resource, watch = self.resource_at(where), PodWatch(self.outer, self.namespace)

        def look() -> bool | NotYet:
            nonlocal failures
            own = self.outer.cluster.get(self.resource_at(), self.options.object.name, self.namespace)
            if own is not None:
                self.on_task(self._progress(own))
                failures = failures + 1 if self._is_failed(own) else 0
                if failures > PASSING_LOOKS:
                    self._refuse_failed(own)
            obj = self.outer.cluster.get(resource, other.name, self.namespace)
            if obj is None:
                return NotYet("the object is not there")
            lacking = _lacking(obj, other)  # first, as a phase may wait for a failure of its own
            if lacking is not None and other.failed is not None and _has_failed(obj, other.failed, other.observed):
                raise failure(f"{other.kind} {other.name} is {other.failed}", _said(obj, other.failed), None)
            watch.refuse_broken()
            return True if lacking is None else lacking

        reason = other.condition if other.reason is None else f"{other.reason} ({other.condition})"
        self._until(look, f"{other.kind} {other.name} to be {reason}", watch, deadline)

    def wait(self, look: Callable[[], Any], what: str, deadline: Deadline) -> Any:
        """Look until there is an answer, or the controllers do not run; raises as `wait_done`."""
        watch = PodWatch(self.outer, self.namespace)

        def both() -> Any:
            watch.refuse_broken()
            return look()

        return self._until(both, what, watch, deadline)

    def wait_gone(self, deadline: Deadline) -> None:
        """Wait until the deleted object is gone; raises as `wait_done`."""
        resource, watch = self.resource_at(), PodWatch(self.outer, self.namespace)

        def look() -> bool | NotYet:
            obj = self.outer.cluster.get(resource, self.options.object.name, self.namespace)
            if obj is None:
                return True
            self.on_task(self._progress(obj))
            self._refuse_failed(obj)
            watch.refuse_broken()
            held = ", ".join(obj["metadata"].get("finalizers") or [])
            return NotYet(f"held by {held}" if held else "it is still there")

        self._until(look, f"{self._what} to be gone", watch, deadline)

    def value(self, where: InObject, obj: Json | None = None) -> Any:
        """Return the value at a place in an object, None where there is none."""
        own = self.options.object
        if obj is None or where.kind is not None or where.name is not None:
            resource = self.resource_at(where)
            obj = self.outer.cluster.get(resource, where.name or own.name, self.namespace)
        return value_at(obj, where.path)

    @property
    def _what(self) -> str:
        return f"{self.options.object.kind} {self.options.object.name}"

    def resource_at(self, where: InObject | None = None) -> Resource:
        """Return how the object's kind is served, or that of another place."""
        own = self.options.object
        version = (where.apiVersion if where is not None else None) or own.apiVersion
        kind = (where.kind if where is not None else None) or own.kind
        resource = resource_of(self.outer.cluster, version, kind)
        if resource is None:
            raise ProductError(
                f"the infra cluster does not serve {version} {kind}", hint="is it in `install` of the product?"
            )
        return resource

    def _until(self, look: Any, what: str, watch: PodWatch, deadline: Deadline) -> Any:
        try:
            return until(look, deadline=deadline, what=what, interval=LOOKS_SECONDS, slowest=LOOKS_SECONDS)
        except TimedOut as late:
            raise watch.verdict(late.summary, late.detail) from late

    def _progress(self, obj: Json) -> str:
        at = self.value(self.options.progress, obj) if self.options.progress is not None else None
        if isinstance(at, Mapping):
            at = " / ".join(str(at[key]) for key in ("play", "task") if at.get(key))
        return str(at or _said(obj, self.options.done.condition))

    def _is_failed(self, obj: Json) -> bool:
        failed = self.options.failed.condition
        return is_condition(obj, failed, "True") and _observed(obj, failed, True)

    def _refuse_failed(self, obj: Json) -> None:
        failed = self.options.failed
        if not self._is_failed(obj):
            return
        record = self.value(failed.record, obj) if failed.record is not None else None
        raise failure(f"{self._what} is {failed.condition}", _said(obj, failed.condition), record)


def failure(what: str, message: str, record: Any) -> VmatrixError:
    """Return the error of a failed phase: by the record that the product keeps of it, where that says whose fault."""
    known = record if isinstance(record, Mapping) else {}
    where = " on ".join(str(known[key]) for key in ("task", "host") if known.get(key))
    sentence = ": ".join(part for part in (what, where, str(known.get("summary") or message)) if part)
    blame = {"infra": InfraError, "harness": HarnessBug}.get(str(known.get("blame", "")), ProductError)
    return blame(sentence, hint=str(known.get("hint") or "the phase's log has the details"), detail=message)


def _lacking(obj: Json, done: DoneWhen) -> NotYet | None:
    """Return what an object still lacks to be done, None when it is."""
    if not _observed(obj, done.condition, done.observed):
        return NotYet("no controller has seen the last edit")
    going = any(is_condition(obj, gone, "True") for gone in done.gone)
    known = condition(obj, done.condition) or {}
    there = known.get("status") == "True" if done.reason is None else known.get("reason") == done.reason
    return None if there and not going else NotYet(_said(obj, done.condition))


def _has_failed(obj: Json, kind: str, observed: bool) -> bool:
    """Tell whether an object has failed as it is now, not as it was before the last edit."""
    return is_condition(obj, kind, "True") and _observed(obj, kind, observed)


def _observed(obj: Json, kind: str, checked: bool) -> bool:
    """Tell whether a controller has seen the object as it is now."""
    if not checked:
        return True
    generations = [dig(obj, "status", "observedGeneration"), (condition(obj, kind) or {}).get("observedGeneration")]
    told = [number for number in generations if number is not None]
    return bool(told) and all(number >= obj["metadata"].get("generation", 0) for number in told)


def _said(obj: Json, kind: str) -> str:
    known = condition(obj, kind)
    return f"{kind}: {known.get('message') or known.get('reason') or known['status']}" if known else f"no {kind} yet"


def addresses(watched: Watched, makes: MadeMachines, names: Sequence[str], deadline: Deadline) -> Mapping[str, str]:
    """Return the machines' addresses by name, once all of them have one.

    Raises:
        ProductError, InfraError, HarnessBug: time is up, or the controllers do not run.
    """
    resource = watched.resource_at(_where(makes))

    def look() -> Mapping[str, str] | NotYet:
        machine_objects = {name: watched.outer.cluster.get(resource, name, watched.namespace) or {} for name in names}
        known = {name: str(value_at(obj, makes.address) or "") for name, obj in machine_objects.items()}
        missing = [name for name in names if not known[name]]
        if not missing:
            return known
        watched.on_task(f"machines {', '.join(missing)}")
        return NotYet("; ".join(f"{name}: {_untrue_conditions(machine_objects[name])}" for name in missing))

    made: Mapping[str, str] = watched.wait(look, f"{makes.kind}s {', '.join(names)} to have addresses", deadline)
    return made


def deleted(watched: Watched, makes: MadeMachines, names: Collection[str], deadline: Deadline) -> None:
    """Wait until the machines that left are gone; raises as `addresses`."""
    resource = watched.resource_at(_where(makes))

    def look() -> bool | NotYet:
        there = [name for name in names if watched.outer.cluster.get(resource, name, watched.namespace) is not None]
        return NotYet(f"{', '.join(there)} are there") if there else True

    if names:
        watched.wait(look, f"{makes.kind}s {', '.join(names)} to be gone", deadline)


def _where(makes: MadeMachines) -> InObject:
    return InObject(apiVersion=makes.apiVersion, kind=makes.kind, path=makes.address)


def _untrue_conditions(obj: Mapping[str, Any]) -> str:
    """Return what a machine's conditions say that are not True."""
    conditions = dig(obj, "status", "conditions") or []
    untrue = [f"{c['type']}: {c.get('reason')} {c.get('message', '')}" for c in conditions if c.get("status") != "True"]
    return ", ".join(untrue) or "nothing is said of it"
