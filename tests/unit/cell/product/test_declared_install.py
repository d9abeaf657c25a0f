"""What the operator's templates make of every phase of its cells: a spec that says all that the phase wants."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.product import declared_install
from harness.cell.product.declared_install import TEMPLATE, apply_in_guest, given, objects
from harness.cell.product.declared_install import rendered as of_template
from harness.cell.product.protocol import OuterCluster, PhaseRun
from harness.cell.provision import told
from harness.cell.variables import named_machines
from harness.infra.deliveries import CLIENT, CLIENT_LABEL
from harness.kube.client import Cluster, Json
from harness.kube.resources import CLUSTER_ROLE, DEPLOYMENT, SERVICE_ACCOUNT
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import Cell, Environment, Machine, Mirror
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.delivery import read_delivery
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.rules import SETTINGS, VERSIONS, of_other_runtimes, read
from harness.operator.build.dockerfile import outline
from harness.operator.decide.variables import load_releases, variables_of, versions_of
from harness.paths import packaged_dir
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from harness.spec.variables import merged
from harness.until import Deadline, TimedOut
from harness.validate.facts.cluster import OF_CHECKS
from tests.unit.fake_cluster import FakeCluster
from tests.unit.shipped_timeouts import TIMEOUTS

SPEC = load_spec(packaged_dir() / "matrix")
PRODUCT = SPEC.products["operator"]
FOLDER = packaged_dir() / PRODUCT.directory
CELLS = {cell.id: cell for cell in tier_cells(SPEC, "operator-lifecycle", "embedded")}
EVERY = CELLS | {cell.id: cell for cell in tier_cells(SPEC, "operator-fields", "embedded")}
# What machines of an infra cluster may need of the playbooks: settings of which phases change others.
NEEDED = {"cluster_kubelet_config": {"failSwapOn": False}, "cluster_kube_proxy_config": {"conntrack": {"min": 0}}}


@dataclass(frozen=True)
class Classes:
    """An infra cluster that has storage classes, by their provisioners."""

    provisioners: Mapping[str, str] = field(default_factory=dict)

    def list(self, _resource: object) -> SimpleNamespace:
        """Return the classes."""
        items = [{"metadata": {"name": name}, "provisioner": made} for name, made in self.provisioners.items()]
        return SimpleNamespace(items=items)


def environment(cell: Cell, folder: Path) -> Environment:
    (folder / "key").write_text("PRIVATE\n", encoding="utf-8")
    machines = tuple(Machine(m, f"10.0.0.{number}", 22, "debian") for number, m in enumerate(cell.machines, start=1))
    return Environment("run111", cell, 1, "ns", machines, folder, folder / "key")


def runs(cell: Cell, folder: Path) -> Iterator[PhaseRun]:
    """Yield every phase of a cell as its life runs it."""
    whole = environment(cell, folder)
    for index, phase in enumerate(cell.phases):
        within = whole.only(phase.machines)
        variables = {
            **merged(phase.vars, NEEDED),
            "cluster_timeout_scale": 1.0,
            "cluster_mirror_url": "http://mirror:8080",
            "cluster_image_registry": "mirror:5000",
            **named_machines(phase),
            "cluster_kubeconfig_path": "/there/kubeconfig",
            "cluster_etcd_snapshot_path": "/there/snapshot.db",
            "cluster_hosts": [{"name": m.name, "address": m.address} for m in within.machines],
        }
        yield PhaseRun(phase, cell.stage(index), within, variables, 60.0, folder / "log", print)


TAKEN = "2026-11-23T03:00:12Z"  # what a phase reads


def rendered(run: PhaseRun, classes: Classes | None = None) -> list[Json]:
    outer = OuterCluster(
        cast("Cluster", classes or Classes()), Mirror("http://mirror:8080", "mirror:5000"), TIMEOUTS, {}
    )
    product = SPEC.product_of(run.environment.cell.values)
    phase = product.phases[run.phase.name]
    template, read = phase.apply, dict.fromkeys(phase.read, TAKEN)
    assert template is not None
    assert packaged_dir() / product.directory == FOLDER
    makes = product.declared is not None and product.declared.makes is not None
    return objects(template, {**given(run, outer, makes=makes), "read": read}, FOLDER, 60.0)


def of_kind(made: Sequence[Json], kind: str) -> list[Json]:
    return [obj for obj in made if obj["kind"] == kind]


def wish_of(made: Sequence[Json]) -> ClusterDeployment:
    (obj,) = of_kind(made, "ClusterDeployment")
    cd, mistakes = read(obj, load_releases().kubernetes, creating=False)
    assert cd is not None
    assert mistakes == []
    return cd


CHANGING = [
    (cell_id, index)
    for cell_id, cell in EVERY.items()
    for index, phase in enumerate(cell.phases)
    if not phase.restart and PRODUCT.phases[phase.name].apply == "cluster.yml.j2"
]


@pytest.mark.parametrize(("cell_id", "index"), CHANGING)
def test_a_phase_is_an_object_that_says_all_that_the_phase_wants(cell_id: str, index: int, tmp_path: Path) -> None:
    run = list(runs(EVERY[cell_id], tmp_path))[index]
    made = rendered(run)
    wish, phase = wish_of(made), run.phase
    left = [name for name in phase.machines if name not in (*phase.removed, *phase.lost)]
    assert sorted(name for one in wish.spec.machine_sets for name in one.machines.names or ()) == sorted(left)
    assert all(one.replicas == len(one.machines.names or ()) for one in wish.spec.machine_sets)
    there = [DeclaredMachine.model_validate(obj).metadata.name for obj in of_kind(made, "Machine")]
    given_ones = [name for name in phase.machines if name not in phase.lost]
    assert there == ([] if EVERY[cell_id].values["product"] == "operator-vm" else given_ones)
    assert wish.spec.deletion.machines == ("Reset" if phase.name == "reset" else "Leave")
    fields = {field.variable for field in (*SETTINGS, *VERSIONS)} - of_other_runtimes(wish.spec.runtime.name)
    assert not fields & wish.spec.variables.keys(), "what a field says is not said by variables, too"
    but = PRODUCT.declared.variables.but if PRODUCT.declared and PRODUCT.declared.variables else ()
    known = variables_of(wish, versions_of(wish, load_releases(), None))
    wanted = {name: value for name, value in run.variables.items() if name not in but}
    assert {name: known.get(name) for name in wanted} == wanted


def test_every_field_that_is_a_variable_is_handed_over_by_the_template() -> None:
    text = (FOLDER / "cluster.yml.j2").read_text(encoding="utf-8")
    names = {field.variable.removeprefix("cluster_") for field in (*SETTINGS, *VERSIONS)}
    of_runtimes = {name for name in names if name.startswith(("containerd_", "crio_")) and not name.endswith("_site")}
    assert [
        name for name in sorted(names - of_runtimes) if f'"{name}"' not in text and f".cluster_{name}" not in text
    ] == []
    assert of_runtimes == {
        *(
            f"{runtime}_{name}"
            for runtime in ("containerd", "crio")
            for name in ("version", "config", "systemd_cgroup")
        ),
        *("crio_within_limits", "containerd_restrict_oom_score_adj"),
    }, "the template has these by the runtime's name"


def test_settings_of_a_phase_are_fields_of_the_spec(tmp_path: Path) -> None:
    (cell,) = [cell for cell in CELLS.values() if cell.scenario == "reconfigure"]
    before, after = (wish_of(rendered(run)).spec for run in runs(cell, tmp_path))
    assert before.kubernetes.kubelet.config == NEEDED["cluster_kubelet_config"]
    assert after.kubernetes.kubelet.config == {"failSwapOn": False, "maxPods": 120}
    assert after.kubernetes.api_server.extra_args == {"max-requests-inflight": "350"}
    assert after.etcd.extra_args == {"snapshot-count": "9000"}
    assert after.runtime.config == {"max_concurrent_downloads": 4}
    assert after.kubernetes.coredns.cache_seconds == 20


@pytest.mark.parametrize(
    ("classes", "name"),
    [({"local": "vmatrix.dev/disks", "pods": "rancher.io/local-path"}, "pods"), ({"fast": "ceph"}, None)],
)
def test_a_backup_is_an_object_in_a_claim_that_pods_can_mount(
    classes: dict[str, str], name: str | None, tmp_path: Path
) -> None:
    cell = next(cell for cell in CELLS.values() if cell.scenario == "recover")
    phases = list(runs(cell, tmp_path))
    (backup,) = [rendered(run, Classes(classes)) for run in phases if run.phase.name == "backup"]
    (claim,) = of_kind(backup, "PersistentVolumeClaim")
    assert claim["spec"].get("storageClassName") == name
    (asked,) = of_kind(backup, "EtcdBackup")
    assert asked["spec"] == {"cluster": "guest", "destination": {"claim": claim["metadata"]["name"]}}
    until = PRODUCT.phases["backup"].until
    assert until is not None
    assert (until.kind, until.name) == (asked["kind"], asked["metadata"]["name"])


def test_an_upgrade_over_several_minors_is_one_edit_with_a_backup_before(tmp_path: Path) -> None:
    (cell,) = [cell for cell in CELLS.values() if cell.scenario == "upgrade-hops"]
    deployed, upgraded = (rendered(run) for run in runs(cell, tmp_path))
    before, after = wish_of(deployed).spec, wish_of(upgraded).spec
    assert load_releases().hops(before.version, after.version) == ("1.35.4", "1.36.3")
    assert after.etcd.backup.before_disruption
    (claim,) = of_kind(deployed, "PersistentVolumeClaim")
    assert after.etcd.backup.destination is not None
    assert after.etcd.backup.destination.claim == claim["metadata"]["name"]


def test_machines_that_the_operator_makes_are_as_the_cell_wants_them(tmp_path: Path) -> None:
    cell = next(cell for cell in CELLS.values() if cell.values["product"] == "operator-vm")
    makes = SPEC.products["operator-vm"].declared
    assert makes is not None
    assert makes.makes is not None
    image = GoldenImage("debian", "http://mirror/d.qcow2", f"sha256:{'a' * 64}", "12Gi", "debian")
    run = next(runs(cell, tmp_path))
    outer = OuterCluster(cast("Cluster", Classes()), Mirror("http://mirror:8080", "mirror:5000"), TIMEOUTS, {})
    values = {**given(run, outer, makes=True), "planned": [told(machine, image) for machine in cell.machines]}
    made = [
        DeclaredMachine.model_validate(o) for o in of_kind(objects(makes.makes.apply, values, FOLDER, 60.0), "Machine")
    ]
    assert [one.metadata.name for one in made] == [machine.name for machine in cell.machines]
    for one, planned in zip(made, cell.machines, strict=True):
        assert one.spec.kubevirt is not None
        assert (one.spec.user, one.spec.kubevirt.image.url) == ("debian", "http://mirror/d.qcow2")
        sizes = (one.spec.kubevirt.cpus, one.spec.kubevirt.memory_mib, one.spec.kubevirt.disk_gib)
        assert sizes == (planned.cpus, planned.memory_mib, planned.disk_gib)


def test_lost_machines_are_left_out_and_an_etcd_restore_names_the_backup(tmp_path: Path) -> None:
    cell = next(cell for cell in CELLS.values() if cell.scenario == "recover")
    *_, run = runs(cell, tmp_path)
    assert len(run.phase.lost) == 2
    made = rendered(run)
    (asked,) = of_kind(made, "EtcdRestore")
    assert asked["spec"] == {"cluster": "guest", "backup": "before", "confirm": TAKEN}
    until = PRODUCT.phases["recover"].until
    assert until is not None
    assert (until.kind, until.name) == (asked["kind"], asked["metadata"]["name"])
    kinds = [one["kind"] for one in made]
    assert kinds.index("ClusterDeployment") < kinds.index("EtcdRestore"), "the loss is declared first"
    assert of_kind(rendered(replace(run, phase=cell.phases[0])), "EtcdRestore") == [], "nobody asked for a restore"


def test_the_operators_tier_has_the_cells_of_the_playbooks_tier() -> None:
    def known(tier: str) -> set[tuple[tuple[str, Any], ...]]:
        cells = tier_cells(SPEC, tier, "embedded")
        return {tuple(sorted((a, v) for a, v in cell.values.items() if a != "product")) for cell in cells}

    assert known("lifecycle") <= known("operator-lifecycle")


@pytest.fixture(scope="module")
def deliver() -> Cell:
    return next(cell for cell in tier_cells(SPEC, "delivery", "embedded") if cell.scenario == "deliver")


@pytest.fixture(scope="module")
def into_guest() -> Cell:
    return next(cell for cell in tier_cells(SPEC, "delivery", "embedded") if cell.scenario == "deliver-guest")


def delivered(run: PhaseRun, outer: OuterCluster) -> tuple[list[Json], dict[str, str]]:
    """Return the objects of a phase that delivers, and the files that it commits."""
    phase = PRODUCT.phases[run.phase.name]
    assert phase.commit is not None
    assert phase.apply is not None
    values, folder = given(run, outer), FOLDER / phase.commit
    files = {
        path.name.removesuffix(TEMPLATE): of_template(f"{phase.commit}/{path.name}", values, FOLDER)
        for path in folder.iterdir()
    }
    read = dict.fromkeys(phase.read, "10.0.0.9")
    commit = {"revision": REVISION, "bundle": "QUJD"}
    return objects(phase.apply, {**values, "read": read, "commit": commit}, FOLDER, 60.0), files


REVISION = "0123456789" * 4
IMAGES = {"vmatrix": "mirror:5000/vmatrix:1", "e2e-test-images/busybox": "mirror:5000/e2e-test-images/busybox:1"}


def test_each_revision_of_a_cell_is_another_one_and_the_bad_one_listens_elsewhere(
    deliver: Cell, tmp_path: Path
) -> None:
    mirror = Mirror("http://mirror:8080", "mirror:5000")
    outer = OuterCluster(cast("Cluster", Classes()), mirror, TIMEOUTS, IMAGES, deliveries="registry:5001")
    answers, ports = set[str](), list[int]()
    for run in runs(deliver, tmp_path):
        if run.phase.delivery not in ("answers", "rolls-back"):
            continue
        made, files = delivered(run, outer)
        (body,) = of_kind(made, "Delivery")
        wish, mistakes = read_delivery(body)
        assert mistakes == []
        assert wish is not None
        assert (wish.spec.source.revision, wish.spec.build.args) == (REVISION, {"REVISION": REVISION})
        assert wish.spec.build.image == "registry:5001/ns/shop"
        outline(files["Dockerfile"].encode(), "Dockerfile", registries=["mirror:5000"], args={}, target=None)
        answers.add(files["answer"])
        (port,) = wish.spec.deploy.ports
        ports.append(port.of_container)
        listens = "8081" if run.phase.delivery == "rolls-back" else str(port.of_container)
        assert f'"{listens}"]' in files["Dockerfile"]
        until = PRODUCT.phases[run.phase.name].until
        assert until is not None
        assert (until.kind, until.name) == (body["kind"], body["metadata"]["name"])
        assert until.reason == ("RolledBack" if run.phase.delivery == "rolls-back" else None)
    assert len(answers) == len(ports) == 3


def test_the_cell_has_what_its_deliveries_need_and_no_other_cell_does(deliver: Cell, tmp_path: Path) -> None:
    run = next(runs(deliver, tmp_path))
    mirror = Mirror("http://mirror:8080", "mirror:5000")
    outer = OuterCluster(cast("Cluster", Classes()), mirror, TIMEOUTS, IMAGES)
    made = objects("cluster.yml.j2", {**given(run, outer), "read": {}}, FOLDER, 60.0)
    wish_of(made)
    apart = {obj["metadata"]["name"]: obj for obj in of_kind(made, "Deployment")}
    assert apart.keys() == {"shop-git", "shop-client"}
    labels = apart["shop-client"]["spec"]["template"]["metadata"]["labels"]
    assert CLIENT_LABEL in labels
    (container,) = apart["shop-client"]["spec"]["template"]["spec"]["containers"]
    assert container["name"] == CLIENT
    assert container["command"][-2:] + container["args"] == ["client", "ns", "shop", "5"]
    (role,) = of_kind(made, "Role")
    assert {name for rule in role["rules"] for name in rule["resourceNames"]} == {"shop", "shop-commits"}
    other = next(runs(next(iter(CELLS.values())), tmp_path))
    assert not of_kind(rendered(other), "Deployment")


def test_a_delivery_into_the_guest_has_a_secret_that_opens_the_registry_and_an_ingress(
    into_guest: Cell, tmp_path: Path
) -> None:
    mirror = Mirror("http://mirror:8080", "mirror:5000")
    outer = OuterCluster(cast("Cluster", Classes()), mirror, TIMEOUTS, IMAGES, deliveries="registry:5001")
    delivering = [run for run in runs(into_guest, tmp_path) if run.phase.delivery in ("answers", "rolls-back")]
    assert len(delivering) == 3
    for run in delivering:
        made, _ = delivered(run, outer)
        (body,), (secret,) = of_kind(made, "Delivery"), of_kind(made, "Secret")
        wish, mistakes = read_delivery(body)
        assert mistakes == []
        assert wish is not None
        assert (wish.spec.deploy.cluster, wish.spec.deploy.ingress is not None) == ("guest", True)
        assert wish.spec.deploy.pull_secret_ref is not None
        assert wish.spec.deploy.pull_secret_ref.name == secret["metadata"]["name"]
        auths = json.loads(secret["stringData"][".dockerconfigjson"])["auths"]
        assert auths["registry:5001"]["username"] == "guest"


def test_the_guest_has_the_client_and_the_infra_cluster_the_git_server(into_guest: Cell, tmp_path: Path) -> None:
    run = next(runs(into_guest, tmp_path))
    mirror = Mirror("http://mirror:8080", "mirror:5000")
    values = given(run, OuterCluster(cast("Cluster", Classes()), mirror, TIMEOUTS, IMAGES))
    beside = objects("cluster.yml.j2", {**values, "read": {}}, FOLDER, 60.0)
    assert [obj["metadata"]["name"] for obj in of_kind(beside, "Deployment")] == ["shop-git"]
    template = PRODUCT.phases["deliver"].guest
    assert template is not None
    inside = objects(template, values, FOLDER, 60.0)
    (client,) = of_kind(inside, "Deployment")
    assert CLIENT_LABEL in client["spec"]["template"]["metadata"]["labels"]
    (space,) = of_kind(inside, "Namespace")
    assert client["metadata"]["namespace"] == space["metadata"]["name"] != "ns", "the operator makes that"
    assert OF_CHECKS.match(space["metadata"]["name"]), "it is none of the guest's"
    pod = client["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"][-2:] == ["dns-client", "ns"]
    assert pod["automountServiceAccountToken"] is False


def test_what_lies_in_a_guest_is_applied_in_its_namespace_or_in_default() -> None:
    cluster = FakeCluster()
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    served = {"ClusterRole": CLUSTER_ROLE, "ServiceAccount": SERVICE_ACCOUNT}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(declared_install, "resource_of", lambda _, __, kind: served[kind])
        other = {**account, "metadata": {"name": "a", "namespace": "other"}}
        apply_in_guest(cluster, [role, account, other], Deadline.after(60.0))
    assert [one["metadata"]["namespace"] for one in cluster.all(SERVICE_ACCOUNT)] == ["default", "other"]
    assert "namespace" not in cluster.all(CLUSTER_ROLE)[0]["metadata"]


def test_what_runs_in_a_guest_is_waited_for() -> None:
    cluster = FakeCluster()
    status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    client = DEPLOYMENT.manifest("client", "other", labels={}, spec={"replicas": 1})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(declared_install, "resource_of", lambda *_: DEPLOYMENT)
        with pytest.raises(TimedOut, match="Deployment client in the guest to be available"):
            apply_in_guest(cluster, [client], Deadline.after(0.0))
        cluster.merge(DEPLOYMENT, "client", {"status": status}, "other")
        apply_in_guest(cluster, [client], Deadline.after(60.0))
