"""deploy/reaper: its rights are enough to take expired cells away and for nothing else; its CronJob is taken."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from harness import proc
from harness.cell.place import cell_labels
from harness.infra.cluster import rights
from harness.kube.client import ApiFailure, Json
from harness.kube.resources import CONFIG_MAP, DATA_VOLUME, NAMESPACE, POD, SECRET, VM
from harness.proc import Completed
from harness.until import Deadline, NotYet, until
from tests.contract.test_guards import too_large
from tests.contract.volumes import datavolume
from tests.embedded.rights.audit import granted
from tests.embedded.rights.conftest import DEPLOY, Ground, Person

NAMESPACE_OF = "vmatrix-reaper"
HOLD = "vmatrix.dev/held-by-a-test"
REAP_SECONDS = 120.0


@pytest.fixture(scope="module")
def reaper(ground: Ground) -> Iterator[Person]:
    """Apply deploy/reaper; return its service account once the policy about it holds."""
    ground.kubectl("apply", "-k", DEPLOY / "reaper")
    account = ground.account(NAMESPACE_OF, "vmatrix-reaper")

    def holds() -> bool | NotYet:
        answer = account.cluster.send("DELETE", NAMESPACE.path(None, "vmatrix-images"), query={"dryRun": "All"})
        return (answer.code == 403 and "not in a cell's namespace" in str(answer.body)) or NotYet(str(answer.body))

    until(holds, deadline=Deadline.after(30), what="the reaper's policy holds", interval=0.3)
    yield account
    ground.kubectl("delete", "-k", DEPLOY / "reaper", "--wait=false")


def cell(ground: Ground, name: str, *, expires_in: float, objects: bool = False) -> str:
    """Make what a job that was killed leaves: a namespace, and in it a machine and a disk."""
    labels = cell_labels(run="gone11", cell=name, attempt=1, expires_at=time.time() + expires_in, environment={})
    namespace = f"vmatrix-{name}-gone11-1"
    meta = {"name": namespace, "labels": labels}
    ground.admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    if objects:
        ground.admin.create(VM, too_large(namespace, "cp-0"))
        ground.admin.create(DATA_VOLUME, datavolume(namespace, "cp-0", {"blank": {}}))
    return namespace


def reap(reaper: Person, *, scale: float) -> Completed:
    """Run the CronJob's command with the reaper's token."""
    (job,) = (o for o in _yaml(DEPLOY / "reaper" / "cronjob.yml") if o["kind"] == "CronJob")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][0] == "vmatrix"
    here: dict[str, Path] = {
        "vmatrix": Path(sys.executable).with_name("vmatrix"),
        "/etc/vmatrix/kubeconfig": reaper.kubeconfig,
    }
    command = [str(here.get(word, word)) for word in container["command"]]
    return proc.run(command, timeout=REAP_SECONDS, check=False, env={"VMATRIX_TIMEOUT_SCALE": str(scale)})


def _yaml(path: Path) -> list[Json]:
    return [o for o in yaml.safe_load_all(path.read_text(encoding="utf-8")) if o]


def test_it_takes_expired_cells_away_names_what_stays_and_uses_every_right(ground: Ground, reaper: Person) -> None:
    since = ground.log.size()
    young = cell(ground, "young", expires_in=3600.0)
    cell(ground, "old", expires_in=-1.0, objects=True)
    held = cell(ground, "held", expires_in=-1.0, objects=True)
    meta = {"name": "held", "namespace": held, "finalizers": [HOLD]}
    ground.admin.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})

    first = reap(reaper, scale=0.15)
    ground.admin.merge(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, held)
    second = reap(reaper, scale=1.0)

    assert first.returncode == 5, first
    assert "deleted: vmatrix-old-gone11-1" in first.stdout
    assert f"namespace {held} still exists" in first.stderr
    assert HOLD in first.stderr
    assert second.returncode == 0, second
    names = {n["metadata"]["name"] for n in ground.admin.list(NAMESPACE).items}
    assert young in names
    assert not names & {held, "vmatrix-old-gone11-1"}
    ground.admin.delete(NAMESPACE, young)
    seen = ground.log.of(reaper.user, since)
    inside = [f"vmatrix-{name}-gone11-1" for name in ("old", "held")]
    wanted = granted(rights.REAP, [""])
    used = {type(ask)(ask.verb, ask.group, ask.resource) for ask in seen.asked}
    assert used == wanted
    assert {ask.namespace for ask in seen.asked} <= {"", *inside}
    assert seen.forbidden == frozenset()


def test_it_can_do_nothing_else(ground: Ground, reaper: Person) -> None:
    work = "vmatrix-somebodys-work"
    ground.admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": work}})
    ground.admin.create(VM, too_large(work, "precious"))
    ground.admin.create(DATA_VOLUME, datavolume(work, "precious", {"blank": {}}))
    api = reaper.cluster
    tries: list[Callable[[], object]] = [
        lambda: api.delete(NAMESPACE, work),
        lambda: api.delete(NAMESPACE, "vmatrix-images"),
        lambda: api.delete(VM, "precious", work),
        lambda: api.delete(DATA_VOLUME, "precious", work),
        lambda: api.delete(POD, "any", work),
        lambda: api.list(SECRET, work),
        lambda: api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "more"}}),
        lambda: api.merge(NAMESPACE, work, {"metadata": {"labels": {"vmatrix.dev/cell": "c"}}}),
    ]
    for attempt in tries:
        with pytest.raises(ApiFailure) as refused:
            attempt()
        assert refused.value.code == 403
    assert ground.admin.get(VM, "precious", work) is not None
    ground.admin.delete(NAMESPACE, work)


def test_the_api_takes_its_pods_under_the_strictest_pod_security(ground: Ground, reaper: Person) -> None:
    ground.kubectl("create", "job", "now", "--from=cronjob/vmatrix-reaper", f"--namespace={NAMESPACE_OF}")

    def pod() -> Json | NotYet:
        found = ground.admin.list(POD, NAMESPACE_OF, labels="job-name=now").items
        return found[0] if found else NotYet("there is none")

    made = until(
        pod,
        deadline=Deadline.after(30),
        what="the reaper's pod is made",
        describe=lambda: "\n".join(ground.admin.events_of(NAMESPACE_OF, "now")),
    )
    (container,) = made["spec"]["containers"]
    assert container["image"] == "registry.example.com/platform/vmatrix:latest"
    assert made["spec"]["serviceAccountName"] == "vmatrix-reaper"
    ground.admin.delete(POD, made["metadata"]["name"], NAMESPACE_OF, grace=0)


def test_its_kubeconfig_leads_to_its_own_cluster_with_its_own_token(ground: Ground, reaper: Person) -> None:
    found = ground.admin.get(CONFIG_MAP, "vmatrix-reaper", NAMESPACE_OF)
    assert found is not None
    words = json.dumps(found["data"]["kubeconfig"])
    assert "https://kubernetes.default.svc" in words
    assert "/var/run/secrets/kubernetes.io/serviceaccount/token" in words
