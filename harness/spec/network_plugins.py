"""What the product's network plugins leave on machines, read from the file that product.yml names."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from harness.errors import BadInput
from harness.spec import lines
from harness.spec.base import Model, Name, Text
from harness.spec.declared import EACH, texts
from harness.spec.shape import unknown, validate

VARIABLE = "cluster_network_plugin"  # of a cell: the plugin's name


def _pair(text: object) -> object:
    parts = tuple(text.split("/")) if isinstance(text, str) else ()
    if len(parts) != 2 or not all(parts):
        raise PydanticCustomError("unfit", "expected NAMESPACE/NAME")
    return parts


NamespacedName = Annotated[tuple[str, str], BeforeValidator(_pair)]


class Gateway(StrEnum):
    """What a node's route to another node's pods leads through."""

    NODE = "node"
    SUBNET = "subnet"

    @property
    def words(self) -> str:
        """The same, as a check's claim puts it."""
        return {
            Gateway.NODE: "the other node's address",
            Gateway.SUBNET: "the first address of the other node's pod network",
        }[self]


class Traces(Model):
    """What a plugin leaves behind on a machine and `reset` removes."""

    interfaces: tuple[Text, ...] = ()
    route_protocols: tuple[int, ...] = ()
    paths: tuple[Text, ...] = ()
    firewall_tables: tuple[Text, ...] = ()
    firewall_chains: tuple[Text, ...] = ()


class NetworkPlugin(Model):
    """One network plugin; the file's own comment explains each key."""

    unit: Text
    gateway: Gateway
    look: Text
    tunnel: Text | None = None
    daemon_set: NamespacedName | None = None
    image: Text | None = None
    version: Text | None = None
    leaves: Traces = Traces()


class NetworkPluginsFile(Model):
    """The file with the product's network plugins, by name."""

    cluster_network_plugins: dict[Name, NetworkPlugin] = Field(min_length=1)


def check(documents: Mapping[str, lines.Document], project: Path) -> list[lines.Problem]:
    """Return the mistakes in the product's file of network plugins, and plugins of axes that it does not describe."""
    file = path_of(documents["product.yml"].content, project)
    if file is None:
        return []
    document, problems = lines.read(file)
    if problems:
        return problems
    parsed, problems = validate(document, NetworkPluginsFile)
    if parsed is None:
        return problems
    axes, known = documents["axes.yml"], parsed.cluster_network_plugins
    return [
        axes.problem(at, f"{unknown('network plugin', name, known)}; {file} describes them")
        for at, name in texts(axes.content, "axes", EACH, "values", EACH, "vars", VARIABLE)
        if name not in known
    ]


def path_of(product: Any, project: Path) -> Path | None:
    """Return the file that product.yml's content names; None when it names none."""
    directory = next((text for _, text in texts(product, "product", "directory")), "")
    named = next((text for _, text in texts(product, "product", "network_plugins")), None)
    return None if named is None else project / directory / named


@cache
def load(project: Path) -> Mapping[str, NetworkPlugin]:
    """Return the network plugins of a project's product, by name; none when it describes none.

    Raises:
        BadInput: the file cannot be used.
    """
    document, _ = lines.read(project / "matrix" / "product.yml")
    file = path_of(document.content, project)
    if file is None:
        return {}
    document, problems = lines.read(file)
    parsed, wrong = validate(document, NetworkPluginsFile)
    if problems or parsed is None:
        raise BadInput("\n".join(map(str, [*problems, *wrong])), paths=[file])
    return parsed.cluster_network_plugins
