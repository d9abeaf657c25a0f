"""What runs the operator in a cluster, as manifests: definitions, a role for each controller, accounts, Deployments.

deploy/operator has the same as files for kustomize; a test holds these to what is written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.infra.cluster.rights import Right
from harness.infra.cluster.roles import binding, role
from harness.kube.failures import Json
from harness.kube.kinds.definition import as_yaml
from harness.kube.resources import SERVICE_ACCOUNT
from harness.operator import rights
from harness.operator.api import crds
from harness.operator.deployment import LABELS, NAME, deployment
from harness.operator.registry import PARTS

HEADER = "# Written by `vmatrix operator manifests --write` from harness/operator. Do not edit.\n"
NAMESPACE, IMAGE = NAME, "vmatrix"  # in deploy/operator; kustomize replaces both


@dataclass(frozen=True)
class Installation:
    """One operator in a cluster.

    Attributes: namespace (of the managers, and the only one they look at), image, apart (each controller has a manager
    and an account of its own), everywhere (managers look at all namespaces).
    """

    namespace: str = NAMESPACE
    image: str = IMAGE
    apart: bool = False
    everywhere: bool = False

    def files(self) -> dict[str, list[Json]]:
        """Return the objects by the file that they are in, without the definitions."""
        # The managers by the names of their accounts, with the controllers that each runs; none: all.
        managers = {f"{NAME}-{part.name}": (part.name,) for part in PARTS} if self.apart else {NAME: ()}
        where = None if self.everywhere else self.namespace
        made = {
            "rbac/accounts.yml": [SERVICE_ACCOUNT.manifest(name, self.namespace, labels=LABELS) for name in managers],
            "rbac/manager.yml": [
                *self._granted("manager", rights.MANAGER, managers, self.namespace),
                *self._granted("definitions", rights.DEFINITIONS, managers, None),
            ],
        }
        for part in PARTS:
            accounts = [account for account, runs in managers.items() if part.name in runs or not runs]
            made[f"rbac/{part.name}.yml"] = self._granted(part.name, rights.rights_of(part), accounts, where)
        made["manager.yml"] = [
            deployment(name, self.namespace, self.image, controllers=runs, everywhere=self.everywhere)
            for name, runs in managers.items()
        ]
        return made

    def objects(self) -> list[Json]:
        """Return all objects in the order in which they are applied."""
        return [*crds.crds(), *(body for bodies in self.files().values() for body in bodies)]

    def _granted(self, about: str, given: Iterable[Right], accounts: Iterable[str], where: str | None) -> list[Json]:
        """Return a role and its binding: in a namespace, or in all (None), where other operators may have theirs."""
        name = f"{NAME}-{about}"
        bound = name if where or self.namespace == NAMESPACE else f"{name}-{self.namespace}"
        return [role(name, given, where, LABELS), binding(bound, name, accounts, self.namespace, where, LABELS)]


def text(objects: Iterable[Json]) -> str:
    """Return objects as YAML documents."""
    return "---\n".join(map(as_yaml, objects))


def committed() -> dict[str, str]:
    """Return the files of deploy/operator besides the definitions, the namespace and the samples."""
    files = Installation().files()
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": [*(f"crds/{name}" for name in crds.files()), "namespace.yml", *files],
        "images": [{"name": IMAGE, "newName": IMAGE, "newTag": "latest"}],
    }
    made = {**files, "kustomization.yaml": [kustomization]}
    return {name: HEADER + text(bodies) for name, bodies in made.items()}
