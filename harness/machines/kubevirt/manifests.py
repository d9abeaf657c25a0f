"""Render vm-templates/ into the objects that make one machine: pure functions."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import jinja2
import yaml

from harness import yaml_text
from harness.errors import BadInput
from harness.kube.client import Json
from harness.model import LABEL_MACHINE, PlannedMachine
from harness.paths import packaged_dir
from harness.spec.layers import DEFAULT, EXTENDS, amended_data
from harness.spec.project import TEMPLATES

GOLDEN_NAMESPACE = "vmatrix-images"
BRIDGE, MASQUERADE = "bridge", "masquerade"
ONCE = "Once"


@dataclass(frozen=True)
class GoldenImage:
    """A disk image for an infra cluster: its claim's name there, its source, and its login user.

    checksum is "sha256:HEX"; size is the claim's request as a Kubernetes quantity.
    credentials, certificates: a Secret and a ConfigMap in the golden images' namespace that its import needs.
    """

    name: str
    url: str
    checksum: str
    size: str
    user: str
    credentials: str = ""
    certificates: str = ""


@dataclass(frozen=True)
class Origin:
    """What a machine's disk is made from.

    kind: "claim" of a golden image, "data source" that leads to its snapshot, or "url": a separate import of the image.
    """

    kind: Literal["claim", "data source", "url"]
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class MachinePlan:
    """What the manifests of several machines have in common.

    prefix: of the names of a machine's objects, where others' lie in the same namespace.
    owner: the reference to what a machine's objects end with.
    images: the namespace of the golden images.
    binding: of machines to the pod network.
    run_strategy: whether KubeVirt starts them again.
    nodes: labels of the nodes that they may run on.
    scheduling: further fields of their instances, by which a scheduler chooses nodes.
    asked: the memory (MiB) that machines request, by name, where that is not what they declare.
    """

    namespace: str
    labels: Mapping[str, str]
    public_key: str
    dns_domain: str
    storage_class: str | None
    prefix: str = ""
    owner: Mapping[str, Any] | None = None
    images: str = GOLDEN_NAMESPACE
    binding: str = BRIDGE
    run_strategy: str = ONCE
    nodes: Mapping[str, str] = field(default_factory=dict)
    scheduling: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)

    def owned(self, obj: Json) -> Json:
        """Return an object with its owner: whoever it ends with besides its own deletion."""
        if self.owner is not None:
            obj["metadata"]["ownerReferences"] = [dict(self.owner)]
        return obj


def render(template: str, values: Mapping[str, Any], *, directory: Path) -> Json:
    """Render one template into an object; an undefined name in it is an error.

    A template of the project's directory replaces the packaged one, or amends its object if its own has
    `extends: default`.

    Raises:
        BadInput: it cannot be filled in, or cannot amend that.
    """
    packaged = packaged_dir() / TEMPLATES
    made = _rendered(template, values, (directory, packaged))
    if EXTENDS not in made or not (directory / template).is_file():
        return made
    changes = {key: value for key, value in made.items() if key != EXTENDS}
    whole, problems = amended_data(_rendered(template, values, (packaged,)), changes, directory / template)
    if made[EXTENDS] != DEFAULT or problems:
        said = [f"{problem.path}: {problem.message}" for problem in problems]
        raise BadInput(
            f"{directory / template} cannot amend the packaged template: {'; '.join(said) or 'wrong `extends`'}",
            hint=f"compare it with {packaged / template}; `extends` must be `{DEFAULT}`",
        )
    amended: Json = whole
    return amended


def _rendered(template: str, values: Mapping[str, Any], folders: Sequence[Path]) -> Json:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - YAML, not HTML; strings that people give pass through tojson
    )
    environment.filters["tojson"] = json.dumps
    file = next((folder / template for folder in folders if (folder / template).is_file()), Path(template))
    try:
        text = environment.get_template(template).render(**values)
    except (jinja2.TemplateError, *yaml_text.UNUSABLE, RecursionError) as error:
        line = getattr(error, "lineno", None) or _line_in(error, file)
        said = f"{file}:{line}: {' '.join(str(error).split()) or type(error).__name__}"
        raise BadInput(said, hint="fix the template; docs/projects.md says what it is filled in with") from error
    made = yaml_text.document(text, f"{file}, filled in")
    if not isinstance(made, dict):
        raise BadInput(f"{file}, filled in: not an object of Kubernetes", hint="it must be `name: value` pairs")
    return made


def _line_in(error: BaseException, file: Path) -> int:
    """Return the line of a template at which an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == str(file)), 1)


def golden(
    image: GoldenImage,
    *,
    labels: Mapping[str, str],
    storage_class: str | None,
    directory: Path,
    namespace: str = GOLDEN_NAMESPACE,
) -> Json:
    """Return the DataVolume that imports a golden image."""
    values = {**asdict(image), "namespace": namespace, "labels": dict(labels), "storage_class": storage_class}
    return render("golden-image.yml.j2", values, directory=directory)


def machine(
    plan: MachinePlan, planned: PlannedMachine, image: GoldenImage, *, directory: Path, origin: Origin | None = None
) -> list[Json]:
    """Return one machine's objects in the order in which they are created: disk, cloud-init secret, VirtualMachine.

    Args:
        origin: what its disk is made from; the golden image's claim without it.
    """
    origin = origin or Origin("claim", plan.images, image.name)
    values = {
        **asdict(image),
        "name": f"{plan.prefix}{planned.name}",
        "hostname": planned.name,
        "namespace": plan.namespace,
        "labels": {**plan.labels, LABEL_MACHINE: planned.name},
        "origin": origin.kind,
        "golden_namespace": origin.namespace,
        "golden_name": origin.name,
        "storage_class": plan.storage_class,
        "disk_gib": planned.disk_gib,
        "cpus": planned.cpus,
        "memory_mib": planned.memory_mib,
        "asked_mib": plan.asked.get(planned.name, 0),
        "public_key": plan.public_key,
        "dns_domain": plan.dns_domain,
        "binding": plan.binding,
        "run_strategy": plan.run_strategy,
        "nodes": dict(plan.nodes),
        "scheduling": dict(plan.scheduling),
    }
    user_data = "#cloud-config\n" + yaml.safe_dump(
        render("cloud-init.yml.j2", values, directory=directory), sort_keys=False, width=4096
    )
    return [
        plan.owned(render("disk.yml.j2", values, directory=directory)),
        render("cloud-init-secret.yml.j2", {**values, "user_data": user_data}, directory=directory),
        plan.owned(render("virtual-machine.yml.j2", values, directory=directory)),
    ]
