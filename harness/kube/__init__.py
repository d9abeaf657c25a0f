"""The only place that talks to a Kubernetes API."""

from harness.kube.client import ApiFailure, Cluster
from harness.kube.resources import Resource

__all__ = ["ApiFailure", "Cluster", "Resource"]
