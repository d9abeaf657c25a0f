"""Phases that are edits of objects, on a real API server: applied, waited for, blamed, and nothing left behind."""

from __future__ import annotations

import base64
import stat
from typing import Any

import pytest
import yaml

from harness.cell.diagnose import collect
from harness.cell.place import Place
from harness.cell.teardown import describe
from harness.errors import BadInput, HarnessBug, InfraError, Leaked, ProductError, VmatrixError
from harness.kube.client import Json
from harness.kube.objects import ensure
from harness.kube.resources import CLUSTER_ROLE, CONFIG_MAP, CRD, DEPLOYMENT, NAMESPACE, POD, SECRET, STORAGE_CLASS
from harness.until import Deadline, NotYet, until
from tests.embedded.product.conftest import DEFINITION, GUEST, SECONDS, TEMPLATE, Declarations

KUBECONFIG = "apiVersion: v1\nkind: Config\n"
MANAGER = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
spec:
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: manager, image: "mirror:2/made-up:1"}]
"""


def condition(kind: str, status: str = "True", message: str = "") -> Json:
    moment = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": "Because", "message": message, "lastTransitionTime": moment}


def ready(guest: Json) -> Json:
    status = {"observedGeneration": guest["metadata"]["generation"], "conditions": [condition("Ready")]}
    return {**status, "version": guest["spec"]["version"], "doing": {"play": "All", "task": "work"}}


def admit(cell: Declarations) -> None:
    """Make the Secret that a controller would make."""
    data = {"value": base64.b64encode(KUBECONFIG.encode()).decode()}
    ensure(cell.cluster, SECRET, SECRET.manifest("it-admin", cell.namespace, labels={}, data=data))


def test_a_phase_is_over_when_the_object_is_done(made_up: Declarations) -> None:
    admit(made_up)
    made_up.control(ready)
    outcome = made_up.run()
    assert (outcome.what, outcome.touched) == ("Guest it", None)
    guest = made_up.cluster.get(GUEST, "it", made_up.namespace)
    assert guest is not None
    assert guest["spec"]["machines"] == [{"name": "cp-0", "at": "10.1.2.3"}]
    assert (guest["spec"]["version"], guest["spec"]["registry"]) == ("1.36.3", "mirror:2")
    secret = made_up.cluster.get(SECRET, "it-keys", made_up.namespace)
    assert secret is not None
    assert base64.b64decode(secret["data"]["key"]) == b"PRIVATE\nKEY\n"
    files = made_up.environment.files
    assert files.kubeconfig.read_text() == KUBECONFIG
    assert {stat.S_IMODE(file.stat().st_mode) for file in (files.kubeconfig, files.applied)} == {0o600}
    assert "All / work" in made_up.told
    assert "Secret it-keys, Guest it" in made_up.log.read_text()


def test_what_was_said_of_an_earlier_edit_does_not_end_a_phase(made_up: Declarations) -> None:
    admit(made_up)
    made_up.control(ready)
    made_up.run()
    made_up.stop()  # nobody looks at the next edit
    made_up.version = "1.36.4"
    with pytest.raises(ProductError, match="no controller has seen the last edit"):
        made_up.run(seconds=1.5)


def test_a_condition_that_must_be_gone_keeps_a_phase_going(made_up: Declarations) -> None:
    made_up.control(lambda g: {**ready(g), "conditions": [condition("Ready"), condition("Changing", message="x")]})
    with pytest.raises(ProductError, match="Guest it to be Ready"):
        made_up.run(seconds=1.5)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (
            {"blame": "product", "task": "install etcd", "host": "cp-0", "summary": "full", "hint": "buy"},
            ProductError,
        ),
        ({"blame": "infra", "task": "gather facts", "host": "cp-0", "summary": "lost", "hint": "look"}, InfraError),
        ({"blame": "harness", "summary": "wrong"}, HarnessBug),
        ({}, ProductError),
    ],
)
def test_a_failure_is_blamed_as_the_record_says(
    made_up: Declarations, record: dict[str, str], error: type[VmatrixError]
) -> None:
    def answer(guest: Json) -> Json:
        broken = condition("Broken", message="gave up")
        return {**ready(guest), "conditions": [broken], "failures": [{"blame": "infra"}, record]}

    made_up.control(answer)
    with pytest.raises(error) as caught:
        made_up.run()
    said = str(caught.value)
    assert type(caught.value) is error
    for word in (record.get("task"), record.get("host"), record.get("summary", "gave up")):
        assert (word or "") in said
    assert caught.value.hint == record.get("hint", "the phase's log has the details")
    assert made_up.log in caught.value.paths


def test_a_failure_of_an_earlier_edit_is_not_this_ones(made_up: Declarations) -> None:
    admit(made_up)
    broken: dict[str, Any] = {"observedGeneration": 0, "conditions": [condition("Broken")]}
    looks: list[int] = []

    def answer(guest: Json) -> Json:
        looks.append(1)
        return broken if len(looks) < 30 else ready(guest)

    made_up.control(answer)
    made_up.run()


def test_a_deleted_object_is_waited_for_until_its_finalizers_are_gone(made_up: Declarations) -> None:
    admit(made_up)
    held = {"metadata": {"finalizers": ["made-up.example/reset"]}}

    def answer(guest: Json) -> Json | None:
        if not guest["metadata"].get("deletionTimestamp"):
            return ready(guest)
        made_up.told.append("asked to reset")
        made_up.cluster.merge(GUEST, "it", {"metadata": {"finalizers": None}}, made_up.namespace)
        return None

    made_up.control(answer)
    made_up.run()
    made_up.cluster.merge(GUEST, "it", held, made_up.namespace)
    made_up.run("reset")
    assert "asked to reset" in made_up.told
    assert made_up.cluster.get(GUEST, "it", made_up.namespace) is None


def test_an_object_that_stays_is_said_with_what_holds_it(made_up: Declarations) -> None:
    admit(made_up)
    made_up.control(ready)
    made_up.run()
    held = {"metadata": {"finalizers": ["made-up.example/reset"]}}
    made_up.cluster.merge(GUEST, "it", held, made_up.namespace)
    with pytest.raises(ProductError, match=r"held by made-up\.example/reset"):
        made_up.run("reset", seconds=1.5)


def test_what_the_object_says_is_compared_with_what_was_wanted(made_up: Declarations) -> None:
    admit(made_up)
    made_up.control(lambda guest: {**ready(guest), "version": "1.35.0"})
    with pytest.raises(ProductError, match=r"version\} of Guest is '1\.35\.0', and cluster_kubernetes_version"):
        made_up.run()


@pytest.mark.parametrize(
    ("made_with", "said"),
    [
        ({"cluster_kubernetes_version": "1.36.3", "of_the_controller": 1}, ""),
        ({"cluster_kubernetes_version": "1.35.0"}, 'has "1.35.0" for cluster_kubernetes_version, which is "1.36.3"'),
        ({}, "has nothing for cluster_kubernetes_version"),
        (None, "has nothing for cluster_kubernetes_version"),
    ],
)
def test_the_variables_of_a_phase_are_those_that_the_cluster_was_made_with(
    made_up: Declarations, made_with: dict[str, Any] | None, said: str
) -> None:
    admit(made_up)
    made_up.say(variables={"path": "{.status.made}", "but": ["of_the_harness"]})
    made_up.variables = {"of_the_harness": "/a/file"}
    made_up.control(lambda guest: {**ready(guest), "made": made_with})
    if not said:
        made_up.run()
        return
    with pytest.raises(ProductError) as caught:
        made_up.run()
    assert said in str(caught.value)


@pytest.mark.parametrize("machines", [["cp-0"], ["cp-0", "w-9"], [], None])
def test_the_machines_of_the_cluster_are_those_that_the_phase_leaves(
    made_up: Declarations, machines: list[str] | None
) -> None:
    admit(made_up)
    made_up.say(machines={"path": "{.status.machines}"})
    made_up.control(lambda guest: {**ready(guest), "machines": machines})
    if machines == ["cp-0"]:
        made_up.run()
        return
    with pytest.raises(ProductError, match=r"and the machines of the cluster are cp-0"):
        made_up.run()


COPY = "{apiVersion: made-up.example/v1, kind: Guest, metadata: {name: copy}, spec: {version: none}}"


def copying(cell: Declarations, copied: Json) -> None:
    """Make a phase that waits for another object, which a controller gives a condition."""
    cell.write("copy.yml", COPY)
    until = {"kind": "Guest", "name": "copy", "condition": "Copied", "failed": "Lost", "observed": False}
    cell.product["phases"] = {**cell.product["phases"], "backup": {"apply": "copy.yml", "until": until}}
    seen: list[str] = []

    def answer(guest: Json) -> Json:
        name = guest["metadata"]["name"]
        seen.append(name)
        if name == "it":
            return {**ready(guest), "doing": {"task": "copy"} if "copy" in seen else {"task": "rest"}}
        return {"conditions": [copied]}

    cell.control(answer)


def test_a_phase_may_wait_for_another_object_first(made_up: Declarations) -> None:
    admit(made_up)
    copying(made_up, condition("Copied"))
    made_up.run()
    assert "copy" not in made_up.told
    made_up.run("backup")
    assert "copy" in made_up.told, "progress is that of the object that phases edit"
    found = made_up.cluster.get(GUEST, "copy", made_up.namespace)
    assert found is not None
    assert found["status"]["conditions"][0]["type"] == "Copied"


@pytest.mark.parametrize(
    ("copied", "said"),
    [
        (condition("Lost", message="no room"), "Guest copy is Lost: Lost: no room"),
        (condition("Copied", "False", "it goes on"), "Guest copy to be Copied"),
    ],
)
def test_another_object_that_fails_or_never_comes_ends_the_phase(
    made_up: Declarations, copied: Json, said: str
) -> None:
    admit(made_up)
    copying(made_up, copied)
    made_up.run()
    with pytest.raises(ProductError, match=said):
        made_up.run("backup", seconds=SECONDS if "Lost" in said else 1.5)


def test_what_is_edited_may_fail_while_another_object_is_waited_for(made_up: Declarations) -> None:
    admit(made_up)
    copying(made_up, condition("Copied", "False"))
    made_up.run()
    made_up.stop()
    broken = condition("Broken", message="gave up")
    made_up.control(lambda guest: {**ready(guest), "conditions": [broken]})
    with pytest.raises(ProductError, match="Guest it is Broken: Broken: gave up"):
        made_up.run("backup")


def test_templates_are_told_the_class_of_claims_that_pods_can_mount(made_up: Declarations) -> None:
    admit(made_up)
    made_up.control(ready)
    claim = '{apiVersion: v1, kind: ConfigMap, metadata: {name: said}, data: {class: "{{ pod_storage_class }}"}}'
    made_up.write("guest.yml.j2", f"{TEMPLATE}---\n{claim}\n")
    made_up.run()
    found = made_up.cluster.get(CONFIG_MAP, "said", made_up.namespace)
    classes = {one["provisioner"]: one["metadata"]["name"] for one in made_up.cluster.list(STORAGE_CLASS).items}
    assert found is not None
    assert found["data"]["class"] == classes.get("rancher.io/local-path", "")


def test_a_cluster_without_its_secret_is_the_products_fault(made_up: Declarations) -> None:
    made_up.control(ready)
    with pytest.raises(ProductError, match="there is no Secret it-admin"):
        made_up.run()


def test_a_template_with_an_unknown_name_is_bad_input(made_up: Declarations) -> None:
    made_up.write("guest.yml.j2", "{{ machine.name }}")
    with pytest.raises(BadInput, match=r"guest\.yml\.j2 cannot be rendered: 'machine' is undefined"):
        made_up.run()


def test_an_object_of_another_namespace_is_refused(made_up: Declarations) -> None:
    made_up.write("guest.yml.j2", "{apiVersion: v1, kind: Namespace, metadata: {name: more}}")
    with pytest.raises(BadInput, match="Namespace more is not in the cell's namespace"):
        made_up.run()
    assert made_up.cluster.get(NAMESPACE, "more") is None


def test_a_program_may_print_what_is_installed(made_up: Declarations) -> None:
    made_up.write("print.sh", 'printf "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: %s}\\n" "$1"\n')
    made_up.say(install={"cluster": ["guests.yml"], "namespace": [{"command": ["sh", "print.sh", "of-{{ cell }}"]}]})
    admit(made_up)
    made_up.control(ready)
    made_up.run()
    found = made_up.cluster.request("GET", f"/api/v1/namespaces/{made_up.namespace}/configmaps/of-made-up")
    assert found["metadata"]["name"] == "of-made-up"


def test_definitions_grow_and_never_shrink(made_up: Declarations) -> None:
    admit(made_up)
    made_up.control(ready)
    made_up.run()
    version = made_up.cluster.get(CRD, "guests.made-up.example")
    made_up.run()
    assert made_up.cluster.get(CRD, "guests.made-up.example") == version  # nothing is written twice
    more = "            more: {type: string}\n"
    made_up.write("guests.yml", DEFINITION + more)
    made_up.run()
    made_up.write("guests.yml", DEFINITION)  # an older revision finds the newer one's, and leaves it
    made_up.run()
    found = made_up.cluster.get(CRD, "guests.made-up.example")
    assert found is not None
    assert "more" in found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    made_up.write("guests.yml", DEFINITION + more.replace("more", "other"))
    with pytest.raises(BadInput, match=r"is of another revision: it has v1\.more, and lacks v1\.other"):
        made_up.run()
    made_up.write("guests.yml", DEFINITION + more + more.replace("more", "other"))
    made_up.run()


def manager_pod(cell: Declarations) -> str:
    """Return the manager's pod once the Deployment's controllers have made it."""

    def look() -> str | NotYet:
        found = cell.cluster.list(POD, cell.namespace).items
        return found[0]["metadata"]["name"] if found else NotYet("no pod")

    return until(look, deadline=Deadline.after(SECONDS), what="the manager's pod", interval=0.05)


def played(cell: Declarations, **state: Any) -> None:
    """Say of the manager's pod what a kubelet would."""
    entry = {
        "name": "manager",
        "image": "mirror:2/made-up:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        **state,
    }
    patch = {"status": {"containerStatuses": [entry]}}
    cell.cluster.merge(POD, manager_pod(cell), patch, cell.namespace, subresource="status")


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}},
            HarnessBug,
            "the image mirror:2/made-up:1 of pod manager-.* cannot be pulled: not found",
        ),
        (
            {
                "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 7, "message": "no right"}},
            },
            ProductError,
            r"container manager of pod manager-.* crashes \(exit code 7\)",
        ),
    ],
)
def test_controllers_that_do_not_run_are_blamed_on_who_can_help(
    made_up: Declarations, state: Json, error: type[Exception], message: str
) -> None:
    made_up.write("manager.yml", MANAGER)
    made_up.say(install={"cluster": ["guests.yml"], "namespace": ["manager.yml"]})
    made_up.impatient = True
    made_up.cluster.create(DEPLOYMENT, deployment(made_up))
    played(made_up, **state)
    with pytest.raises(error, match=message):
        made_up.run()


def deployment(cell: Declarations) -> Json:
    made: Json = yaml.safe_load(MANAGER)
    made["metadata"]["namespace"] = cell.namespace
    return made


def test_controllers_for_which_no_node_has_room_are_the_infras_fault(made_up: Declarations) -> None:
    made_up.write("manager.yml", MANAGER.replace("containers:", "nodeSelector: {no: where}\n      containers:"))
    made_up.say(install={"cluster": ["guests.yml"], "namespace": ["manager.yml"]})
    made_up.impatient = True
    with pytest.raises(InfraError, match="no node takes pod manager-"):
        made_up.run()


def test_a_cell_goes_although_its_controllers_went_with_it(made_up: Declarations) -> None:
    admit(made_up)
    made_up.control(ready)
    made_up.run()
    held = {"metadata": {"finalizers": ["made-up.example/reset"]}}
    made_up.cluster.merge(GUEST, "it", held, made_up.namespace)
    made_up.stop()
    assert "Guest it: finalizers made-up.example/reset" in describe(made_up.cluster, made_up.namespace, "")
    files, place = made_up.environment.files, Place(made_up.namespace)
    collect(made_up.cluster, place, files, None, seconds=SECONDS)
    kept = list(yaml.safe_load_all(files.objects.read_text()))
    assert [obj["status"]["version"] for obj in kept if obj["kind"] == "Guest"] == ["1.36.3"]
    made_up.reap(SECONDS)
    assert made_up.cluster.get(NAMESPACE, made_up.namespace) is None


def test_finalizers_of_kinds_that_no_product_declared_are_left_alone(made_up: Declarations) -> None:
    admit(made_up)
    made_up.control(ready)
    made_up.run()
    made_up.stop()
    held = {"metadata": {"finalizers": ["made-up.example/reset"]}}
    made_up.cluster.merge(GUEST, "it", held, made_up.namespace)
    foreign = {"metadata": {"annotations": {"vmatrix.dev/declared-kinds": None}}}
    made_up.cluster.merge(NAMESPACE, made_up.namespace, foreign)
    with pytest.raises(Leaked):
        made_up.reap(2.0)
    made_up.cluster.merge(GUEST, "it", {"metadata": {"finalizers": None}}, made_up.namespace)


def test_what_is_in_no_namespace_is_shared_or_goes_with_the_cell(made_up: Declarations) -> None:
    roles = "rules: [{apiGroups: [made-up.example], resources: [guests], verbs: [get]}]\n"
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\n" + roles
    made_up.write("roles.yml.j2", "---\n".join((role % "made-up-shared", role % "made-up-{{ namespace }}")))
    made_up.say(install={"cluster": ["guests.yml"], "namespace": ["roles.yml.j2"]})
    admit(made_up)
    made_up.control(ready)
    made_up.run()
    own = f"made-up-{made_up.namespace}"
    found = made_up.cluster.get(CLUSTER_ROLE, own)
    assert found is not None
    made_up.stop()
    made_up.reap(SECONDS)

    def gone() -> bool | NotYet:
        return made_up.cluster.get(CLUSTER_ROLE, own) is None or NotYet("it is there")

    until(gone, deadline=Deadline.after(SECONDS), what="the cell's role to go", interval=0.1)
    assert made_up.cluster.get(CLUSTER_ROLE, "made-up-shared") is not None
    made_up.cluster.delete(CLUSTER_ROLE, "made-up-shared")
