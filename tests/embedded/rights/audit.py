"""The API server's audit log: what somebody asked for, and what was answered. No request goes past it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.infra.cluster.rights import Right

# Requests of people and jobs, whole where somebody's rights are asked for; the control plane's own are left out.
POLICY: Mapping[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {
            "level": "Request",
            "resources": [{"group": "authorization.k8s.io", "resources": ["subjectaccessreviews"]}],
        },
        {"level": "None", "userGroups": ["system:masters", "system:nodes", "system:serviceaccounts:kube-system"]},
        {"level": "None", "users": ["system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"]},
        {"level": "Metadata"},
    ],
}
EVERYBODYS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})  # groups in which one asks about oneself
FORBIDDEN = 403
QUOTA = re.compile("exceeded quota|status unknown for quota")


@dataclass(frozen=True, order=True)
class Ask:
    """A verb on a kind or its subresource, in a namespace ("" in all, or of a kind that has none)."""

    verb: str
    group: str
    resource: str
    namespace: str = ""


@dataclass(frozen=True)
class Witness:
    """What the log says of one user since a moment."""

    asked: frozenset[Ask]
    forbidden: frozenset[Ask]


@dataclass(frozen=True)
class Log:
    """The audit log of an API server that writes it before it answers (mode blocking-strict)."""

    path: Path

    def size(self) -> int:
        """Return where the log ends now."""
        return self.path.stat().st_size

    def of(self, user: str, since: int = 0) -> Witness:
        """Return what a user asked for after the log had a size."""
        with self.path.open("rb") as log:
            log.seek(since)
            events = [json.loads(line) for line in log if line.endswith(b"\n")]
        own = [e for e in events if e["user"]["username"] == user and e.get("objectRef")]
        asked = [(_ask(e), _may_not(e)) for e in own if _group(e) not in EVERYBODYS]
        inside = [ask for e in events if (ask := _asked_for(e, user)) is not None]
        return Witness(
            asked=frozenset([ask for ask, _ in asked] + inside),
            forbidden=frozenset(ask for ask, may_not in asked if may_not),
        )


def _may_not(event: Mapping[str, Any]) -> bool:
    """Tell whether a right was missing. A quota says 403 as well: while it is full, or was made a moment ago."""
    status = event["responseStatus"]
    allowed = (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "allow"
    return bool(status["code"] == FORBIDDEN and not (allowed and QUOTA.search(status.get("message", ""))))


def _group(event: Mapping[str, Any]) -> str:
    return str(event["objectRef"].get("apiGroup", ""))


def _ask(event: Mapping[str, Any]) -> Ask:
    about = event["objectRef"]
    kind = "/".join(part for part in (about.get("resource", ""), about.get("subresource", "")) if part)
    namespace = "" if kind == "namespaces" else about.get("namespace", "")
    return Ask(event["verb"], _group(event), kind, namespace)


def _asked_for(event: Mapping[str, Any], user: str) -> Ask | None:
    """Return what somebody else asked the API whether the user may: CDI, before it clones for them."""
    spec = (event.get("requestObject") or {}).get("spec") or {}
    about = spec.get("resourceAttributes")
    if not about or spec.get("user") != user:
        return None
    kind = "/".join(part for part in (about.get("resource", ""), about.get("subresource", "")) if part)
    return Ask(about.get("verb", ""), about.get("group", ""), kind, about.get("namespace", ""))


def granted(rights: Iterable[Right], namespaces: Sequence[str] = ("",)) -> frozenset[Ask]:
    """Return what rights allow, as it looks in the log of a user who used all of them in each of some namespaces.

    What the API server asks only itself (policies, bindings) is in no log and left out.
    """
    logged = [right for right in rights if not right.inside or right.subresource == "source"]
    return frozenset(
        Ask(
            verb,
            right.resource.group,
            "/".join(part for part in (right.resource.plural, right.subresource) if part),
            namespace if right.resource.namespaced else "",
        )
        for right in logged
        for verb in right.verbs
        for namespace in (right.within or namespaces)
    )
