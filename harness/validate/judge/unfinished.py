"""What a guest's API shows as begun and never ended: requests, deletions, registrations; and credentials for ever."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

from harness.kube import Cluster
from harness.kube.resources import API_SERVICE, CRD, CSR, NAMESPACE, PV, SECRET
from harness.validate.facts.cluster import OF_CHECKS, Json
from harness.validate.findings import Mismatch

TOKEN_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105 - the name of a kind of Secret
ACCOUNT_TYPE = "kubernetes.io/service-account-token"
# kubeadm's default (kubeadm token create, --ttl), and for clocks that differ
TOKEN_LIFE, CLOCKS = timedelta(hours=24), timedelta(minutes=10)


def unfinished(api: Cluster) -> list[Mismatch]:
    """Return requests and deletions that do not come to an end, and what does not become available."""
    services = api.list(API_SERVICE).items
    found = [_service(one) for one in services if _condition(one, "Available").get("status") != "True"]
    found += [_request(one) for one in api.list(CSR).items if not one.get("status", {}).get("conditions")]
    deleted = [one for one in api.list(NAMESPACE).items if "deletionTimestamp" in one["metadata"]]
    found += [_namespace(one) for one in deleted if OF_CHECKS.match(one["metadata"]["name"]) is None]
    for kind in (CRD, PV):
        items = api.list(kind).items
        ending = [one for one in items if "deletionTimestamp" in one["metadata"]]
        found += [
            Mismatch(f"{kind.kind} {one['metadata']['name']}", "no deletion under way", _held(one)) for one in ending
        ]
        failed = [one for one in items if one.get("status", {}).get("phase") == "Failed"]
        found += [Mismatch(f"{kind.kind} {one['metadata']['name']}", "released or bound", "Failed") for one in failed]
    return found if services else [*found, Mismatch("the API", "APIServices", "none")]


def _held(obj: Json) -> str:
    return f"it waits for {', '.join(obj['metadata'].get('finalizers') or ()) or 'something else'}"


def lasting_tokens(
    api: Cluster, now: datetime | None = None, *, namespaces: frozenset[str] | None = None
) -> list[Mismatch]:
    """Return bootstrap tokens, which let any machine join, that do not expire within a day, and accounts' lasting ones.

    Args:
        namespaces: those of the cluster's own pods, whose accounts have no token without an end; None: not known.
    """
    latest = (now or datetime.now(UTC)) + TOKEN_LIFE + CLOCKS
    secrets = [one for one in api.list(SECRET, fields=f"type={TOKEN_TYPE}").items if one.get("type") == TOKEN_TYPE]
    found: list[Mismatch] = []
    for secret in secrets:
        where = f"Secret {secret['metadata']['namespace']}/{secret['metadata']['name']}"
        ends = base64.b64decode((secret.get("data") or {}).get("expiration", "")).decode()
        if not ends or datetime.fromisoformat(ends) > latest:
            found.append(Mismatch(where, "a bootstrap token that expires within a day", ends or "no expiration"))
    for secret in api.list(SECRET, fields=f"type={ACCOUNT_TYPE}").items if namespaces is not None else ():
        meta = secret["metadata"]
        if secret.get("type") == ACCOUNT_TYPE and meta["namespace"] in (namespaces or ()):
            where = f"Secret {meta['namespace']}/{meta['name']}"
            found.append(Mismatch(where, "no token of a ServiceAccount that lasts for ever", "it exists"))
    return found


def _condition(obj: Json, kind: str) -> Json:
    return next((one for one in obj.get("status", {}).get("conditions") or () if one["type"] == kind), {})


def _service(obj: Json) -> Mismatch:
    seen = _condition(obj, "Available")
    return Mismatch(
        f"APIService {obj['metadata']['name']}", "Available", f"{seen.get('reason')}: {seen.get('message')}"
    )


def _request(obj: Json) -> Mismatch:
    spec = obj["spec"]
    seen = f"pending, of {spec.get('username')} for {spec.get('signerName')}"
    return Mismatch(f"CertificateSigningRequest {obj['metadata']['name']}", "approved or denied", seen)


def _namespace(obj: Json) -> Mismatch:
    words = [
        f"{c['reason']}: {c['message']}" for c in obj.get("status", {}).get("conditions") or () if c["status"] == "True"
    ]
    return Mismatch(f"Namespace {obj['metadata']['name']}", "no deletion under way", "; ".join(words) or "Terminating")
