"""deploy/operator on a real API server: kubectl applies it, and a manager starts and stops under exactly its rights."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness import proc
from harness.kube.resources import LEASE, NAMESPACE, POD, Resource
from harness.operator import rights
from harness.operator.manager import LEASE_NAME
from harness.operator.manifests import Installation, text
from harness.operator.registry import NAMES, PARTS
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.played import WAIT_SECONDS, PlayedKubelet
from tests.embedded.operator.world import World
from tests.embedded.rights.audit import Ask, granted
from tests.embedded.rights.conftest import DEPLOY, Ground


def watched(ground: Ground, kinds: Mapping[str, Iterable[Resource]], since: int) -> None:
    """Wait until the log has the watches of users who have stopped: it has them once they ended."""

    def logged() -> bool | NotYet:
        for user, wanted in kinds.items():
            seen = {one.resource for one in ground.log.of(user, since).asked if one.verb == "watch"}
            if missing := {kind.plural for kind in wanted} - seen:
                return NotYet(f"no watch of {missing} by {user}")
        return True

    until(logged, deadline=Deadline.after(WAIT_SECONDS), what="the ends of all watches", interval=0.2)


def install(ground: Ground, **options: bool) -> str:
    """Apply what `vmatrix operator manifests` prints, as an administrator does; return the namespace."""
    namespace = f"operator-{secrets.token_hex(3)}"
    ground.admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    file = ground.folder / f"{namespace}.yml"
    installation = Installation(namespace, "registry.invalid/vmatrix:1", **options)
    bodies = [body for body in installation.objects() if body["kind"] != "Deployment"]  # nothing pulls that image
    file.write_text(text(bodies), encoding="utf-8")
    ground.kubectl("apply", "--server-side", "-f", file)
    for kind in ("clusterdeployments", "clusters", "machinesets", "machines"):
        ground.kubectl("wait", "--for=condition=Established", f"crd/{kind}.cluster.vmatrix.dev", "--timeout=60s")
    return namespace


def test_a_manager_uses_its_rights_besides_those_of_controllers_and_needs_no_other(
    ground: Ground, tmp_path: Path
) -> None:
    namespace = install(ground)
    pod = {"containers": [{"name": "manager", "image": "registry.invalid/vmatrix:1"}]}
    ground.admin.create(POD, POD.manifest("manager-1", namespace, labels={}, spec=pod))
    person = ground.account(namespace, "vmatrix-operator")
    since, log = ground.log.size(), tmp_path / "manager.log"
    words: list[str | Path] = [
        "operator",
        "run",
        "--kubeconfig",
        person.kubeconfig,
        "--namespace",
        namespace,
        "--health-port",
        "0",
    ]
    environment = {"POD_NAME": "manager-1", "POD_NAMESPACE": namespace}
    argv: list[str | Path] = [Path(sys.executable).with_name("vmatrix"), *words, "--lease-seconds", "3"]
    manager = proc.spawn(argv, log=log, env=environment)
    try:

        def renewed() -> bool | NotYet:
            asked = {(one.verb, one.resource) for one in ground.log.of(person.user, since).asked}
            if not manager.alive():
                raise AssertionError(log.read_text(encoding="utf-8"))
            works = "controllers work" in log.read_text(encoding="utf-8")
            return (works and ("update", "leases") in asked) or NotYet(log.read_text(encoding="utf-8")[-500:])

        World(ground.admin, namespace, PlayedKubelet(ground.admin, namespace)).wait(renewed, "a renewed Lease")
    finally:
        manager.stop(grace=60)
    watched(ground, {person.user: [kind for part in PARTS for kind in part.watches]}, since)
    seen = ground.log.of(person.user, since)
    followed = {Ask(verb, kind.group, kind.plural) for part in PARTS for kind in part.watches for verb in rights.WATCH}
    expected = granted((*rights.MANAGER, *rights.DEFINITIONS)) | followed
    asked = {Ask(one.verb, one.group, one.resource) for one in seen.asked}
    assert (sorted(asked - expected), sorted(expected - asked)) == ([], [])
    assert seen.forbidden == frozenset()
    lease = ground.admin.get(LEASE, LEASE_NAME, namespace)
    assert lease is not None
    assert not lease["spec"].get("holderIdentity"), "it was not given back"


def test_kubectl_applies_the_folder_and_the_api_takes_every_field(ground: Ground) -> None:
    ground.kubectl("apply", "--server-side", "-k", DEPLOY / "operator")
    names = ground.kubectl("get", "roles,serviceaccounts,deployments", "-n", "vmatrix-operator", "-o", "name").split()
    assert {f"role.rbac.authorization.k8s.io/vmatrix-operator-{name}" for name in NAMES} <= set(names)
    assert {"serviceaccount/vmatrix-operator", "deployment.apps/vmatrix-operator"} <= set(names)
    ground.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", DEPLOY / "operator" / "samples")
    ground.kubectl("delete", "-k", DEPLOY / "operator", "--wait=false")
