"""What the operator would do for a file: alone, and compared with a cluster that an API has."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import BadInput
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.machine import DeclaredMachine
from harness.operator.decide.explain import (
    Against,
    ClusterOutlook,
    claimed,
    documents_of,
    explain,
    invented,
    judged,
    names_of,
)
from harness.operator.decide.observed import Observed
from tests.unit.operator.api import objects
from tests.unit.operator.api.mistakes import MADE
from tests.unit.operator.api.objects import defaulted, deployment, etcd_cluster, machine, wanted_set
from tests.unit.operator.decide.products import GOOD
from tests.unit.operator.decide.wishes import CP, MACHINES, NOW, UID, WORKERS, deployed, past, wish

Json = dict[str, Any]
Served = Callable[[Json], Path]
BASE = "/apis/cluster.vmatrix.dev/v1alpha1/namespaces/default"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Return what serves objects by their paths, and returns a kubeconfig of that API."""
    answers: Json = {}

    class Objects(BaseHTTPRequestHandler):
        """Answers with the objects that it has."""

        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            self.send_response(200 if found is not None else 404)
            self.end_headers()
            status = {"kind": "Status", "reason": "NotFound", "message": "there is none"}
            self.wfile.write(json.dumps(found if found is not None else status).encode())

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Objects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = tmp_path / "kubeconfig"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
        path.write_text(json.dumps(config), encoding="utf-8")

        def serve(objects: Json) -> Path:
            answers.update({**NO_BACKUPS, **objects} if objects else {})
            return path

        yield serve
        server.shutdown()


NO_BACKUPS: Json = {
    f"{BASE}/{kind.lower()}s": {"kind": f"{kind}List", "items": [], "metadata": {}}
    for kind in ("EtcdBackup", "EtcdRestore")
}


def written(folder: Path, *objects: Json) -> Path:
    """Write objects into one file."""
    file = folder / "guest.yml"
    file.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return file


def world(observed: Observed, **metadata: Any) -> Json:
    """Return the objects of a cluster, by their paths."""
    metadata = {"name": "guest", "namespace": "default", "uid": UID, **metadata}
    status = {
        "sequence": observed.sequence,
        "applied": observed.applied.model_dump(by_alias=True) if observed.applied is not None else None,
        "history": [one.model_dump(by_alias=True) for one in observed.history],
    }
    machines = [one.model_dump(by_alias=True, exclude_none=True) for one in MACHINES]
    return {
        f"{BASE}/clusterdeployments/guest": {"kind": "ClusterDeployment", "metadata": metadata},
        f"{BASE}/clusters/guest": {"kind": "Cluster", "metadata": metadata, "status": status},
        f"{BASE}/machines": {"kind": "MachineList", "items": machines, "metadata": {}},
    }


def only(found: list[ClusterOutlook]) -> ClusterOutlook:
    """Return the one outlook."""
    (one,) = found
    return one


def test_a_file_alone_is_deployed_on_machines_as_its_sets_ask(tmp_path: Path) -> None:
    one = only(explain(written(tmp_path, objects.deployment(CP, WORKERS)), "default", None, NOW))
    assert one.assumed
    assert one.json()["now"] == {"operation": "deploy", "attempt": 1}
    assert one.json()["plan"] == [
        {
            "operation": "deploy",
            "why": "there is no cluster yet",
            "disruptive": False,
            "machines": ("cp-0", "w-0", "w-1"),
        }
    ]


def test_machines_of_the_file_are_the_only_ones(tmp_path: Path) -> None:
    machines = [objects.machine(name, address=f"192.0.2.{n}") for n, name in enumerate(("a", "b"), 1)]
    for obj in machines:
        obj["metadata"]["labels"] = {"rack": "a"}
    one = only(explain(written(tmp_path, objects.deployment(CP, WORKERS), *machines), "default", None, NOW))
    assert not one.assumed
    assert one.json()["machines"] == [
        {"machine": "a", "host": "a", "address": "192.0.2.1", "set": "cp"},
        {"machine": "b", "host": "b", "address": "192.0.2.2", "set": "w"},
    ]
    assert one.json()["now"]["message"] == "set w has 1 of 2 machines: 1 missing"


def test_a_network_that_has_a_machines_address_is_not_accepted(tmp_path: Path) -> None:
    machine = objects.machine("a", address="10.243.0.9")
    machine["metadata"]["labels"] = {"rack": "a"}
    one = only(explain(written(tmp_path, objects.deployment(CP), machine), "default", None, NOW))
    assert one.json()["now"]["waits"] == "NotAccepted"
    assert "spec.network.pods" in one.json()["now"]["message"]


def test_each_cluster_of_a_file_is_explained(tmp_path: Path) -> None:
    file = written(tmp_path, objects.deployment(CP, name="a"), objects.deployment(CP, name="b", paused=True))
    assert [one.json()["now"].get("waits") for one in explain(file, "default", None, NOW)] == [None, "Paused"]


def test_a_file_is_compared_with_what_was_deployed(tmp_path: Path, served: Served) -> None:
    against = Against("guest", served(world(deployed(wish(version="1.36.1")))))
    before = objects.deployment(CP, WORKERS, version="1.36.1")
    same = only(explain(written(tmp_path, before), "default", against, NOW))
    assert (same.steps, same.json()["now"]) == ((), {})
    other = objects.deployment(CP, WORKERS)
    changed = only(explain(written(tmp_path, other), "default", against, NOW))
    assert [(step.operation, step.why) for step in changed.steps] == [("upgrade", "spec.version: 1.36.1 -> 1.36.3")]
    assert changed.json()["now"] == {"operation": "upgrade", "attempt": 1}


def test_an_edit_that_no_operation_carries_out_is_told(tmp_path: Path, served: Served) -> None:
    against = Against("guest", served(world(deployed(wish()))))
    older = written(tmp_path, objects.deployment(CP, WORKERS, version="1.36.1"))
    now = only(explain(older, "default", against, NOW)).json()["now"]
    assert now["waits"] == "NotAccepted"
    assert now["message"].startswith("spec.version: Kubernetes 1.36.1 is older than 1.36.3")


def test_a_failure_that_is_remembered_counts(tmp_path: Path, served: Served) -> None:
    failed = Observed(NOW, 1, history=(past(wish()),))
    file = written(tmp_path, objects.deployment(CP, WORKERS))
    against = Against("guest", served(world(failed)))
    assert only(explain(file, "default", against, NOW)).json()["now"]["waits"] == "Failed"
    served(world(failed, annotations={"cluster.vmatrix.dev/retry": "1"}))
    assert only(explain(file, "default", against, NOW)).json()["now"] == {"operation": "deploy", "attempt": 1}


def test_a_cluster_that_is_being_deleted_is_reset(tmp_path: Path, served: Served) -> None:
    objs = world(deployed(wish()), deletionTimestamp="2026-11-23T11:59:00Z")
    one = only(
        explain(written(tmp_path, objects.deployment(CP, WORKERS)), "default", Against("guest", served(objs)), NOW)
    )
    assert one.json()["now"] == {"operation": "reset", "attempt": 1}


def test_a_cluster_that_is_not_there_yet_would_claim_from_the_pool(tmp_path: Path, served: Served) -> None:
    idle = objects.machine("m-1", address="192.0.2.5")
    idle["metadata"]["labels"] = {"rack": "a"}
    idle["status"] = {"phase": "Idle"}
    config = served({f"{BASE}/machines": {"items": [idle], "metadata": {}}})
    one = only(explain(written(tmp_path, objects.deployment(CP)), "default", Against("guest", config), NOW))
    assert (one.desired.machines, one.json()["now"]) == (("m-1",), {"operation": "deploy", "attempt": 1})


def test_what_only_a_new_cluster_must_not_be_is_no_mistake_of_one_that_is_there(tmp_path: Path, served: Served) -> None:
    wished = objects.deployment(objects.wanted_set("cp", "control-plane", "worker", replicas=2))
    wished["metadata"]["annotations"] = {"cluster.vmatrix.dev/remove-sets": "w"}
    two = written(tmp_path, wished)
    there = only(explain(two, "default", Against("guest", served(world(deployed(wish())))), NOW))
    assert there.json()["now"]["operation"] == "remove-node"
    with pytest.raises(BadInput, match="two control planes would be two etcd members"):
        explain(two, "default", None, NOW)


def test_a_name_that_the_file_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown ClusterDeployment 'gast'; did you mean 'guest'"):
        explain(written(tmp_path, objects.deployment(CP)), "default", Against("gast"), NOW)


def test_a_cluster_without_the_operators_kinds_is_refused(tmp_path: Path, served: Served) -> None:
    with pytest.raises(BadInput, match="no kind Machine") as caught:
        explain(written(tmp_path, objects.deployment(CP)), "default", Against("guest", served({})), NOW)
    assert "vmatrix operator crds" in caught.value.hint


def test_without_a_kubeconfig_there_is_nothing_to_compare_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(BadInput, match="there is no kubeconfig"):
        explain(written(tmp_path, objects.deployment(CP)), "default", Against("guest"), NOW)


def test_the_product_file_comes_from_the_same_file_or_from_the_cluster(tmp_path: Path, served: Served) -> None:
    file, found = tmp_path / "guest.yml", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"product.yml": GOOD}}
    config_map = {**found, "metadata": {"name": "theirs"}}
    cd = objects.deployment(playbooks={"product": {"configMap": "theirs"}})
    file.write_text(yaml.safe_dump(cd))
    (alone,) = explain(file, "default", None, NOW)
    said = "spec.playbooks.product.configMap: ConfigMap theirs is not in"
    assert alone.json()["now"]["message"].startswith(said)
    empty = {f"{BASE}/machines": {"kind": "MachineList", "metadata": {}, "items": []}}
    kubeconfig = served({**empty, "/api/v1/namespaces/default/configmaps/theirs": config_map})
    (compared,) = explain(file, "default", Against("guest", kubeconfig), NOW)
    assert compared.json()["now"] == {"operation": "deploy", "attempt": 1}
    file.write_text(yaml.safe_dump_all([cd, config_map]))
    (together,) = explain(file, "default", None, NOW)
    assert together.json()["now"] == {"operation": "deploy", "attempt": 1}
    assert together.desired.product is not None


POOL_CP = wanted_set("cp", "control-plane", pool={"selector": {"matchLabels": {"rack": "a"}}})
ANY = wanted_set("w", "worker", replicas=2, pool={})


def pool_wish(*sets: Any) -> ClusterDeployment:
    """Return the wish for sets."""
    return defaulted(deployment(*sets))


def given(name: str, *, phase: str | None = None, made: str | None = None, **labels: str) -> DeclaredMachine:
    """Return a Machine that nobody has claimed."""
    obj = machine(name)
    obj["metadata"] |= {"labels": labels, "creationTimestamp": made}
    obj["status"] = {"phase": phase}
    return DeclaredMachine.model_validate(obj)


def sets_of(machines: tuple[DeclaredMachine, ...]) -> dict[str, str]:
    """Return the sets of the machines that are claimed, by name."""
    return {m.metadata.name: m.spec.claim.set_name for m in machines if m.spec.claim is not None}


def test_sets_take_machines_with_their_labels_in_order() -> None:
    found = claimed(pool_wish(POOL_CP, ANY), [given("m-1"), given("m-2", rack="a"), given("m-3"), given("m-4")])
    assert sets_of(found) == {"m-2": "cp", "m-1": "w", "m-3": "w"}
    assert [one.metadata.name for one in found] == ["m-1", "m-2", "m-3", "m-4"]


def test_sets_that_have_machines_made_get_what_they_lack() -> None:
    kubevirt = {"image": {"url": "http://m/x", "checksum": "sha256:" + "a" * 64}, "memory": "1Gi", "disk": "9Gi"}
    made = wanted_set("more", "worker", replicas=2, kubevirt=kubevirt)
    found = claimed(pool_wish(POOL_CP, made), [given("m-1", rack="a"), given("m-2", rack="a")])
    assert sorted(sets_of(found).values()) == ["cp", "more", "more"]
    assert len(found) == 4


def test_the_oldest_machines_are_taken_first() -> None:
    found = claimed(pool_wish(ANY), [given("a", made="3"), given("b", made="1"), given("c", made="2")])
    assert sets_of(found) == {"b": "w", "c": "w"}


def test_machines_that_are_not_idle_are_left_alone() -> None:
    states = ("Pending", "Unreachable", "Failed", "Idle")
    assert sets_of(claimed(pool_wish(ANY), [given(state.lower(), phase=state) for state in states])) == {"idle": "w"}


def test_a_machine_that_exists_and_was_not_looked_at_yet_is_left_alone() -> None:
    fresh = given("m-1").model_copy(update={"metadata": given("m-1").metadata.model_copy(update={"uid": "4f"})})
    assert sets_of(claimed(pool_wish(ANY), [fresh])) == {}


def test_machines_of_another_namespace_are_left_alone() -> None:
    other = given("m-1").model_copy(
        update={"metadata": given("m-1").metadata.model_copy(update={"namespace": "elsewhere"})}
    )
    assert sets_of(claimed(pool_wish(ANY), [other])) == {}


def test_a_set_with_names_takes_these() -> None:
    named = wanted_set("w", "worker", replicas=2, names=["m-3", "m-9"])
    assert sets_of(claimed(pool_wish(named), [given("m-1"), given("m-3")])) == {"m-3": "w"}


def test_machines_that_are_claimed_already_count() -> None:
    once = claimed(pool_wish(ANY), [given("m-1"), given("m-2"), given("m-3")])
    assert claimed(pool_wish(ANY), once) == once


def test_without_machines_each_set_has_what_it_asks_for() -> None:
    named = wanted_set("db", "etcd", names=["m-7"])
    assert sets_of(invented(pool_wish(POOL_CP, ANY, named))) == {"cp-0": "cp", "w-0": "w", "w-1": "w", "m-7": "db"}


CD = """\
apiVersion: cluster.vmatrix.dev/v1alpha1
kind: ClusterDeployment
metadata: {name: guest}
spec:
  version: "1.36.3"
  source: {mirror: "http://192.0.2.1:8080", registry: "192.0.2.1:5000"}
  machineSets:
    - {name: cp, roles: [control-plane, worker], machines: {pool: {}}}
"""
MACHINE = """\
apiVersion: cluster.vmatrix.dev/v1alpha1
kind: Machine
metadata: {name: m-0}
spec: {address: 192.0.2.10, user: root, keyRef: {name: keys}}
"""
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\n"


def _other(kind: str, spec: str) -> str:
    """Return an object of another kind of the operator's."""
    group = "delivery" if kind == "Delivery" else "cluster"
    return f"apiVersion: {group}.vmatrix.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n"


# Objects of other kinds behind a ClusterDeployment, with the line of the mistake in the file, and what is said.
WRONG_OTHERS = (
    (_other("EtcdBackup", "{}"), 13, "spec.cluster: missing"),
    (_other("EtcdBackup", "{cluster: guest, destinaton: {claim: c}}"), 13, "spec.destinaton: unknown key"),
    (_other("EtcdRestore", "{cluster: guest, backup: 7}"), 13, "spec.backup: expected a string, got 7"),
    (_other("ClusterUser", "{cluster: guest, user: 'system:admin'}"), 13, "spec.user: names that begin with system:"),
    (_other("ClusterNetworkPool", "{pods: x}"), 13, "spec.pods: expected a list"),
    (_other("Delivery", "{source: {git: 7}}"), 13, "spec."),
    (_other("Delivery", "{}").replace("delivery.", "cluster."), 10, "apiVersion: unknown version; expected delivery."),
    (_other("EtcdBackup", "{}").replace("v1alpha1", "v1"), 10, "apiVersion: unknown version; expected cluster."),
)


def refused(folder: Path, text: str) -> str:
    """Return how a file is refused, without its folder."""
    file = folder / "guest.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        judged(documents_of(file))
    return caught.value.summary.replace(f"{folder}/", "")


def test_a_file_may_hold_objects_of_other_groups(tmp_path: Path) -> None:
    file = tmp_path / "guest.yml"
    file.write_text("---\n".join(("", SECRET, CD, MACHINE, "# nothing\n")), encoding="utf-8")
    deployments, machines = judged(documents_of(file))
    assert [one.metadata.name for one in deployments] == ["guest"]
    assert [one.metadata.name for one in machines] == ["m-0"]


def test_objects_without_a_namespace_get_one(tmp_path: Path) -> None:
    file = tmp_path / "guest.yml"
    file.write_text(f"{CD}---\n{CD.replace('guest}', 'other, namespace: own}')}", encoding="utf-8")
    assert names_of(documents_of(file, "team")) == {"guest": "team", "other": "own"}
    deployments, _ = judged(documents_of(file, "team"))
    assert [one.metadata.namespace for one in deployments] == ["team", "own"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            CD.replace("1.36.3", "1.36.9"),
            "guest.yml:5: spec.version: Kubernetes 1.36.9 is not a release that is known: use ",
        ),
        (CD.replace("worker", "werker"), 'guest.yml:8: spec.machineSets[0].roles[1]: Unsupported value: "werker": '),
        (CD.replace("  version:", "  versoin:"), "guest.yml:5: spec.versoin: unknown field: remove it, or correct"),
        (CD.replace("mirror: ", "mirorr: "), "guest.yml:6: spec.source.mirorr: unknown field"),
        (SECRET + "---\n" + CD.replace("1.36.3", "1.36.9"), "guest.yml:9: spec.version: "),
        (CD + "---\n" + MACHINE.replace("user: ", "usr: "), "guest.yml:13: spec.usr: unknown key; did you mean user?"),
        (
            CD + "---\n" + MACHINE.replace("192.0.2.10", "host"),
            "guest.yml:13: spec.address: the address is not an IP address",
        ),
        (
            CD + "---\n" + MACHINE.replace("192.0.2.10", "192.0.2.10, ipv6Address: 192.0.2.11"),
            "guest.yml:13: spec.ipv6Address: the address is not an IPv6 address",
        ),
        *(  # which ipaddress reads, and the API server does not
            (
                CD + "---\n" + MACHINE.replace("192.0.2.10", address),
                f"guest.yml:13: spec.{field}: the address is not an ",
            )
            for field, address in (
                ("address", '"::ffff:192.0.2.10"'),
                ("address", '"fe80::1%eth0"'),
                ("ipv6Address", '192.0.2.10, ipv6Address: "::ffff:192.0.2.11"'),
                ("ipv6Address", '192.0.2.10, ipv6Address: "fe80::1%eth0"'),
            )
        ),
        (
            CD + "---\n" + MACHINE.replace("address: 192.0.2.10, ", ""),
            "a machine is either given or made: set address for a machine that exists",
        ),
        (
            CD
            + "---\n"
            + MACHINE.replace("address: 192.0.2.10", f"ipv6Address: 'fd00:1::5', kubevirt: {json.dumps(MADE)}"),
            "guest.yml:13: spec.ipv6Address: the addresses of a machine that is made are those of its launcher pod",
        ),
        (
            CD.replace("v1alpha1", "v2"),
            "guest.yml:1: apiVersion: unknown version; expected cluster.vmatrix.dev/v1alpha1",
        ),
        (CD.replace("Deployment", "Deploiment"), "guest.yml:2: kind: unknown kind 'ClusterDeploiment'; did you mean"),
        ("kind: ClusterDeployment\n", "guest.yml:1: no apiVersion; expected cluster.vmatrix.dev/v1alpha1"),
        ("- 1\n", "guest.yml:1: expected an object with apiVersion and kind"),
        (CD.replace("metadata: {name: guest}\n", ""), "guest.yml:1: metadata: expected a mapping with the key name"),
        (
            CD.replace("metadata: {name: guest}\n", "metadata: {}\n"),
            "guest.yml:3: metadata.name: Required value: set it",
        ),
        (CD + "---\na: b: c\n", "guest.yml:10: malformed YAML: a colon where no key can stand"),
        (CD + "  version: x\n", "guest.yml:9: spec.version: duplicate key; the first is on line 5"),
        *((f"{CD}---\n{other}", f"guest.yml:{line}: {said}") for other, line, said in WRONG_OTHERS),
        *((other, f"guest.yml:{line - 9}: {said}") for other, line, said in WRONG_OTHERS),
        (_other("EtcdBackup", "{cluster: guest}"), "guest.yml has no ClusterDeployment"),
        (_other("MachineSet", "{}"), "guest.yml has no ClusterDeployment"),
        (SECRET, "guest.yml has no ClusterDeployment"),
        ("", "guest.yml has no ClusterDeployment"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_its_field(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path, CD.replace("1.36.3", "1.36.9") + "---\n" + MACHINE.replace("root", "Root"))
    assert said.startswith("2 errors in guest.yml")
    assert "guest.yml:5: spec.version" in said
    assert "guest.yml:13: spec.user" in said


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        documents_of(tmp_path / "none.yml")


def test_some_rules_hold_only_for_a_cluster_that_is_new(tmp_path: Path) -> None:
    two = CD.replace("name: cp,", "name: cp, replicas: 2,")
    assert "two control planes would be two etcd members" in refused(tmp_path, two)
    assert judged(documents_of(tmp_path / "guest.yml"), creating=False)[0]


def _listed(kind: str, *objects: str) -> str:
    """Return objects as `kubectl get -o yaml` prints several."""
    items = "".join("- " + text.rstrip("\n").replace("\n", "\n  ") + "\n" for text in objects)
    return f"apiVersion: v1\nitems:\n{items}kind: {kind}\nmetadata: {{resourceVersion: ''}}\n"


@pytest.mark.parametrize(
    "text",
    [
        _listed("List", CD, MACHINE),
        _listed("List", SECRET, CD, SECRET, MACHINE),
        f"{_listed('ClusterDeploymentList', CD)}---\n{_listed('MachineList', MACHINE)}",
        f"{SECRET}---\n{_listed('List', CD)}---\n{SECRET}---\n{MACHINE}",
        _listed("List", _listed("List", CD), MACHINE),
        f"{_listed('List')}---\n{CD}---\n{MACHINE}",
        _listed("List", CD, MACHINE, _other("EtcdBackup", "{cluster: guest}"), _other("MachineSet", "{}")),
        _listed("List", _other("Cluster", "{}"), _other("EtcdPeer", "{}"), CD, MACHINE),
    ],
)
def test_objects_in_lists_are_those_of_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "guest.yml"
    file.write_text(text, encoding="utf-8")
    deployments, machines = judged(documents_of(file))
    assert [one.metadata.name for one in deployments] == ["guest"]
    assert [one.metadata.name for one in machines] == ["m-0"]


def test_a_mistake_in_a_list_has_its_line(tmp_path: Path) -> None:
    said = refused(tmp_path, _listed("List", SECRET, CD.replace('"1.36.3"', '"1.36"')))
    assert "guest.yml:10: spec.version: " in said


def test_an_etcd_cluster_is_explained_and_its_mistakes_have_lines(tmp_path: Path) -> None:
    file = tmp_path / "store.yml"
    file.write_text(yaml.safe_dump(etcd_cluster("store", replicas=3)), encoding="utf-8")
    (found,) = explain(file, "default", None, NOW)
    said = found.json()
    assert (said["version"], said["groups"]) == ("3.6.6", {f"member-{number}": ["etcd"] for number in range(3)})
    assert [one.operation for one in found.steps] == ["deploy-etcd"]
    file.write_text(yaml.safe_dump(etcd_cluster("store", replicas=2), sort_keys=False), encoding="utf-8")
    with pytest.raises(BadInput, match=r"store.yml:\d+: spec.replicas: an even number") as refused:
        explain(file, "default", None, NOW)
    assert refused.value.summary.startswith("1 error")


SHARES = objects.deployment(CP, WORKERS, etcd={"clusterRef": {"name": "store"}})


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ((), "there is no EtcdCluster store in namespace default: create it"),
        ((etcd_cluster("store"),), "EtcdCluster store is not deployed yet"),
    ],
    ids=["alone", "with its EtcdCluster"],
)
def test_a_cluster_that_shares_an_etcd_waits_for_it(tmp_path: Path, beside: tuple[Json, ...], said: str) -> None:
    found = explain(written(tmp_path, SHARES, *beside), "default", None, NOW)
    (one,) = (each for each in found if each.desired.wish.metadata.name == "guest")
    assert one.json()["now"] == {"waits": "WaitingForEtcd", "message": said, "again_seconds": None}
    assert not any("etcd" in groups for groups in one.json()["groups"].values())


def test_a_cluster_is_compared_with_the_etcd_that_is_there(tmp_path: Path, served: Served) -> None:
    other = objects.deployment(name="other", etcd={"clusterRef": {"name": "store"}})
    state = {"cluster": "store", "uid": "s", "user": "other.1", "prefix": "/guest-7d3a"}
    lists = {
        "clusterdeployments": [other],
        "etcdclusters": [{**etcd_cluster("store"), "metadata": {"name": "store", "namespace": "default", "uid": "s"}}],
        "clusters": [{"metadata": {"name": "other", "namespace": "default"}, "status": {"etcdClient": state}}],
    }
    there = {f"{BASE}/{name}": {"kind": "List", "items": items, "metadata": {}} for name, items in lists.items()}
    guest = world(Observed(NOW))
    guest[f"{BASE}/clusters/guest"]["status"]["authority"] = {"usable": True, "reason": "Valid"}
    kubeconfig = served({**guest, **there})
    one = only(explain(written(tmp_path, SHARES), "default", Against("guest", kubeconfig), NOW))
    now = one.json()["now"]
    assert now["waits"] == "WaitingForEtcd"
    assert "the prefix /guest-7d3a overlaps /guest-7d3a, which cluster other has in EtcdCluster store" in now["message"]
