"""Deliveries: an edit that adds a mistake is refused, and one whose author may not do what it would do.

A Delivery acts for whoever wrote it: it makes pods in its target and shows Secrets to servers that it names. Its author
has to be allowed as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from harness.kube.admission import ALLOWED, AdmissionResponse
from harness.kube.client import Cluster, Json, allowed, as_reviewed
from harness.kube.objects import deleting
from harness.kube.resources import SECRET, Resource
from harness.operator.api.delivery import Delivery, read_delivery
from harness.operator.api.resources import CLUSTER
from harness.operator.decide.application import application_kinds, target_namespace
from harness.operator.webhooks.deployments import without
from harness.operator.webhooks.guards import forbidden, refused

VERB = "deliver"


class NeededRight(NamedTuple):
    """What the author of a Delivery has to be allowed, and what for. to: where a Secret's content goes."""

    verb: str
    resource: Resource
    namespace: str
    name: str
    why: str
    to: str = ""

    @property
    def attributes(self) -> Mapping[str, str]:
        """Return it as a SubjectAccessReview asks for it."""
        asked = {"verb": self.verb, "group": self.resource.group, "resource": self.resource.plural}
        return {**asked, "namespace": self.namespace, **({"name": self.name} if self.name else {})}

    def denied(self, user: str) -> str:
        """Return why a user is refused."""
        what = self.resource.plural + (f".{self.resource.group}" if self.resource.group else "")
        return (
            f'{what}{f" {self.name!r}" if self.name else ""} is forbidden: User "{user}" cannot {self.verb} it in the '
            f'namespace "{self.namespace}": {self.why}; an administrator grants it with a Role that has the verb'
        )


def needed(delivery: Delivery) -> Iterator[NeededRight]:
    """Yield what the author of a Delivery has to be allowed: where it deploys, and whose Secrets it shows to whom."""
    spec, namespace = delivery.spec, delivery.metadata.namespace
    if spec.deploy.cluster:
        yield NeededRight(VERB, CLUSTER, namespace, spec.deploy.cluster, "spec.deploy.cluster says so")
    else:
        for kind in application_kinds(delivery):
            yield NeededRight("create", kind, target_namespace(delivery), "", "the application has one there")
    shown = {
        "source.secretRef": (spec.source.secret_ref, spec.source.git),
        "source.webhook.secretRef": (spec.source.webhook.secret_ref if spec.source.webhook else None, ""),
        "build.pushSecretRef": (spec.build.push_secret_ref, spec.build.image),
        "deploy.pullSecretRef": (spec.deploy.pull_secret_ref, spec.deploy.cluster),
        "build.signingSecretRef": (spec.build.signing_secret_ref, ""),
    }
    for field, (reference, to) in shown.items():
        if reference is not None:
            yield NeededRight("get", SECRET, namespace, reference.name, f"spec.{field} uses it", to)


class DeliveryJudge:
    """Judges what is written of Deliveries."""

    def __init__(self, cluster: Cluster) -> None:
        """Ask an API what users may do."""
        self._cluster = cluster

    def __call__(self, request: Json) -> AdmissionResponse:
        """Judge one review."""
        new, old = request["object"], request.get("oldObject")
        if deleting(new) or (old is not None and old.get("spec") == new.get("spec")):
            return ALLOWED
        delivery, mistakes = read_delivery(new, creating=old is None)
        before, known = read_delivery(old, creating=False) if old is not None else (None, [])
        if news := without(mistakes, known):
            return refused(news)
        if delivery is None:  # it had this mistake before
            return ALLOWED
        shown = {right for right in needed(before) if right.resource == SECRET} if before is not None else set()
        user = request["userInfo"]
        for right in needed(delivery):
            if right not in shown and not allowed(self._cluster, as_reviewed(user), right.attributes)[0]:
                return forbidden(right.denied(user.get("username", "")))
        return ALLOWED
