"""Credentials: what the API accepts before its authorities are replaced, and refuses afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from harness.errors import VmatrixError
from harness.kube import Cluster
from harness.kube.failures import Untrusted
from harness.model import Cell
from harness.until import Deadline
from harness.validate.findings import Mismatch
from harness.validate.phases.data import LIFE
from harness.validate.pods import ensure_namespace, wait_for_service_account

ROTATE, CLONE = "rotate-ca", "clone"  # phases
REFUSED = 401
PATH = "/api/v1/namespaces/default/pods"
ACCOUNT = f"/api/v1/namespaces/{LIFE}/serviceaccounts/default"
TOKEN_SECONDS = 6 * 3600  # longer than any phase: a token must not be refused for its age


def are_taken_before(cell: Cell, index: int) -> bool:
    """Tell whether what is accepted before a phase is refused after it, or after the clone that follows it."""
    following = cell.phases[index + 1].name if index + 1 < len(cell.phases) else ""
    return cell.phases[index].name == ROTATE or following == CLONE


@dataclass(frozen=True)
class Credentials:
    """An admin's kubeconfig, and a token of a ServiceAccount."""

    kubeconfig: Mapping[str, Any]
    token: str


def take_credentials(api: Cluster, kubeconfig: Path, deadline: Deadline) -> Credentials:
    """Return what the API accepts now.

    Raises:
        VmatrixError: it gives no token.
    """
    ensure_namespace(api, LIFE)
    wait_for_service_account(api, LIFE, deadline)
    spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body = {**spec, "spec": {"expirationSeconds": TOKEN_SECONDS}}
    answer = api.object("POST", f"{ACCOUNT}/token", body=body)
    return Credentials(yaml.safe_load(kubeconfig.read_text(encoding="utf-8")), str(answer["status"]["token"]))


def accepted(former: Credentials, kubeconfig: Path) -> list[Mismatch]:
    """Return the former credentials that the API accepts, and the former CA where the API is trusted with it.

    Args:
        kubeconfig: the admin's as it is now, which says whom to trust.
    """
    now = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    users = {
        "the former admin's certificate": former.kubeconfig["users"][0]["user"],
        "a token of the former key": {"token": former.token},
    }
    mismatches = []
    for what, user in users.items():
        code = _client(now, user).send("GET", PATH).code
        if code != REFUSED:
            mismatches.append(Mismatch(f"GET {PATH} with {what}", str(REFUSED), str(code)))
    admin = now["users"][0]["user"]
    try:
        code = _client(former.kubeconfig, admin).send("GET", PATH).code
    except Untrusted:
        return mismatches
    except VmatrixError as error:
        return [*mismatches, Mismatch("the API's certificate by the former CA", "not trusted", error.summary)]
    return [*mismatches, Mismatch("the API's certificate by the former CA", "not trusted", f"trusted, {code}")]


def _client(config: Mapping[str, Any], user: Mapping[str, Any]) -> Cluster:
    """Return a client of a kubeconfig's cluster with a user's credentials, of which no file is left behind."""
    named = [{"name": user_entry["name"], "user": user} for user_entry in config["users"]]
    with TemporaryDirectory(prefix="vmatrix-credentials-") as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(json.dumps({**config, "users": named}), encoding="utf-8")
        return Cluster.from_kubeconfig(path)
