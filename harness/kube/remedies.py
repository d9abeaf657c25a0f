"""What to do about an API's refusal: which right on what is missing, and who can give it."""

from __future__ import annotations

import re
from http import HTTPStatus

# https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "WATCH": "watch"}
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/?]+"
    r"(?:/namespaces/(?P<namespace>[^/?]+)(?=/))?"
    r"/(?P<plural>[^/?]+)(?:/(?P<name>[^/?]+))?(?:/(?P<subresource>[^/?]+))?"
)
ROLES = "deploy/README.md has the roles, and `vmatrix doctor --kubeconfig PATH` lists all that is missing with commands"


def right_of(request: str) -> str:
    """Return the right that a request needs, as `kubectl auth can-i` takes it; "" when it needs none on an object.

    Args:
        request: "METHOD PATH".
    """
    method, _, path = request.partition(" ")
    found = PATH.match(path)
    if found is None:
        return ""
    verb = VERBS.get(method) or ("get" if found["name"] else "list")
    kind = found["plural"] + (f".{found['group']}" if found["group"] else "")
    inside = f" -n {found['namespace']}" if found["namespace"] else ""
    below = f"/{found['subresource']}" if found["subresource"] else ""
    return f"{verb} {kind}{below}{inside}"


def remedy(code: int, request: str) -> str:
    """Return what to do about a refusal with this code, "" where the answer itself says enough."""
    right = right_of(request)
    if code == HTTPStatus.UNAUTHORIZED:
        return "the API does not know these credentials: log in again, get a new token, or use another kubeconfig"
    if code == HTTPStatus.FORBIDDEN and right:
        return f"needed: `kubectl auth can-i {right}` must say yes; ask the cluster's owner: {ROLES}"
    if code == HTTPStatus.NOT_FOUND and right:
        return (
            "the API does not have this object or kind: is it the right cluster, with KubeVirt and CDI? "
            "`vmatrix doctor --kubeconfig PATH` checks it"
        )
    return ""
