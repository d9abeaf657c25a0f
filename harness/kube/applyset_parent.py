"""The object by which a set of applied objects is known, and its label on each of them: ApplySets.

https://github.com/kubernetes/enhancements/tree/master/keps/sig-cli/3659-kubectl-apply-prune#design-details-applyset-specification
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from harness.kube.failures import Json
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP

DOMAIN = "applyset.kubernetes.io"
ID, PART_OF, TOOLING = f"{DOMAIN}/id", f"{DOMAIN}/part-of", f"{DOMAIN}/tooling"
KINDS, NAMESPACES = f"{DOMAIN}/contains-group-kinds", f"{DOMAIN}/additional-namespaces"
GroupKind = tuple[str, str]


@dataclass(frozen=True)
class ApplySetParent:
    """A ConfigMap that stands for a set. tooling: who keeps the set, as NAME/VERSION."""

    name: str
    namespace: str
    tooling: str

    @property
    def id(self) -> str:
        """Return the value of the label of everything in the set."""
        named = f"{self.name}.{self.namespace}.{CONFIG_MAP.kind}.{CONFIG_MAP.group}"
        digest = hashlib.sha256(named.encode()).digest()
        return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"

    def body(self, kinds: Collection[GroupKind], namespaces: Collection[str], labels: dict[str, str]) -> Json:
        """Return the ConfigMap of a set that has such kinds, in such namespaces."""
        made = CONFIG_MAP.manifest(self.name, self.namespace, labels={**labels, ID: self.id})
        made["metadata"]["annotations"] = {
            TOOLING: self.tooling,
            KINDS: ",".join(sorted(f"{kind}.{group}" if group else kind for group, kind in kinds)),
            NAMESPACES: ",".join(sorted({*namespaces} - {self.namespace, ""})),
        }
        return made


def kinds_of(parent: Json | None) -> set[GroupKind]:
    """Return the kinds that a set has or may have."""
    said = dig(parent, "metadata", "annotations", KINDS) or ""
    found = (word.partition(".") for word in said.split(",") if word)
    return {(group, kind) for kind, _, group in found}


def namespaces_of(parent: Json | None) -> set[str]:
    """Return the namespaces that a set has or may have objects in, besides its parent's."""
    return {word for word in (dig(parent, "metadata", "annotations", NAMESPACES) or "").split(",") if word}
