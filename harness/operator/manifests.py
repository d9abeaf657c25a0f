"""What runs the operator in a cluster, as manifests: definitions, a role for each controller, accounts, Deployments.

deploy/operator has the same as files for kustomize; a test holds these to what is written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.kube.failures import Json
from harness.kube.kinds.definition import as_yaml
from harness.kube.resources import SERVICE_ACCOUNT
from harness.operator import rights
from harness.operator.api import crds
from harness.operator.deployment import deployment
from harness.operator.registry import PARTS, Part
from harness.operator.roles import LABELS, NAME, binding, role

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
        return {
            "rbac/accounts.yml": [self._account(name) for name in self._accounts],
            "rbac/manager.yml": self._manager(),
            **{f"rbac/{part.name}.yml": self._controller(part) for part in PARTS},
            "manager.yml": [self._deployment(name) for name in self._accounts],
        }

    def objects(self) -> list[Json]:
        """Return all objects in the order in which they are applied."""
        return [*crds.crds(), *(body for bodies in self.files().values() for body in bodies)]

    @property
    def _accounts(self) -> dict[str, tuple[str, ...]]:
        """Return the managers by the names of their accounts, with the controllers that each runs (none: all)."""
        return {_name(part.name): (part.name,) for part in PARTS} if self.apart else {NAME: ()}

    def _account(self, name: str) -> Json:
        return SERVICE_ACCOUNT.manifest(name, self.namespace, labels=LABELS)

    def _deployment(self, name: str) -> Json:
        controllers = self._accounts[name]
        return deployment(name, self.namespace, self.image, controllers=controllers, everywhere=self.everywhere)

    def _manager(self) -> list[Json]:
        """Return what every manager may do: in its own namespace, and of definitions."""
        definitions, own = _name("definitions"), _name("manager")
        bound = definitions if self.namespace == NAMESPACE else f"{definitions}-{self.namespace}"
        return [
            role(own, rights.MANAGER, self.namespace),
            binding(own, own, self._accounts, self.namespace, self.namespace),
            role(definitions, rights.DEFINITIONS, None),
            binding(bound, definitions, self._accounts, self.namespace, None),
        ]

    def _controller(self, part: Part) -> list[Json]:
        name, where = _name(part.name), None if self.everywhere else self.namespace
        accounts = [account for account, parts in self._accounts.items() if part.name in parts or not parts]
        bound = name if where or self.namespace == NAMESPACE else f"{name}-{self.namespace}"
        return [role(name, rights.rights_of(part), where), binding(bound, name, accounts, self.namespace, where)]


def text(objects: Iterable[Json]) -> str:
    """Return objects as YAML documents."""
    return "---\n".join(map(as_yaml, objects))


def kustomization() -> str:
    """Return deploy/operator/kustomization.yaml: all files, in a namespace of their own."""
    files = [*(f"crds/{name}" for name in crds.files()), "namespace.yml", *Installation().files()]
    image = {"name": IMAGE, "newName": IMAGE, "newTag": "latest"}
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": files,
        "images": [image],
    }
    return text([body])


def committed() -> dict[str, str]:
    """Return the files of deploy/operator besides the definitions, the namespace and the samples."""
    made = {name: HEADER + text(bodies) for name, bodies in Installation().files().items()}
    return {**made, "kustomization.yaml": HEADER + kustomization()}


def _name(part: str) -> str:
    return f"{NAME}-{part}"
