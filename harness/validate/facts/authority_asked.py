"""Part of authority.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXTERNAL_CA = "cluster_external_ca"


# kubeadm gives these empty ones to a controller manager that finds a CA without its key
UNSIGNING = {"kube-controller-manager": {"cluster-signing-cert-file": "", "cluster-signing-key-file": ""}}


def external_flags(program: str, variables: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the flags that a program has because the cluster's CA is external."""
    return UNSIGNING.get(program, {}) if variables.get(EXTERNAL_CA) else {}
