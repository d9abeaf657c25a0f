"""One right in a guest, and what its API says of whether somebody has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster

REVIEWS = "/apis/authorization.k8s.io/v1"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True)
class ApiRight:
    """To do something with objects of a resource (RESOURCE or RESOURCE/SUBRESOURCE): everywhere, or in a namespace."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''}{place}"

    @property
    def attributes(self) -> dict[str, str]:
        """Return it as reviews take it."""
        resource, _, sub = self.resource.partition("/")
        found = {"verb": self.verb, "group": self.group, "resource": resource}
        more = {"subresource": sub, "namespace": self.namespace, "name": self.name}
        return {**found, **{key: value for key, value in more.items() if value}}


def reviewed(api: Cluster, right: ApiRight, user: str = "", groups: Sequence[str] = ()) -> bool:
    """Return whether a user has a right by a SubjectAccessReview; without one, whether who asks has it."""
    spec: dict[str, Any] = {"resourceAttributes": right.attributes}
    spec |= {"user": user, "groups": list(groups)} if user else {}
    kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return bool(api.request("POST", f"{REVIEWS}/{kind.lower()}s", body=body)["status"]["allowed"])
