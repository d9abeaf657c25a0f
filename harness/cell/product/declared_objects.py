"""What a phase of kind `declared` applies: objects from templates, files and programs, rendered for one cell."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from harness import yaml_text
from harness.cell.product.protocol import OuterCluster, PhaseRun
from harness.errors import BadInput
from harness.files import read_text
from harness.infra.cluster.storage import LOCAL_PATH
from harness.kube.client import Cluster, Json
from harness.kube.resources import STORAGE_CLASS
from harness.proc import CommandFailed, run
from harness.spec.models.product_declared import Manifests

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
                "port": machine.port,
                "user": machine.user,
                "removed": machine.name in phase.removed,
                "lost": machine.name in phase.lost,
            }
            for machine in environment.machines
        ],
        "mirror": {"url": outer.mirror.http, "registry": outer.mirror.registry},
        "images": dict(outer.images),
        "makes_machines": makes,
        "pod_storage_class": _pod_storage_class(outer.cluster),
        "keys": {"private": environment.private_key.read_text(encoding="utf-8")},
    }


def _pod_storage_class(cluster: Cluster) -> str:
    """Return the class of claims that pods can mount, where the default class may be for disks of machines alone.

    That is so on the infra clusters that vmatrix makes, which all have this provisioner. "" is the default class.
    """
    classes = cluster.list(STORAGE_CLASS).items
    return next((str(one["metadata"]["name"]) for one in classes if one.get("provisioner") == LOCAL_PATH), "")


def objects(source: str | Manifests, values: Mapping[str, Any], directory: Path, seconds: float) -> list[Json]:
    """Return the objects of a file, of a template (*.j2) or of what a program prints.

    Raises:
        BadInput: it cannot be rendered, fails, or prints something else.
    """
    if isinstance(source, Manifests):
        name, text = source.command[0], _printed(source, values, directory, seconds)
    else:
        name = str(directory / source)
        text = _rendered(source, values, directory) if source.endswith(".j2") else read_text(Path(name))
    found = yaml_text.documents(text, name, hint=HINT)
    flat = [one for obj in found for one in _items(obj)]
    for obj in flat:
        meta = obj.get("metadata") if isinstance(obj, Mapping) else None
        if not isinstance(meta, Mapping) or not all((meta.get("name"), obj.get("apiVersion"), obj.get("kind"))):
            raise BadInput(f"{name} has something that is no object with apiVersion, kind and metadata.name", hint=HINT)
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


def _rendered(template: str, values: Mapping[str, Any], directory: Path) -> str:
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
