"""What the operator does about machines of a cluster whose nodes are not ready any more."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.kube.kinds.models import ApiModel

Remedy = Literal["None", "Restart", "Replace"]


class HealthPolicy(ApiModel):
    """What is done about machines that are gone or hung."""

    remediation: Remedy = Field(default="None", description="None, Restart, or Replace where a restart does not help.")
    after_seconds: int = Field(  # as the node controller's tolerations: pods leave a node after five minutes, too
        default=300, ge=1, le=86400, description="Seconds that a node is not ready before anything is done."
    )
    max_unhealthy: int = Field(
        default=1, ge=1, le=200, description="Nothing is done while more machines of the cluster are not healthy."
    )
