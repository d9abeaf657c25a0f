"""The keys of a product of kind `declared`: phases that are edits of objects, which a controller acts on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from harness.spec.base import KIND, Model, Text, Variable

PART = re.compile(r"\.(?P<key>[A-Za-z0-9_-]+)|\['(?P<quoted>[^']+)'\]|\[(?P<number>-?[0-9]+)\]")


def steps(path: str) -> tuple[str | int, ...]:
    """Return the keys and positions on the way of a path.

    Raises:
        ValueError: it is not a path to one value.
    """
    inner = path[1:-1] if path.startswith("{") and path.endswith("}") else path
    keys, at = list[str | int](), 0
    while at < len(inner):
        part = PART.match(inner, at)
        if part is None:
            break
        keys.append(int(part["number"]) if part["number"] is not None else part["key"] or part["quoted"])
        at = part.end()
    if not keys or at < len(inner):
        raise ValueError(f"{path!r} is not a path such as {{.status.history[0]}}")
    return tuple(keys)


def value_at(content: Any, path: str) -> Any:
    """Return the value at the end of a path, None where there is none."""
    for step in steps(path):
        if isinstance(step, str):
            content = content.get(step) if isinstance(content, Mapping) else None
        else:
            there = isinstance(content, list) and -len(content) <= step < len(content)
            content = content[step] if there else None
    return content


def _readable(path: str) -> str:
    steps(path)
    return path


Path = Annotated[Text, AfterValidator(_readable)]
Kind = Annotated[str, StringConstraints(pattern=KIND)]


class Manifests(Model):
    """Objects that a program prints as YAML.

    command: the program and its arguments, each of them a template.
    """

    command: tuple[Text, ...] = Field(min_length=1)


class Install(Model):
    """What must be there before a phase can be applied: files or templates (*.j2) of objects, or programs.

    cluster: once per infra cluster, such as CustomResourceDefinitions; what another revision added there stays.
    namespace: in the namespace of each cell, such as the controllers.
    """

    cluster: tuple[Text | Manifests, ...] = ()
    namespace: tuple[Text | Manifests, ...] = ()


class DeclaredObject(Model):
    """The object that phases edit.

    apiVersion, kind, name: as in the object itself.
    """

    apiVersion: Text  # noqa: N815 - as in every object
    kind: Kind
    name: Text


class InObject(Model):
    """A place in an object: of the object that phases edit, or of another one in its namespace.

    apiVersion, kind, name: of that other one; what is not said is as in the object that phases edit.
    path: the way to a value, such as {.status.history[0]}; a negative number counts from the end.
    """

    apiVersion: Text | None = None  # noqa: N815 - as in every object
    kind: Kind | None = None
    name: Text | None = None
    path: Path


class DoneWhen(Model):
    """When a phase is over.

    condition: the type of the object's condition that is then True.
    reason: the reason that the condition has then, whatever its status.
    observed: whether its observedGeneration must have come up with what was applied.
    gone: types of conditions that must not be True.
    """

    condition: Text
    reason: Text | None = None
    observed: bool = True
    gone: tuple[Text, ...] = ()


class FailedWhen(Model):
    """When a phase has failed.

    condition: the type of the object's condition that is then True.
    record: a mapping with any of blame (product, infra, harness), task, host, summary, hint.
    """

    condition: Text
    record: InObject | None = None


class AlsoDone(DoneWhen):
    """Another object of the cell's namespace that a phase waits for first, such as a backup that it makes.

    apiVersion, kind, name: of that object; without apiVersion, as in the object that phases edit.
    condition: the type of its condition that is then True.
    reason: the reason that the condition has then, whatever its status.
    observed: whether its observedGeneration must have come up with what was applied.
    gone: types of its conditions that must not be True.
    failed: the type of its condition that is True once it has failed.
    """

    apiVersion: Text | None = None  # noqa: N815 - as in every object
    kind: Kind
    name: Text
    failed: Text | None = None


class DeletedObject(Model):
    """An object that somebody deletes, and that controllers are to make again.

    It lies in the cell's namespace, or where a phase says `delivery_into: guest`, in that of its name in the guest.

    apiVersion, kind, name: of the object.
    """

    apiVersion: Text  # noqa: N815 - as in every object
    kind: Kind
    name: Text


class AppliedVariables(InObject):
    """Where the objects say with which variables a cluster was made.

    apiVersion, kind, name: of an object that is not the one that phases edit.
    path: the way to a mapping, such as {.status.variables}.
    but: variables of a phase that are not compared, such as places of files.
    """

    but: tuple[Variable, ...] = ()


class SecretKey(Model):
    """A key of a Secret in the cell's namespace.

    secret: its name.  key: the key.
    """

    secret: Text
    key: Text = "value"


class JobLogs(Model):
    """Whose logs become part of the phase's log.

    jobs: a label selector of Jobs.
    """

    jobs: Text


class MadeMachines(Model):
    """Objects of which the product makes the machines of a cell itself; vmatrix makes none.

    apply: the template of these objects, one for each machine, of the machine's name.
    apiVersion, kind: of the objects; without apiVersion, as in the object that phases edit.
    address: the way to a machine's address in its object, such as {.status.address}; there is one once it runs.
    """

    apply: Text
    apiVersion: Text | None = None  # noqa: N815 - as in every object
    kind: Kind
    address: Path


class DeclaredOptions(Model):
    """With kind `declared`, what is applied, and how it is seen that this has worked.

    images: artifacts that are container images; the run pushes them into the registry for the controllers.
    install: what must be there before.  object: the object that phases edit.
    done: when a phase is over.  failed: when it has failed.
    progress: what is under way: a text, or a mapping with `play` and `task`; without it the condition's message.
    kubeconfig: the Secret with the guest cluster's kubeconfig.  logs: what else belongs into the phase's log.
    expected: variables whose values the objects must have after each phase that leaves a cluster.
    variables: a mapping that must then have all variables of the phase.
    machines: a list that must then have the names of all machines of the cluster, and no others.
    makes: how the product makes the machines of a cell; those that leave their cluster are then gone.
    """

    images: tuple[Text, ...] = ()
    install: Install = Install.model_construct()
    object: DeclaredObject
    done: DoneWhen
    failed: FailedWhen
    progress: InObject | None = None
    kubeconfig: SecretKey
    logs: JobLogs | None = None
    expected: dict[Variable, InObject] = Field(default_factory=dict)
    variables: AppliedVariables | None = None
    machines: InObject | None = None
    makes: MadeMachines | None = None


class DeclaredPhase(Model):
    """A phase that is an edit of objects."""

    apply: Text | None = Field(
        default=None,
        description="With kind `declared`: the template of the objects that are applied, in the product's directory.",
    )
    until: AlsoDone | None = Field(
        default=None,
        description="With kind `declared`: another object that the phase waits for before the one that phases edit.",
    )
    read: dict[Text, InObject] = Field(
        default_factory=dict,
        description="With kind `declared`: values of objects that are there, which the template is given as `read`.",
    )
    commit: Text | None = Field(
        default=None,
        description="With kind `declared`: the folder, in the product's directory, whose files are committed to a "
        "repository of the cell before the phase; the template is given the revision as `commit`.",
    )
    guest: Text | None = Field(
        default=None,
        description="With kind `declared`: the template of objects that are applied in the guest cluster before those "
        "of `apply`, where the phase of the scenario says `delivery_into: guest`.",
    )
    deleted: tuple[DeletedObject, ...] = Field(
        default=(),
        description="With kind `declared`: objects that are deleted, as if by mistake, before anything else; the "
        "phase waits until others of their names are there.",
    )
    images: tuple[Text, ...] = Field(
        default=(),
        description="With kind `declared`: further images, as in `declared`, which this phase alone needs.",
    )
    delete: bool = Field(
        default=False,
        description="With kind `declared`: delete the object, after what `apply` says, and wait until it is gone.",
    )
