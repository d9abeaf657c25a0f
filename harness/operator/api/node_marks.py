"""Labels and taints that the nodes of a set have."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.cel import Cel
from harness.kube.kinds.models import ApiModel
from harness.operator.api.resources import GROUP

KEY_PATTERN = (
    "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"  # as Kubernetes has it
)
MarkValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
MarkKey = Annotated[str, StringConstraints(pattern=KEY_PATTERN, max_length=316)]


# Written by the kubelet, by kubeadm and by the node controller, who need them as they are.
# https://kubernetes.io/docs/reference/labels-annotations-taints
KUBELETS_LABELS = (
    *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os"),
    *("beta.kubernetes.io/arch", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker"),
)
CONTROLLERS_TAINTS = "node.kubernetes.io/"


def _name(key: str) -> bool:
    return re.fullmatch(KEY_PATTERN, key) is not None and not key.startswith(f"{GROUP}/")


OWN_LABELS = Cel(
    f"self.labels.all(key, !(key in [{', '.join(map(repr, KUBELETS_LABELS))}]))",
    "Kubernetes itself gives nodes one of these labels, and each node its own",
    f"remove it; these are {', '.join(KUBELETS_LABELS)}",
    ".labels",
    holds=lambda one: not any(key in KUBELETS_LABELS for key in one.labels),
)
OWN_TAINTS = Cel(
    f"!self.key.startsWith('{CONTROLLERS_TAINTS}')",
    "Kubernetes itself sets and removes this taint",
    f"use a key that does not begin with {CONTROLLERS_TAINTS}",
    ".key",
    holds=lambda taint: not taint.key.startswith(CONTROLLERS_TAINTS),
)
LABEL_KEYS = Cel(
    f"self.labels.all(key, key.matches('{KEY_PATTERN}') && !key.startsWith('{GROUP}/'))",
    "the key of a label is none that nodes may have, or one of the operator's own",
    f"write NAME or PREFIX/NAME, with another prefix than {GROUP}",
    ".labels",
    holds=lambda one: all(map(_name, one.labels)),
)


class NodeTaint(ApiModel):
    """A taint of the nodes of a set."""

    cel: ClassVar[tuple[Cel, ...]] = (OWN_TAINTS,)
    key: MarkKey = Field(description="Key of the taint.")
    value: MarkValue = Field(default="", description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(description="Effect of the taint.")


def taints() -> Any:
    """Return the field of a set's taints."""
    return Field(
        default=(),
        max_length=20,
        description="Taints of its nodes; other taints stay as they are.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key", "effect"]},
    )
