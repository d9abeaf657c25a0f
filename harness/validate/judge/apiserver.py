"""What must be true of a guest's API server."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from harness.kube import Cluster
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs_upstream


def wrong_version(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return a mismatch when the API server has another version than expected."""
    seen = api.request("GET", "/version")["gitVersion"]
    return differs_upstream("/version", "gitVersion", f"v{expected.kubernetes}", seen)


def failing_probes(api: Cluster) -> list[Mismatch]:
    """Return the checks of /readyz and /livez that fail."""
    found: list[Mismatch] = []
    for path in ("/readyz", "/livez"):
        answer = api.send("GET", path, query={"verbose": "true"})
        lines = str(answer.body).splitlines()
        good = [line for line in lines if line.startswith("[+]")]
        found += [Mismatch(path, "ok", line) for line in lines if line.startswith("[-]")]
        if answer.code != 200 or not good:
            found.append(Mismatch(path, "200 and a list of checks", f"{answer.code} with {len(good)} passing checks"))
    return found


def anonymous(kubeconfig: Path, target: Path) -> Cluster:
    """Return a client of the same API without credentials.

    Args:
        kubeconfig: the admin's; its credentials are left out.
        target: the file to write the anonymous kubeconfig to.
    """
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": user["name"], "user": {}} for user in config["users"]]
    target.write_text(json.dumps(config), encoding="utf-8")
    return Cluster.from_kubeconfig(target)


def admitted_strangers(nobody: Cluster) -> list[Mismatch]:
    """Return the requests that the API serves without credentials although it must refuse them."""
    found: list[Mismatch] = []
    for path in ("/api/v1/nodes", "/api/v1/secrets", "/api/v1/namespaces/kube-system/configmaps"):
        code = nobody.send("GET", path).code
        if code not in (401, 403):
            found.append(Mismatch(f"GET {path} without credentials", "401 or 403", str(code)))
    return found
