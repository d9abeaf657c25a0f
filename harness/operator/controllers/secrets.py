"""Secrets that Deliveries name."""

from __future__ import annotations

from harness.errors import VmatrixError
from harness.kube.client import Cluster
from harness.kube.objects import secret_content
from harness.kube.resources import SECRET


class SecretMissing(VmatrixError):
    """A Secret that a Delivery names is not there."""

    reason = "SecretMissing"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no Secret {name} in the Delivery's namespace", hint="create it")


def named_content(cluster: Cluster, name: str, namespace: str) -> dict[str, bytes]:
    """Return what a Secret holds, by key.

    Raises:
        SecretMissing: there is none of that name.
    """
    secret = cluster.get(SECRET, name, namespace)
    if secret is None:
        raise SecretMissing(name)
    return secret_content(secret)
