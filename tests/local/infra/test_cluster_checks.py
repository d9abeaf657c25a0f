"""The checks of an infra cluster, against real API servers: a complete one, a bare one, one with few rights."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from harness import proc, wiring
from harness.artifacts.store import Store
from harness.infra.access import Where
from harness.infra.cluster_checks import Use, check_cluster
from harness.infra.findings import fatal
from harness.infra.kubeconfig import KubeconfigProvider
from harness.infra.local import control_plane, instance, processes
from harness.infra.local.provider import LocalProvider
from harness.infra.need import Need
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, SERVICE_ACCOUNT
from harness.until import Deadline
from tests.local.conftest import Instances

KUBECTL_SECONDS = 30.0


@pytest.fixture
def poor(infra: LocalProvider, cluster: Cluster, tmp_path: Path) -> Path:
    """Return the kubeconfig of a fresh service account without rights."""
    namespace, name = tmp_path.name.replace("_", "-")[:40].rstrip("-"), "runner"
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    meta = {"name": name, "namespace": namespace}
    cluster.create(SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = cluster.request("POST", SERVICE_ACCOUNT.path(namespace, name, "token"), body=request)
    config = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_the_embedded_infrastructure_lacks_nothing(infra: LocalProvider) -> None:
    assert check_cluster(infra.kubeconfig()) == []
    provider = KubeconfigProvider(infra.kubeconfig(), None, infra.mirror())
    provider.up()
    assert provider.describe()["kubernetes"] == f"v{wiring.INFRA_VERSION}"
    assert provider.capacity().memory_mib == pytest.approx(infra.capacity().memory_mib, rel=0.05)


def test_more_memory_than_there_is_is_said_before_anything_starts(infra: LocalProvider) -> None:
    (finding,) = check_cluster(infra.kubeconfig(), use=Use(need=Need(memory_mib=2**30)))
    assert f"{2**30} MiB" in finding.why


def test_the_remedies_of_missing_rights_give_them(infra: LocalProvider, poor: Path) -> None:
    kubectl = Store().obtain("kubectl", wiring.INFRA_VERSION).file("kubectl")
    before = [f for f in check_cluster(poor) if f.what.startswith("not allowed")]
    assert [f.what.split()[-1] for f in before if f.fatal] == [r.plural for r, _ in Where().asked() if r.required]
    for finding in before:
        for command in finding.remedy.split(" && "):
            program, *words = shlex.split(command)
            assert program == "kubectl"
            proc.run([kubectl, "--kubeconfig", infra.kubeconfig(), *words], timeout=KUBECTL_SECONDS)
    after = check_cluster(poor)
    assert not [f for f in after if f.what.startswith("not allowed")]


def test_a_cluster_without_kubevirt_says_so(instances: Instances) -> None:
    provider = instances("bare")
    layout = provider.layout
    found = instance.claim(layout)
    for folder in (layout.run, layout.logs):
        folder.mkdir(parents=True)
    control_plane.ensure_credentials(layout, found.index, "none")
    programs = control_plane.programs(layout, found.index, provider.config.binaries)
    processes.bring_up(layout, programs, deadline=Deadline.after(120))
    seen = " / ".join(f.what for f in fatal(check_cluster(layout.kubeconfig)))
    assert "does not serve kubevirt.io/v1" in seen
    assert "does not serve cdi.kubevirt.io/v1beta1" in seen
    assert "no node is ready" in seen
