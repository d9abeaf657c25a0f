"""Definitions of the operator's kinds without their schemas."""

from __future__ import annotations

from harness.kube.client import Json
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, MACHINE, MACHINE_SET


def crds() -> list[Json]:
    """Return one definition per kind, with a status subresource and any content."""
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{kind.plural}.{kind.group}"},
            "spec": {
                "group": kind.group,
                "scope": "Namespaced",
                "names": {"plural": kind.plural, "kind": kind.kind, "listKind": f"{kind.kind}List"},
                "versions": [
                    {
                        "name": kind.version,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                ],
            },
        }
        for kind in (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET, MACHINE)
    ]
