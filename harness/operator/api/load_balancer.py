"""What stands in front of a cluster's API servers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from harness.kube.kinds.cel import Cel, unchanged
from harness.kube.kinds.models import ApiModel


class ApiBalancer(ApiModel):
    """What stands in front of the API servers."""

    cel: ClassVar[tuple[Cel, ...]] = (unchanged(".type"),)
    type: Literal["Local", "Service"] = Field(
        default="Local", description="Service: also a Service CLUSTER-api in the namespace; cannot change."
    )


def service_name(cluster: str) -> str:
    """Return the name of a cluster's Service and of its EndpointSlice."""
    return f"{cluster}-api"


def service_names(cluster: str, namespace: str) -> list[str]:
    """Return the names of a cluster's API in its infra cluster, which its certificate has to have, the fullest last."""
    name = service_name(cluster)
    return [name, f"{name}.{namespace}", f"{name}.{namespace}.svc"]
