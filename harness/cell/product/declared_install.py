"""What must be there before a phase can be applied: kinds in the infra cluster, controllers in the cell's namespace."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from harness import yaml_text
from harness.artifacts.registry import PULL_PASSWORD, PULLER
from harness.cell import finalizers
from harness.cell.product.declared_wait import PodWatch
from harness.cell.product.protocol import OuterCluster, PhaseRun
from harness.errors import BadInput, ProductError
from harness.files import read_text
from harness.infra.cluster.kubevirt import LOCAL_PATH
from harness.kube.client import Cluster, Json, named, resource_of
from harness.kube.objects import dig, is_condition
from harness.kube.resources import CRD, DEPLOYMENT, NAMESPACE, STORAGE_CLASS, Resource
from harness.kube.rollout import waits_for
from harness.proc import CommandFailed, run
from harness.spec.models.product_declared import Manifests
from harness.until import Deadline, NotYet, TimedOut, until

DIGEST = "vmatrix.dev/digest"
NAMESPACED = "products of kind declared put objects of a cell into its namespace, so that they go with it"


def install_kinds(outer: OuterCluster, objects: Sequence[Json]) -> None:
    """Have objects in the infra cluster that all cells share; what another revision of them added stays.

    Raises:
        BadInput: both revisions have what the other one lacks.
    """
    cluster, deadline = outer.cluster, Deadline.after(outer.timeouts.controllers)
    for obj in objects:
        resource = _served(cluster, obj, deadline)
        digest = hashlib.sha256(json.dumps(obj, sort_keys=True).encode()).hexdigest()[:16]
        there = cluster.get(resource, obj["metadata"]["name"])
        if there is not None and _holds(there, obj, digest):
            continue
        meta = obj["metadata"]
        marked = {**meta, "annotations": {**(meta.get("annotations") or {}), DIGEST: digest}}
        cluster.apply(resource, {**obj, "metadata": marked})
    for obj in (o for o in objects if o["kind"] == CRD.kind):
        _wait_established(cluster, obj["metadata"]["name"], deadline)


def install_controllers(outer: OuterCluster, namespace: str, objects: Sequence[Json], kinds: Sequence[Json]) -> None:
    """Have a cell's controllers in its namespace, and note there which kinds they may leave finalizers on.

    What is in no namespace is shared by all cells, but for what has the namespace in its name: that goes with it.

    Raises:
        BadInput: an object of them is in another namespace.
        ProductError, InfraError, HarnessBug: they do not become available; whose fault that is.
    """
    cluster, deadline = outer.cluster, Deadline.after(outer.timeouts.controllers)
    names = {obj["metadata"]["name"] for obj in (*kinds, *objects) if obj["kind"] == CRD.kind}
    finalizers.note(cluster, namespace, sorted(names))
    within = {id(obj): _served(cluster, obj, deadline).namespaced for obj in objects}
    shared = [obj for obj in objects if not within[id(obj)] and namespace not in obj["metadata"]["name"]]
    install_kinds(outer, shared)
    _apply_with(cluster, namespace, [o for o in objects if not within[id(o)] and o not in shared], deadline)
    apply_all(cluster, namespace, [obj for obj in objects if within[id(obj)]], deadline)
    watch = PodWatch(outer, namespace)
    for obj in (o for o in objects if o["kind"] == DEPLOYMENT.kind):
        _wait_available(cluster, namespace, obj["metadata"]["name"], watch, deadline)


def apply_all(cluster: Cluster, namespace: str, objects: Sequence[Json], deadline: Deadline) -> None:
    """Apply objects server-side in a namespace, in their order."""
    for obj in objects:
        resource = _served(cluster, obj, deadline)
        where = obj["metadata"].get("namespace", namespace)
        if not resource.namespaced or where != namespace:
            raise BadInput(f"{named(obj)} is not in the cell's namespace {namespace}", hint=NAMESPACED)
        cluster.apply(resource, {**obj, "metadata": {**obj["metadata"], "namespace": namespace}})


def apply_in_guest(cluster: Cluster, objects: Sequence[Json], deadline: Deadline) -> None:
    """Apply objects server-side in a guest cluster, in their order, and wait until their Deployments are available.

    Those that name no namespace are applied in `default`.
    """
    for obj in objects:
        resource = served(cluster, obj["apiVersion"], obj["kind"], deadline)
        space = {"namespace": obj["metadata"].get("namespace", "default")} if resource.namespaced else {}
        made = cluster.apply(resource, {**obj, "metadata": {**obj["metadata"], **space}})
        if resource == DEPLOYMENT:
            _wait_for_guests(cluster, made, deadline)


def _wait_for_guests(cluster: Cluster, deployment: Json, deadline: Deadline) -> None:
    meta = deployment["metadata"]

    def look() -> bool | NotYet:
        why = waits_for(cluster.get(DEPLOYMENT, meta["name"], meta["namespace"]) or deployment)
        return NotYet(why) if why else True

    until(look, deadline=deadline, what=f"Deployment {meta['name']} in the guest to be available")


def _apply_with(cluster: Cluster, namespace: str, objects: Sequence[Json], deadline: Deadline) -> None:
    """Apply objects that are in no namespace, and that the garbage collector takes away with one."""
    owner = cluster.get(NAMESPACE, namespace)
    owners = (
        [{"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": owner["metadata"]["uid"]}] if owner else []
    )
    for obj in objects:
        meta = {**obj["metadata"], "ownerReferences": owners}
        cluster.apply(_served(cluster, obj, deadline), {**obj, "metadata": meta})


def _served(cluster: Cluster, obj: Json, deadline: Deadline) -> Resource:
    return served(cluster, obj["apiVersion"], obj["kind"], deadline)


def served(cluster: Cluster, api_version: str, kind: str, deadline: Deadline) -> Resource:
    """Return how a kind is served; one that was defined just now is served a moment later.

    Raises:
        BadInput: it is not served.
    """

    def look() -> Resource | NotYet:
        return resource_of(cluster, api_version, kind) or NotYet("the API does not serve it")

    try:
        return until(look, deadline=deadline, what=f"{api_version} {kind} to be served")
    except TimedOut as late:
        hint = "`install` of the product must define the kind, or the cluster must have it"
        raise BadInput(f"the cluster does not serve {api_version} {kind}", hint=hint) from late


def _holds(there: Json, desired: Json, digest: str) -> bool:
    """Tell whether an object need not be applied. Raises BadInput where neither is an extension of the other."""
    if dig(there, "metadata", "annotations", DIGEST) == digest:
        return True
    if desired["kind"] != CRD.kind:
        return False
    has, wants = set(_fields(there["spec"])), set(_fields(desired["spec"]))
    if has - wants and wants - has:
        raise BadInput(
            f"{named(desired)} in the infra cluster is of another revision: it has {_some(has - wants)}, and lacks "
            f"{_some(wants - has)}",
            hint="use an infra cluster of its own, or delete that definition when no cell uses it",
        )
    return bool(has - wants)


def _fields(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of every field that a definition knows, in each of its versions."""
    ahead = [(v["name"], dig(v, "schema", "openAPIV3Schema") or {}) for v in spec.get("versions") or []]
    while ahead:
        at, schema = ahead.pop()
        yield at
        inner = [(f"{at}.{name}", field) for name, field in (schema.get("properties") or {}).items()]
        beneath = (schema.get(key) for key in ("items", "additionalProperties"))
        ahead += [*inner, *((f"{at}[]", each) for each in beneath if isinstance(each, Mapping))]


def _some(paths: set[str]) -> str:
    named, more = sorted(paths)[:3], len(paths) - 3
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _wait_established(cluster: Cluster, name: str, deadline: Deadline) -> None:
    def look() -> bool | NotYet:
        definition = cluster.get(CRD, name)
        return is_condition(definition, "Established", "True") or NotYet("it is not Established")

    until(look, deadline=deadline, what=f"the kind {name} to be served")


def _wait_available(cluster: Cluster, namespace: str, name: str, watch: PodWatch, deadline: Deadline) -> None:
    def look() -> bool | NotYet:
        deployment = cluster.get(DEPLOYMENT, name, namespace)
        if deployment is None:
            raise ProductError(f"Deployment {name} is gone, which was applied just now")
        watch.refuse_broken()
        current = (dig(deployment, "status", "observedGeneration") or 0) >= deployment["metadata"]["generation"]
        updated = (dig(deployment, "status", "updatedReplicas") or 0) >= (dig(deployment, "spec", "replicas") or 0)
        if current and updated and is_condition(deployment, "Available", "True"):
            return True
        return NotYet(watch.said() or f"{dig(deployment, 'status', 'availableReplicas') or 0} replicas are available")

    try:
        until(look, deadline=deadline, what=f"Deployment {name} to be available", describe=watch.described)
    except TimedOut as late:
        raise watch.verdict(f"Deployment {name} is not available: {late.summary}", late.detail) from late


TEMPLATE = ".j2"
HINT = "docs/declared.md lists what a template of a declared product is given"


def given(wanted: PhaseRun, outer: OuterCluster, *, makes: bool = False) -> dict[str, Any]:
    """Return what templates are given: the phase, its values, variables and machines, and what is outside of these.

    Args:
        makes: whether the product makes the machines itself.
    """
    environment, phase = wanted.environment, wanted.phase
    return {
        "cell": environment.cell.id,
        "run": environment.run,
        "attempt": environment.attempt,
        "namespace": environment.namespace,
        "phase": phase.name,
        "stage": wanted.stage,
        "values": dict(phase.values),
        "variables": dict(wanted.variables),
        "machines": [
            {
                "name": machine.name,
                "set": machine.name.rpartition("-")[0],
                "groups": list(machine.groups),
                "address": machine.address,
                "ipv6_address": machine.ipv6_address,
                "port": machine.port,
                "user": machine.user,
                "removed": machine.name in phase.removed,
                "lost": machine.name in phase.lost,
            }
            for machine in environment.machines
        ],
        "mirror": {"url": outer.mirror.http, "registry": outer.mirror.registry},
        "images": dict(outer.images),
        "deliveries": outer.deliveries,
        "pull_config": pull_config(outer.deliveries) if outer.deliveries else "",
        "makes_machines": makes,
        "pod_storage_class": _pod_storage_class(outer.cluster),
        "keys": {"private": environment.private_key.read_text(encoding="utf-8")},
    }


def pull_config(registry: str) -> str:
    """Return what a Secret of type kubernetes.io/dockerconfigjson holds by which machines pull what was delivered."""
    auth = base64.b64encode(f"{PULLER}:{PULL_PASSWORD}".encode()).decode()
    return json.dumps({"auths": {registry: {"username": PULLER, "password": PULL_PASSWORD, "auth": auth}}})


def _pod_storage_class(cluster: Cluster) -> str:
    """Return the class of claims that pods can mount, where the default class may be for disks of machines alone.

    That is so on the infra clusters that vmatrix makes, which all have this provisioner. "" is the default class.
    """
    classes = cluster.list(STORAGE_CLASS).items
    return next(
        (
            str(storage_class["metadata"]["name"])
            for storage_class in classes
            if storage_class.get("provisioner") == LOCAL_PATH
        ),
        "",
    )


def objects(source: str | Manifests, values: Mapping[str, Any], directory: Path, seconds: float) -> list[Json]:
    """Return the objects of a file, of a template (*.j2) or of what a program prints.

    Raises:
        BadInput: it cannot be rendered, fails, or prints something else.
    """
    if isinstance(source, Manifests):
        name, text = source.command[0], _printed(source, values, directory, seconds)
    else:
        name = str(directory / source)
        text = rendered(source, values, directory) if source.endswith(TEMPLATE) else read_text(Path(name))
    documents = yaml_text.documents(text, name, hint=HINT)
    flat = [item for obj in documents for item in _items(obj)]
    for obj in flat:
        meta = obj.get("metadata") if isinstance(obj, Mapping) else None
        if not isinstance(meta, Mapping) or not all((meta.get("name"), obj.get("apiVersion"), obj.get("kind"))):
            raise BadInput(
                f"{name} has something that is not an object with apiVersion, kind and metadata.name", hint=HINT
            )
    return flat


def _items(obj: Any) -> Sequence[Any]:
    listed = isinstance(obj, Mapping) and str(obj.get("kind", "")).endswith("List") and isinstance(obj["items"], list)
    return obj["items"] if listed else [obj]


def _environment(directory: Path) -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - YAML, not HTML; what may hold anything passes through tojson
    )
    made.filters["tojson"] = json.dumps
    return made


def rendered(template: str, values: Mapping[str, Any], directory: Path) -> str:
    """Return what a template in a directory makes of values. Raises BadInput: it cannot be rendered."""
    try:
        return _environment(directory).get_template(template).render(**values)
    except (jinja2.TemplateError, TypeError) as error:
        raise BadInput(f"{directory / template} cannot be rendered: {error}", hint=HINT) from error


def _printed(source: Manifests, values: Mapping[str, Any], directory: Path, seconds: float) -> str:
    try:
        argv = [_environment(directory).from_string(word).render(**values) for word in source.command]
    except jinja2.TemplateError as error:
        raise BadInput(f"{' '.join(source.command)} cannot be rendered: {error}", hint=HINT) from error
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))  # ours first
    try:
        return run(argv, timeout=seconds, cwd=directory, env={**os.environ, "PATH": path}).stdout
    except CommandFailed as failure:
        raise BadInput(f"{argv[0]} gives no objects: {failure.summary}", hint=HINT, detail=failure.detail) from failure
