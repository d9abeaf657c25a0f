"""ClusterDeployments and Machines in a file, judged as the operator judges them, with the line of every mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

from harness.errors import BadInput
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.machine import GIVEN_OR_MADE, NO_ADDRESS, DeclaredMachine
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, GROUP, MACHINE
from harness.operator.api.rules import read
from harness.operator.decide.releases import load_releases
from harness.spec.lines import Document, Location, Problem, dotted, read_all
from harness.spec.loader import refuse
from harness.spec.shape import unknown, validate

KINDS = (CLUSTER_DEPLOYMENT.kind, MACHINE.kind)


def documents_of(file: Path, namespace: str = "default") -> list[Document]:
    """Return the objects of the operator's group in a file; those of other groups, such as Secrets, do not count.

    Args:
        namespace: of objects that name none.

    Raises:
        BadInput: what is wrong, with the line; or there is no ClusterDeployment.
    """
    listed, problems = read_all(file)
    documents = [one for document in listed for one in _items(document)]
    found = [document for document in documents if _group(document) in (GROUP, None)]
    problems += [problem for document in found for problem in _form(document)]
    if problems:
        raise refuse(problems)
    if not any(_kind(document) == CLUSTER_DEPLOYMENT.kind for document in found):
        raise BadInput(
            f"{file} has no {CLUSTER_DEPLOYMENT.kind}",
            hint=f"it needs an object with apiVersion: {CLUSTER_DEPLOYMENT.api_version} and kind: ClusterDeployment",
        )
    return [_within(document, namespace) for document in found]


def names_of(documents: Sequence[Document]) -> dict[str, str]:
    """Return the names of the ClusterDeployments among documents, and the namespace of each."""
    found = [document.content["metadata"] for document in documents if _kind(document) == CLUSTER_DEPLOYMENT.kind]
    return {str(one.get("name")): str(one["namespace"]) for one in found}


def judged(
    documents: Sequence[Document], *, creating: bool = True
) -> tuple[list[ClusterDeployment], list[DeclaredMachine]]:
    """Return the ClusterDeployments and the Machines that documents declare.

    Raises BadInput with every mistake: its line, its field and what to write.

    creating: nothing is deployed yet; some rules hold only then.
    """
    deployments, machines, problems = list[ClusterDeployment](), list[DeclaredMachine](), list[Problem]()
    for document in documents:
        if _kind(document) == MACHINE.kind:
            machine, wrong = validate(document, DeclaredMachine)
            machines += [machine] if machine is not None else []
            problems += wrong or _address(document, machine)
            continue
        cd, mistakes = read(document.content, load_releases().kubernetes, creating=creating)
        deployments += [cd] if cd is not None else []
        problems += [
            Problem(*document.place_of(_location(document, m.field)), m.field, f"{m.message}: {m.remedy}")
            for m in mistakes
        ]
    if problems:
        raise refuse(problems)
    return deployments, machines


def _address(document: Document, machine: DeclaredMachine | None) -> Iterator[Problem]:
    """Yield what is wrong with the address of a Machine."""
    if machine is None or not machine.spec.address:
        if machine is not None and not machine.made:
            yield document.problem(("spec",), f"{GIVEN_OR_MADE.message}: {GIVEN_OR_MADE.remedy}")
        return
    try:
        ip_address(machine.spec.address)
    except ValueError:
        yield document.problem(("spec", "address"), f"{NO_ADDRESS.message}: {NO_ADDRESS.remedy}")


def _items(document: Document) -> Iterator[Document]:
    """Yield the objects of a list, as kubectl prints several, or the document itself."""
    content = document.content
    kind, items = (content.get("kind"), content.get("items")) if isinstance(content, dict) else (None, None)
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield document
        return
    for number in range(len(items)):
        yield from _items(document.below(("items", number)))


def _form(document: Document) -> Iterator[Problem]:
    """Yield what keeps a document from being an object of the group."""
    if not isinstance(document.content, dict):
        yield document.problem((), "expected an object with apiVersion and kind")
    elif _group(document) is None:
        yield document.problem((), f"no apiVersion; expected {CLUSTER_DEPLOYMENT.api_version}")
    elif document.content["apiVersion"] != CLUSTER_DEPLOYMENT.api_version:
        yield document.problem(("apiVersion",), f"unknown version; expected {CLUSTER_DEPLOYMENT.api_version}")
    elif _kind(document) not in KINDS:
        yield document.problem(("kind",), unknown("kind", _kind(document), KINDS))


def _within(document: Document, namespace: str) -> Document:
    """Return a document with a namespace in its metadata, its own if it has one."""
    metadata = document.content.get("metadata")
    if not isinstance(metadata, dict):
        raise refuse([document.problem(("metadata",), "expected a mapping with the key name")])
    return replace(document, content={**document.content, "metadata": {"namespace": namespace, **metadata}})


def _group(document: Document) -> str | None:
    """Return the group of an object, None where there is no apiVersion."""
    content = document.content if isinstance(document.content, dict) else {}
    version = content.get("apiVersion")
    return version.rpartition("/")[0] if isinstance(version, str) and version else None


def _kind(document: Document) -> str:
    return str(document.content.get("kind", ""))


def _location(document: Document, field: str) -> Location:
    """Return the place of a field, as far as the document has it."""
    above = (at for at in document.lines if f"{field}.".startswith((f"{dotted(at)}.", f"{dotted(at)}[")))
    return max(above, key=len, default=())
