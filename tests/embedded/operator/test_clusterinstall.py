"""Operations begin: written down first, then made, once; whatever is lost, refused or edited on the way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest

from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure, Unreachable
from harness.kube.informer import labels_of
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, JOB, POD
from harness.operator.api.resources import CLUSTER, MACHINE
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.registry import stop
from harness.until import NotYet
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.recorded import Asked, RecordedCluster
from tests.embedded.operator.world import IMAGE, MINE, NAME, OPTIONS, World

DEPLOY = f"{NAME}-1-deploy"
JOBS = "/jobs"


def asked_by(context: OperatorContext) -> RecordedCluster:
    assert isinstance(context.cluster, RecordedCluster)
    return context.cluster


def looks_for(context: OperatorContext, job: str) -> int:
    asked = list(asked_by(context).asked)
    return sum(one.method == "GET" and one.path.endswith(f"{JOBS}/{job}") for one in asked)


def looks_for_pods(context: OperatorContext, job: str) -> int:
    wanted = f"batch.kubernetes.io/job-name={job}"
    return sum(asked.path.endswith("/pods") and asked.labels == wanted for asked in list(asked_by(context).asked))


def too_old() -> Exception:
    return ApiFailure(410, "Expired", "too old resource version", [], request="WATCH")


def cut_off() -> Exception:
    return Unreachable("the watch was cut")


def of_operation(world: World, job: str = DEPLOY) -> Json:
    """Return the operation.json of a Job's inputs."""
    inputs = world.get(CONFIG_MAP, job)
    assert inputs is not None
    found: Json = json.loads(inputs["data"]["operation.json"])
    return found


def test_deployment_begins_once_all_machines_are_claimed(world: World, operator: OperatorContext) -> None:
    made = world.declare(machines=0, replicas=3)
    world.give("m-0", made)
    world.give("m-1", made)
    world.wait(lambda: "1 missing" in world.condition("Progressing", "True")["message"] or NotYet("no"), "its message")
    assert world.kubelet.jobs() == []
    world.give("m-2", made)
    job = world.kubelet.job(DEPLOY)
    assert labels_of(job)["cluster.vmatrix.dev/operation"] == "deploy"
    assert dig(world.status(), "operation", "machines") == ["m-0", "m-1", "m-2"]
    assert of_operation(world)["entry"] == "cluster.yml"


def test_what_is_to_do_stands_in_the_status_while_it_waits(world: World, operator: OperatorContext) -> None:
    world.declare(machines=0)

    def planned() -> Json | NotYet:
        return (world.status().get("plan") or [None])[0] or NotYet("there is no plan")

    step = world.wait(planned, "a plan")
    assert (step["operation"], step["why"]) == ("deploy", "there is no cluster yet")
    assert world.kubelet.jobs() == []


def test_operation_is_written_down_before_its_job_is_made(world: World, operator: OperatorContext) -> None:
    world.declare()
    world.kubelet.job(DEPLOY)
    writes = [(asked.method, asked.path) for asked in asked_by(operator).writes()]
    made = next(i for i, (method, path) in enumerate(writes) if method == "POST" and path.endswith(JOBS))
    status = [i for i, (method, path) in enumerate(writes) if path.endswith(f"/clusters/{NAME}/status")]
    assert status
    assert status[0] < made
    assert dig(world.status(), "operation", "job") == DEPLOY
    assert world.status()["sequence"] == 1


def test_image_is_the_managers_unless_the_object_names_one(world: World, operator: OperatorContext) -> None:
    world.declare(playbooks={"image": "registry.invalid/own:2"})
    job = world.kubelet.job(DEPLOY)
    assert dig(job, "spec", "template", "spec", "containers")[0]["image"] == "registry.invalid/own:2"
    assert dig(world.status(), "operation", "image") == "registry.invalid/own:2"


def test_no_image_at_all_is_a_mistake(world: World, manager: StartManager) -> None:
    manager(*MINE)
    world.declare()
    said = world.condition("Accepted", "False")
    assert "spec.playbooks.image: no image of the executor is known" in said["message"]
    assert world.kubelet.jobs() == []


@pytest.mark.parametrize(
    ("access", "default", "through"),
    [("Auto", "Auto", "vmi-0"), ("Direct", "Auto", None), ("Auto", "Direct", None), ("PortForward", "Direct", "vmi-0")],
)
def test_machines_are_reached_as_the_object_says_else_as_the_manager_was_told(
    access: str, default: str, through: str | None, world: World, manager: StartManager
) -> None:
    manager(*MINE, options=OperatorOptions(executor_image=IMAGE, access=default))
    world.declare(paused=True, access=access)
    spec = {"spec": {"through": {"virtualMachineInstance": "vmi-0"}}}
    world.api.merge(MACHINE, "m-0", spec, world.namespace)
    world.edit(paused=False)
    world.kubelet.job(DEPLOY)
    assert of_operation(world)["through"] == ({"m-0": through} if through else {})


def test_an_answer_that_is_lost_makes_no_second_job(
    world: World, manager: StartManager, client: RecordedCluster
) -> None:
    lost: list[str] = []

    def lose(asked: Asked) -> None:
        if asked.method == "POST" and asked.path.endswith(JOBS) and not lost:
            lost.append(asked.path)
            raise Unreachable("the answer was lost")

    client.after = lose
    manager(*MINE, options=OPTIONS, client=client)
    world.declare()
    world.succeed(DEPLOY)
    assert [entry["attempt"] for entry in world.history(1)] == [1]
    assert lost
    assert world.kubelet.jobs() == [DEPLOY]


def test_objects_that_are_there_already_are_no_error(
    world: World, manager: StartManager, client: RecordedCluster
) -> None:
    died: list[str] = []

    def die(asked: Asked) -> None:
        if asked.method == "POST" and asked.path.endswith(JOBS) and len(died) < 3:
            died.append(asked.path)
            raise Unreachable("no Job this time")

    client.before = die
    manager(*MINE, options=OPTIONS, client=client)
    world.declare()
    world.succeed(DEPLOY)
    world.history(1)
    assert len(died) == 3


def test_two_managers_at_once_make_one_job(world: World, manager: StartManager) -> None:
    for _ in range(2):
        manager(*MINE, options=OPTIONS)
    world.declare()
    world.succeed(DEPLOY)
    (entry,) = world.history(1)
    assert (entry["sequence"], entry["attempt"], entry["outcome"]) == (1, 1, "succeeded")
    assert world.kubelet.jobs() == [DEPLOY]


def test_status_that_changed_since_it_was_read_is_read_again(
    world: World, manager: StartManager, client: RecordedCluster, api: Cluster
) -> None:
    overtaken: list[str] = []

    def overtake(asked: Asked) -> None:
        if asked.method == "PUT" and asked.path.endswith(f"/clusters/{NAME}/status") and not overtaken:
            overtaken.append(asked.path)
            api.merge(CLUSTER, NAME, {"metadata": {"labels": {"a": "b"}}}, world.namespace)

    client.before = overtake
    manager(*MINE, options=OPTIONS, client=client)
    world.declare()
    world.kubelet.job(DEPLOY)
    assert overtaken
    assert world.status()["sequence"] == 1
    assert labels_of(world.get(CLUSTER) or {})["a"] == "b"


@pytest.mark.parametrize("failure", [too_old, cut_off])
def test_watches_that_break_are_made_up_for(
    failure: Callable[[], Exception], world: World, manager: StartManager, client: RecordedCluster
) -> None:
    client.break_watches(failure)
    manager(*MINE, options=OPTIONS, client=client)
    world.declare()
    world.succeed(DEPLOY)
    world.history(1)
    assert client.broken > 0


@pytest.mark.parametrize("kind", ["clusters", "jobs", "pods"])
def test_manager_whose_copy_of_a_kind_is_old_does_nothing_twice(
    kind: str, world: World, manager: StartManager, client: RecordedCluster
) -> None:
    manager(*MINE, options=OPTIONS, client=client)
    world.declare(paused=True)
    world.condition("Progressing", "False", "Paused")
    world.condition("AuthorityValid", "True")  # the controller of CAs writes the status that is held back
    free = client.hold_watches(kind)
    world.edit(paused=False)
    uid = world.kubelet.job(DEPLOY)["metadata"]["uid"]
    job = world.succeed(DEPLOY)
    assert job["metadata"]["uid"] == uid
    world.wait(lambda: client.held or NotYet("nothing is"), f"news of {kind} to be held back")
    free.set()
    (entry,) = world.history(1)
    assert (entry["sequence"], entry["attempt"], entry["outcome"]) == (1, 1, "succeeded")
    assert (entry["started"], entry["ended"]) == (dig(job, "status", "startTime"), dig(job, "status", "completionTime"))
    assert world.kubelet.jobs() == [DEPLOY]


def test_machine_whose_loss_is_not_seen_yet_is_not_deployed(
    world: World, manager: StartManager, client: RecordedCluster
) -> None:
    manager(*MINE, options=OPTIONS, client=client)
    world.declare(paused=True)
    world.condition("Progressing", "False", "Paused")
    free = client.hold_watches("machines")
    world.api.merge(MACHINE, "m-0", {"spec": {"claim": None}}, world.namespace)
    world.edit(paused=False)

    world.condition("Progressing", "True", "WaitingForMachines")  # what the API said of it is known at once
    assert (world.status()["sequence"], world.status().get("operation")) == (1, None)
    free.set()
    assert world.kubelet.jobs() == []


def test_job_of_its_name_that_is_anothers_is_waited_for(world: World, operator: OperatorContext, api: Cluster) -> None:
    container = {"name": "executor", "image": IMAGE}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    api.create(JOB, JOB.manifest(DEPLOY, world.namespace, labels={}, spec={"template": template}))
    other = world.kubelet.job(DEPLOY)["metadata"]["uid"]
    world.declare()
    world.wait(lambda: looks_for(operator, DEPLOY) > 1 or NotYet("once at most"), "a second try to make the Job")
    assert world.kubelet.job(DEPLOY)["metadata"]["uid"] == other
    assert "history" not in world.status()
    api.delete(JOB, DEPLOY, world.namespace)

    def own() -> bool | NotYet:
        return world.kubelet.job(DEPLOY)["metadata"]["uid"] != other or NotYet("it is the other one")

    assert world.wait(own, "a Job of its own")
    world.succeed(DEPLOY)
    assert [entry["outcome"] for entry in world.history(1)] == ["succeeded"]


def test_paused_object_begins_nothing(world: World, operator: OperatorContext) -> None:
    world.declare(paused=True)
    world.condition("Progressing", "False", "Paused")
    assert world.kubelet.jobs() == []
    world.edit(paused=False)
    world.kubelet.job(DEPLOY)


def test_object_that_is_paused_meanwhile_lets_its_operation_end(world: World, operator: OperatorContext) -> None:
    world.declare()
    world.kubelet.job(DEPLOY)
    world.edit(paused=True)
    world.succeed(DEPLOY)
    assert world.history(1)[0]["outcome"] == "succeeded"


def hold_jobs(client: RecordedCluster) -> threading.Event:
    """Refuse Jobs until the event that is returned is set."""
    free = threading.Event()

    def refuse(asked: Asked) -> None:
        if asked.method == "POST" and asked.path.endswith(JOBS) and not free.is_set():
            raise Unreachable("not now")

    client.before = refuse
    return free


def test_edit_before_the_job_is_made_is_what_is_deployed(
    world: World, manager: StartManager, client: RecordedCluster
) -> None:
    free = hold_jobs(client)
    manager(*MINE, options=OPTIONS, client=client)
    world.declare()
    world.wait(lambda: world.status().get("operation") or NotYet("there is none"), "an operation")
    world.edit(etcd={"extraArgs": {"quota-backend-bytes": "1"}})

    def anew() -> bool | NotYet:
        return world.status().get("sequence") == 2 or NotYet(f"the status is {world.status()}")

    assert world.wait(anew, "the operation to be decided anew")
    free.set()
    second = f"{NAME}-2-deploy"
    world.kubelet.job(second)
    inputs = world.get(CONFIG_MAP, second) or {}
    assert "quota-backend-bytes" in inputs["data"]["extra-vars.yml"]
    assert world.get(CONFIG_MAP, DEPLOY) is None
    assert world.kubelet.jobs() == [second]


def test_machine_that_is_lost_before_the_job_is_made_is_not_deployed(
    world: World, manager: StartManager, client: RecordedCluster
) -> None:
    free = hold_jobs(client)
    manager(*MINE, options=OPTIONS, client=client)
    world.declare()
    world.wait(lambda: world.status().get("operation") or NotYet("there is none"), "an operation")
    world.api.merge(MACHINE, "m-0", {"spec": {"claim": None}}, world.namespace)
    world.wait(lambda: NotYet("it is there") if world.status().get("operation") else True, "no operation")
    free.set()
    world.condition("Progressing", "True", "WaitingForMachines")
    assert world.kubelet.jobs() == []


def test_job_waits_for_living_pods_of_one_of_its_name(world: World, operator: OperatorContext, api: Cluster) -> None:
    labels = {"batch.kubernetes.io/job-name": DEPLOY}
    container = {"name": "executor", "image": IMAGE}
    spec = {"containers": [container], "nodeName": "nowhere", "terminationGracePeriodSeconds": 0}
    api.create(POD, POD.manifest("left", world.namespace, labels=labels, spec=spec))
    world.declare()
    world.wait(lambda: looks_for_pods(operator, DEPLOY) > 1 or NotYet("once at most"), "a second look at its pods")
    assert world.kubelet.jobs() == []
    api.delete(POD, "left", world.namespace, grace=0)
    world.kubelet.job(DEPLOY)


def test_edit_while_an_operation_runs_counts_after_it(world: World, operator: OperatorContext) -> None:
    world.declare()
    world.kubelet.job(DEPLOY)
    world.edit(etcd={"extraArgs": {"quota-backend-bytes": "1"}})
    world.succeed(DEPLOY)
    world.history(1)
    second = f"{NAME}-2-reconfigure"
    world.kubelet.job(second)
    inputs = world.get(CONFIG_MAP, second) or {}
    assert "quota-backend-bytes" in inputs["data"]["extra-vars.yml"]
    world.succeed(second)
    (latest, _) = world.history(2)
    assert (latest["operation"], latest["why"]) == ("reconfigure", "spec.etcd.extraArgs changed")
    world.condition("Progressing", "False", "UpToDate")


def test_a_look_at_a_cluster_that_is_as_it_should_be_writes_nothing(
    world: World, operator: OperatorContext, manager: StartManager
) -> None:
    world.deployed()
    stop(operator)
    for _ in range(5):  # the next does what was left to do when its predecessor was stopped
        written = look(world, manager(*MINE, options=OPTIONS))
        if not written:
            break
    assert written == []


def look(world: World, context: OperatorContext) -> list[Asked]:
    """Let a manager look at everything, and stop it; return what it has written."""

    def looked() -> bool | NotYet:
        late = [one.name for one in context.controllers if not one.reconciles or len(one.queue)]
        return NotYet(f"{', '.join(late)} has not looked") if late else True

    world.wait(looked, "a look of every controller")
    assert stop(context)
    return asked_by(context).writes()
