"""API server: version, readiness, anonymous requests, and the proxy that nodes reach it by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from harness.kube import Cluster
from harness.urls import joined
from harness.validate.expected import ExpectedGuest, minor_of
from harness.validate.facts.node import HttpAnswer
from harness.validate.facts.programs import MachineSetup, RunningPrograms
from harness.validate.findings import Mismatch, differs, differs_upstream, on_every, same_set, unjudged


def wrong_version(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return a mismatch when the API server has another version than expected."""
    version = api.request("GET", "/version")["gitVersion"]
    return differs_upstream("/version", "gitVersion", f"v{expected.kubernetes}", version)


def failing_probes(api: Cluster) -> list[Mismatch]:
    """Return the checks of /readyz and /livez that fail."""
    mismatches: list[Mismatch] = []
    for path in ("/readyz", "/livez"):
        answer = api.send("GET", path, query={"verbose": "true"})
        lines = str(answer.body).splitlines()
        good = [line for line in lines if line.startswith("[+]")]
        mismatches += [Mismatch(path, "ok", line) for line in lines if line.startswith("[-]")]
        if answer.code != 200 or not good:
            mismatches.append(
                Mismatch(path, "200 and a list of checks", f"{answer.code} with {len(good)} passing checks")
            )
    return mismatches


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
    mismatches: list[Mismatch] = []
    for path in ("/api/v1/nodes", "/api/v1/secrets", "/api/v1/namespaces/kube-system/configmaps"):
        code = nobody.send("GET", path).code
        if code not in (401, 403):
            mismatches.append(Mismatch(f"GET {path} without credentials", "401 or 403", str(code)))
    return mismatches


OK = 200
REFUSED = (401, 403)
VERSION, READY = "/version", "/readyz?verbose"
HIDDEN = ("/api/v1/nodes", "/api/v1/secrets")


def wrong_api_servers(setups: Mapping[str, MachineSetup], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the control planes whose own API server is not ready, has another version or serves strangers."""
    if setups and not any(setup.api for setup in setups.values()) and expected.static("kube-apiserver") is None:
        why = "no process of that name runs, and product.yml does not say how it runs"
        return [unjudged("API servers", why, whole=True)]

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        where = f"{name} API server"
        if not setup.api:
            yield Mismatch(where, "a running API server", "none")
            return
        version = _version(setup.api[VERSION])
        yield from differs_upstream(where, "gitVersion", f"v{expected.kubernetes}", version)
        if expected.emulated_minor:
            emulated = emulated_by(setup.api[VERSION].body)
            yield from differs(where, "minor version that it emulates", expected.emulated_minor, emulated)
        ready = setup.api[READY]
        failing = [line for line in ready.body.splitlines() if line.startswith("[-]")]
        if ready.status != OK:
            yield Mismatch(f"{where} /readyz", "200", f"{ready.status}: {'; '.join(failing) or ready.body[:200]}")
        for path in HIDDEN:
            status = setup.api[path].status
            if status not in REFUSED:
                yield Mismatch(f"{where} GET {path} without credentials", "401 or 403", str(status))

    return on_every(expected.control_plane, setups, judge)


def emulated_by(version: str) -> str:
    """Return the minor version of which an API server serves the API, by its /version: "1.35"; its own before 1.31."""
    try:
        answer = json.loads(version)
        return (
            f"{answer['emulationMajor']}.{answer['emulationMinor']}"
            if "emulationMajor" in answer
            else minor_of(answer["gitVersion"])
        )
    except (ValueError, KeyError, TypeError):
        return version[:200]


def _version(answer: HttpAnswer) -> str:
    if answer.status != OK:
        return f"{answer.status}: {answer.body[:200]}"
    return str(json.loads(answer.body)["gitVersion"])


API_PORT = 6443
Setups = Mapping[str, MachineSetup]
Running = Mapping[str, RunningPrograms]


def wrong_backends(running: Running, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the proxy before the API has other control planes than the inventory."""
    local = expected.leaves.local_api
    if local.backends is None:
        return [unjudged("the proxy before the API", "product.yml names no file (local_api.backends)", whole=True)]
    machines = {joined(expected.addresses[name], API_PORT): name for name in expected.control_plane}

    def judge(name: str, programs: RunningPrograms) -> Iterator[Mismatch]:
        where = f"{name} {local.backends}"
        if programs.backends is None:
            yield Mismatch(where, "a proxy that runs", "none")
            return
        named = [f"{machines.get(address, '')} {address}".strip() for address in programs.backends.content.values()]
        yield from same_set(where, "control planes", [f"{name} {at}" for at, name in machines.items()], named)

    having = expected.nodes if local.group == "node" else expected.workers
    return on_every(having, running, judge) if having else []


def silent_api(setups: Setups, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes that get no answer of the API at the address that their kubelet uses."""

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        if setup.kubelets_api is None:
            yield Mismatch(name, "a running kubelet, which uses the API", "none")
            return
        server, answer = setup.kubelets_api
        if answer.status != OK:
            yield Mismatch(f"{name} {server}", "an answer of the API", f"{answer.status or 'none'}: {answer.body}")

    return on_every(expected.nodes, setups, judge)
