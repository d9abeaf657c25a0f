"""Defaults of a ClusterDeployment, filled in as the API server does from the definition's schema."""

from __future__ import annotations

from harness.kube.client import Json
from harness.operator.api.clusterdeployment import ClusterDeployment


def defaulted(obj: Json) -> ClusterDeployment:
    """Return the object as a model with all defaults. Raises pydantic's ValidationError if it is none."""
    return ClusterDeployment.model_validate(obj)


def filled(cd: ClusterDeployment) -> Json:
    """Return the spec as the API server stores it: with all defaults and without what is not set."""
    made: Json = cd.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made
