"""Questions to the API about users: who this process is, and what somebody may do."""

from __future__ import annotations

from collections.abc import Mapping

from harness.kube.client import Cluster, Json

AUTHENTICATION = "authentication.k8s.io/v1"
AUTHORIZATION = "authorization.k8s.io/v1"


def own_name(cluster: Cluster) -> str:
    """Return the user name that a client acts as."""
    body = {"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview"}
    answer = cluster.request("POST", f"/apis/{AUTHENTICATION}/selfsubjectreviews", body=body)
    name: str = answer["status"]["userInfo"]["username"]
    return name


def allowed(cluster: Cluster, user: Json, attributes: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether a user may do something, and why.

    Args:
        user: `user`, `groups` and `extra`, as a SubjectAccessReview has them.
        attributes: the review's resourceAttributes.
    """
    spec = {**user, "resourceAttributes": dict(attributes)}
    body = {"apiVersion": AUTHORIZATION, "kind": "SubjectAccessReview", "spec": spec}
    status = cluster.request("POST", f"/apis/{AUTHORIZATION}/subjectaccessreviews", body=body)["status"]
    return bool(status["allowed"]), str(status.get("reason", ""))


def as_reviewed(user: Json) -> Json:
    """Return the user of an admission review as a SubjectAccessReview has it."""
    return {"user": user.get("username", ""), **{k: user[k] for k in ("groups", "uid", "extra") if k in user}}
