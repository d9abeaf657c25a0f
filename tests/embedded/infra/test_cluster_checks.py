"""The checks of an infra cluster, against real API servers: a complete one, a bare one, one with few rights."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from harness import proc
from harness.artifacts.store import Store
from harness.infra.cluster.access import CellPlacement, subject
from harness.infra.cluster.capacity import Need
from harness.infra.cluster.checks import Use, check_cluster
from harness.infra.findings import fatal
from harness.infra.host import control_plane, processes
from harness.infra.host.folder import claim
from harness.kube import Cluster
from harness.kube.client import Infra, Json
from harness.kube.in_cluster import in_cluster_kubeconfig
from harness.kube.resources import NAMESPACE, SERVICE_ACCOUNT
from harness.providers.embedded import EmbeddedProvider
from harness.providers.kubeconfig import KubeconfigProvider
from harness.providers.on_host import KUBERNETES
from harness.until import Deadline
from tests.embedded.conftest import Instances

KUBECTL_SECONDS = 30.0


@pytest.fixture
def poor(infra: EmbeddedProvider, cluster: Cluster, tmp_path: Path) -> Path:
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


def test_the_embedded_infrastructure_lacks_nothing(infra: EmbeddedProvider) -> None:
    assert check_cluster(Infra(infra.kubeconfig())) == []
    provider = KubeconfigProvider(Infra(infra.kubeconfig()), infra.mirror())
    provider.up()
    assert provider.describe()["kubernetes"] == f"v{KUBERNETES}"


def test_more_memory_than_there_is_is_said_before_anything_starts(infra: EmbeddedProvider) -> None:
    (finding,) = check_cluster(Infra(infra.kubeconfig()), use=Use(need=Need(memory_mib=2**30)))
    assert f"{2**30} MiB" in finding.why


def test_the_remedies_of_missing_rights_give_them(infra: EmbeddedProvider, poor: Path) -> None:
    kubectl = Store().obtain("kubectl", KUBERNETES).file("kubectl")
    before = [f for f in check_cluster(Infra(poor)) if f.what.startswith("not allowed")]
    assert [f.what.split()[-1] for f in before if f.fatal] == [
        r.plural for r, _ in CellPlacement().asked() if r.required
    ]
    for finding in before:
        for command in finding.remedy.split(" && "):
            program, *words = shlex.split(command)
            assert program == "kubectl"
            proc.run([kubectl, "--kubeconfig", infra.kubeconfig(), *words], timeout=KUBECTL_SECONDS)
    after = check_cluster(Infra(poor))
    assert not [f for f in after if f.what.startswith("not allowed")]


def _config(infra: EmbeddedProvider, path: Path, user: Json, context: str = "x") -> Path:
    """Write a kubeconfig with another user, and a first context that leads nowhere."""
    config = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    config["users"] = [{"name": "u", "user": user}]
    (cluster,) = config["clusters"]
    nowhere = {"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}}
    config["clusters"] = [cluster, nowhere]
    contexts = {"lost": "nowhere", context: cluster["name"]}
    config["contexts"] = [{"name": n, "context": {"cluster": c, "user": "u"}} for n, c in contexts.items()]
    config["current-context"] = "lost"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _token(cluster: Cluster, namespace: str) -> str:
    """Return a token of a fresh service account."""
    cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    meta = {"name": "runner", "namespace": namespace}
    cluster.create(SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = cluster.request("POST", SERVICE_ACCOUNT.path(namespace, "runner", "token"), body=request)
    return str(answer["status"]["token"])


def test_the_context_that_is_named_is_the_one_that_is_used(
    infra: EmbeddedProvider, cluster: Cluster, tmp_path: Path
) -> None:
    path = _config(infra, tmp_path / "kubeconfig", {"token": _token(cluster, "contexts")}, "home")
    assert subject(Cluster.from_kubeconfig(path, context="home")).user == "system:serviceaccount:contexts:runner"
    (finding,) = check_cluster(Infra(path))
    assert "https://127.0.0.1:1 does not answer" in finding.what
    (unknown,) = check_cluster(Infra(path, "moon"))
    assert "moon" in unknown.what


def test_an_exec_plugin_logs_in(infra: EmbeddedProvider, cluster: Cluster, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    credential: Json = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    credential["status"] = {"token": _token(cluster, "plugins")}
    plugin.write_text(
        f"#!/bin/sh\ntest -n \"$KUBERNETES_EXEC_INFO\" || exit 3\ncat <<'END'\n{json.dumps(credential)}\nEND\n"
    )
    plugin.chmod(0o755)
    asked = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    path = _config(infra, tmp_path / "kubeconfig", {"exec": asked})

    assert subject(Cluster.from_kubeconfig(path, context="x")).user == "system:serviceaccount:plugins:runner"
    plugin.write_text("#!/bin/sh\necho no ticket >&2\nexit 1\n")
    (finding,) = check_cluster(Infra(path, "x"))
    assert finding.fatal


def test_a_pod_uses_its_service_account_and_its_next_token(
    infra: EmbeddedProvider, cluster: Cluster, tmp_path: Path
) -> None:
    config = yaml.safe_load(infra.kubeconfig().read_text(encoding="utf-8"))
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    account = tmp_path / "serviceaccount"
    account.mkdir()
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
    (account / "ca.crt").write_bytes(authority)
    (account / "namespace").write_text("pods")
    (account / "token").write_text("an.older.one")
    environment = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}

    assert in_cluster_kubeconfig(tmp_path / "none", {}, account) is None
    path = in_cluster_kubeconfig(tmp_path / "state" / "kubeconfig", environment, account)
    assert path is not None
    (refused,) = check_cluster(Infra(path))
    assert "401" in refused.what
    (account / "token").write_text(_token(cluster, "pods"))
    assert subject(Cluster.from_kubeconfig(path)).user == "system:serviceaccount:pods:runner"
    assert "an older one" not in path.read_text(encoding="utf-8")


def test_a_cluster_without_kubevirt_says_so(instances: Instances) -> None:
    provider = instances("bare")
    layout = provider.layout
    found = claim(layout)
    for folder in (layout.run, layout.logs):
        folder.mkdir(parents=True)
    control_plane.ensure_credentials(layout, found.index)
    programs = control_plane.programs(layout, found.index, provider.host.config.binaries)
    processes.bring_up(layout, programs, deadline=Deadline.after(120))
    seen = " / ".join(f.what for f in fatal(check_cluster(Infra(layout.kubeconfig))))
    assert "does not serve kubevirt.io/v1" in seen
    assert "does not serve cdi.kubevirt.io/v1beta1" in seen
    assert "no node is ready" in seen
