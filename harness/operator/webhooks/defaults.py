"""What is filled in that a definition cannot know: who wished for what a ClusterDeployment says, and who approved it.

No field of the spec is filled in here: definitions have all defaults that there are, and what a ClusterDeployment does
not say, such as a component's version, stays open, for the release table of the next upgrade.
"""

from __future__ import annotations

from harness.kube.admission import ALLOWED, AdmissionResponse, change
from harness.kube.client import Json
from harness.kube.objects import deleting, dig
from harness.operator.api.resources import (
    APPROVE_ANNOTATION,
    APPROVED_BY_ANNOTATION,
    REQUESTED_BY_ANNOTATION,
    RESTORE_ANNOTATION,
)


def default_deployment(request: Json) -> AdmissionResponse:
    """Write down who changed the spec, and who gave an approval; nobody can write another's name there."""
    new, old, user = request["object"], request.get("oldObject"), request["userInfo"].get("username", "")
    if deleting(new):
        return ALLOWED
    said = dict(new["metadata"].get("annotations") or {})
    before = dig(old, "metadata", "annotations") or {}
    spoke = {REQUESTED_BY_ANNOTATION: old is None or old.get("spec") != new.get("spec")}
    given = [name for name in (APPROVE_ANNOTATION, RESTORE_ANNOTATION) if said.get(name) is not None]
    spoke[APPROVED_BY_ANNOTATION] = any(said[name] != before.get(name) for name in given)
    for annotation, now in spoke.items():
        told = user if now else before.get(annotation)
        said = {name: value for name, value in said.items() if name != annotation}
        said |= {annotation: told} if told else {}
    return change(request, {"metadata": {**new["metadata"], "annotations": said}})
