"""What the files under matrix/ hold, as frozen pydantic models: a module for most files, and the whole as `Spec`."""

from __future__ import annotations

from typing import Any

from pydantic import Field, create_model

from harness.spec.base import Model, Name
from harness.spec.controls import Waiver
from harness.spec.models.artifacts import AddedVersion, AddedVersions, BuildSource, DiskImage, ImagesFile, UrlSource
from harness.spec.models.axes import Axis, AxisValue, Extension, MachineGroup, Support, Topology
from harness.spec.models.network_plugins import Gateway, NetworkPlugin, NetworkPluginsFile
from harness.spec.models.product import AnsibleOptions, Product, ProductArtifacts, ProductPhase, Sources
from harness.spec.models.scenarios import Scenario, ScenarioPhase
from harness.spec.models.space import Constraint, Infra, QuarantineEntry, Space, Spec, Symptom
from harness.spec.models.tiers import Budget, Cover, Tier, Together
from harness.spec.models.timeouts import Timeouts

__all__ = [
    "FILES",
    "AddedVersion",
    "AnsibleOptions",
    "Axis",
    "AxisValue",
    "Budget",
    "BuildSource",
    "Constraint",
    "Cover",
    "DiskImage",
    "Extension",
    "Gateway",
    "Infra",
    "MachineGroup",
    "NetworkPlugin",
    "Product",
    "ProductArtifacts",
    "ProductPhase",
    "QuarantineEntry",
    "Scenario",
    "ScenarioPhase",
    "Sources",
    "Space",
    "Spec",
    "Support",
    "Symptom",
    "Tier",
    "Timeouts",
    "Together",
    "Topology",
    "UrlSource",
    "Waiver",
]


def _file(key: str, content: Any, description: str, *, least: int = 0, default: Any = ...) -> type[Model]:
    """Return the model of matrix/KEY.yml, which has that one key.

    Args:
        content: what the key holds.  least: how many items at least.
    """
    name = f"{key.title().replace('_', '')}File"
    field = Field(default, min_length=least or None, description=description)
    fields: dict[str, Any] = {key: (content, field)}
    return create_model(name, __base__=Model, __doc__=f"matrix/{key}.yml", **fields)


FILES: dict[str, type[Model]] = {
    "axes.yml": _file("axes", tuple[Axis, ...], "What varies, in the order of cell ids.", least=1),
    "topologies.yml": _file("topologies", dict[Name, Topology], "The machines of a cell, by name."),
    "scenarios.yml": _file("scenarios", dict[Name, Scenario], "The phases of a cell's life, by name."),
    "tiers.yml": _file("tiers", dict[Name, Tier], "Which cells run together, by name."),
    "timeouts.yml": _file("timeouts", Timeouts, "How long anything is waited for, in seconds."),
    "product.yml": _file("product", Product, "The deployment code under test."),
    "constraints.yml": _file("constraints", tuple[Constraint, ...], "Rules that every cell obeys.", default=()),
    "infras.yml": _file("infras", dict[Name, Infra], "What infra clusters offer, by profile.", least=1),
    "quarantine.yml": _file(
        "quarantine", tuple[QuarantineEntry, ...], "What runs and does not fail a run.", default=()
    ),
    "symptoms.yml": _file("symptoms", tuple[Symptom, ...], "Lines of failed cells with a known meaning.", default=()),
    "waivers.yml": _file("waivers", tuple[Waiver, ...], "Controls that hardened clusters need not meet.", default=()),
    "artifacts.yml": _file(
        "artifacts", AddedVersions, "Versions of programs besides those that vmatrix has, by program.", default={}
    ),
    "images.yml": ImagesFile,
    "network_plugins.yml": NetworkPluginsFile,
}
