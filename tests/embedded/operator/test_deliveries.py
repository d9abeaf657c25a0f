"""Deliveries on a real API server: what it refuses, who owns which field, what is put back; builds and pods are played.

The Deployment, ReplicaSet and garbage collection controllers are the real ones. What a git server says, and how builds
and the application's pods fare, a test says itself.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.artifacts.store import Store
from harness.embedded.node.pods import running, write_status
from harness.infra.cluster.rights import Right
from harness.kube.client import ApiFailure, Cluster
from harness.kube.objects import condition, deleting, dig, phase
from harness.kube.resources import CONFIG_MAP, DEPLOYMENT, JOB, NAMESPACE, POD, SECRET, SERVICE, Resource
from harness.operator.api.delivery import Delivery, GitSource, read_delivery
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, DELIVERY
from harness.operator.build.job import BuildReport
from harness.operator.controllers import builds, rollouts
from harness.proc import run
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager, fresh_namespace
from tests.embedded.operator.hooks import Served, serving
from tests.embedded.operator.people import permit, person
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS, PlayedKubelet
from tests.embedded.operator.world import OPTIONS
from tests.unit.operator.api.deliveries import BAD, GOOD, IMAGE, delivery
from tests.unit.operator.api.objects import deployment

Json = dict[str, Any]
T = TypeVar("T")
A, B, C, D, E = (letter * 40 for letter in "abcde")
APPLICATION = "delivery.vmatrix.dev/application=shop"
LONG, SHORT = 600, 5  # seconds that a rollout may take: more than a busy host needs, and as few as there may be
NOBODY = {"spec": {"schedulerName": "nobody"}}  # pods stay where they are: the test says how they fare


@dataclass
class Shop:
    """One Delivery, its git server, its builds and its pods. newest: revision of the repository."""

    api: Cluster
    namespace: str
    kubelet: PlayedKubelet
    newest: str = A
    looks: list[str] = field(default_factory=list)

    def revision_of(self, _: GitSource, __: Mapping[str, bytes], *, deadline: float) -> str:
        """Play `git ls-remote`."""
        self.looks.append(self.newest)
        return self.newest

    def wait(self, probe: Callable[[], T | NotYet], what: str) -> T:
        """Wait for what a probe returns."""
        return until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)

    def declare(self, **spec: Any) -> Json:
        """Create the Delivery."""
        deploy = {"template": NOBODY, "rolloutSeconds": LONG, **spec.pop("deploy", {})}
        return self.api.create(DELIVERY, stripped(delivery(namespace=self.namespace, deploy=deploy, **spec)))

    def get(self, kind: Resource, name: str = "shop") -> Json | None:
        """Return an object."""
        return self.api.get(kind, name, self.namespace)

    def push(self, revision: str) -> None:
        """Have the repository have a revision, and say so."""
        self.newest = revision
        told = {"delivery.vmatrix.dev/reconcile": revision}
        self.api.merge(DELIVERY, "shop", {"metadata": {"annotations": told}}, self.namespace)

    def build(self, revision: str, **report: str) -> None:
        """Have the build of a revision end, well unless `report` says otherwise."""
        job = self.kubelet.job(f"shop-{revision[:12]}")["metadata"]["name"]
        good = {"stage": "Pushed", "image": f"{IMAGE}@sha256:{revision[0] * 64}", "committed": "2026-01-01T00:00:00Z"}
        message = BuildReport("failed", revision, **report) if report else BuildReport("succeeded", revision, **good)  # type: ignore[arg-type]
        self.kubelet.end(job, exit_code=1 if report else 0, message=message.to_text())

    def patience(self, seconds: int) -> None:
        """Give rollouts so many seconds from now on."""
        self.api.merge(DELIVERY, "shop", {"spec": {"deploy": {"rolloutSeconds": seconds}}}, self.namespace)

    def pods(self) -> list[Json]:
        """Return the application's pods that live."""
        found = self.api.list(POD, self.namespace, labels=APPLICATION).items
        return [pod for pod in found if not deleting(pod)]

    def come_up(self, revision: str) -> None:
        """Have the pods of a revision run and be ready, once they are there."""

        def up() -> bool | NotYet:
            mine = [pod for pod in self.pods() if revision[0] * 64 in pod["spec"]["containers"][0]["image"]]
            for pod in (one for one in mine if phase(one) == "Pending"):
                write_status(self.api, pod, running(pod, addresses=["10.0.0.9"], host_address="10.0.0.1"))
            return bool(mine) or NotYet(f"there are {len(self.pods())} pods, none of it")

        self.wait(up, f"pods of {revision[:4]}")

    def said(self, kind: str, reason: str, words: str = "") -> Json:
        """Return a condition once it has a reason, and these words in its message."""

        def told() -> Json | NotYet:
            one = condition(self.get(DELIVERY), kind)
            as_wanted = one and one["reason"] == reason and words in one.get("message", "")
            return one if one and as_wanted else NotYet(f"it says {one}")

        return self.wait(told, f"{kind}: {reason}")

    def delivered(self, revision: str) -> Json:
        """Return the status once a revision is ready."""

        def ready() -> Json | NotYet:
            found = self.get(DELIVERY) or {}
            same = dig(found, "status", "revision") == revision
            one = condition(found, "Ready") or {}
            return found["status"] if same and one.get("status") == "True" else NotYet(f"it says {one}")

        return self.wait(ready, f"{revision[:4]} to be ready")

    def deliver(self, revision: str) -> Json:
        """Have a revision pushed, built and ready."""
        self.push(revision)
        self.build(revision)
        self.come_up(revision)
        return self.delivered(revision)

    def comes_back(self, kind: Resource, before: str, fits: Callable[[Json], bool] = lambda _: True) -> Json:
        """Return an object that is another than one with a uid (""), and as it has to be."""

        def there() -> Json | NotYet:
            found = self.get(kind)
            if found is None or deleting(found) or found["metadata"]["uid"] == before or not fits(found):
                return NotYet(f"it is {found}")
            return found

        return self.wait(there, f"{kind.kind} to be put back")


def stripped(body: Json) -> Json:
    """Return an object without what the API server gives it."""
    meta = {name: value for name, value in body["metadata"].items() if name not in ("uid", "generation")}
    return {**body, "metadata": meta}


@pytest.fixture
def shop(api: Cluster, namespace: str, kubelet: PlayedKubelet, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return a Delivery that is not there yet, in front of a played git server."""
    made = Shop(api, namespace, kubelet)
    monkeypatch.setattr(builds, "remote_revision", made.revision_of)
    monkeypatch.setattr(rollouts, "GUEST_SECONDS", 0.2)
    monkeypatch.setattr(rollouts, "SOON_SECONDS", 0.1)
    return made


@pytest.fixture
def works(shop: Shop, manager: StartManager) -> Shop:
    """Return the same while its controllers work."""
    manager("builds", "rollouts", options=OPTIONS)
    return shop


def create(api: Cluster, obj: Json, namespace: str) -> Json:
    body = stripped({**obj, "metadata": {**obj["metadata"], "namespace": namespace}})
    made: Json = api.request("POST", DELIVERY.path(namespace), body=body, query={"fieldValidation": "Strict"})
    return made


def test_mistakes_are_refused_at_their_fields_in_the_words_of_the_rules(api: Cluster, namespace: str) -> None:
    wrong = []
    for case, (obj, field_name, _) in BAD.items():
        (mistake,) = read_delivery(obj)[1]
        try:
            create(api, obj, namespace)
            wrong.append(f"{case}: it was taken")
        except ApiFailure as failure:
            fields = {cause["field"] for cause in failure.causes}
            if failure.code != 422 or field_name not in fields:
                wrong.append(f"{case}: {failure.code}: {sorted(fields)} instead of {field_name}")
            if "Invalid value" not in mistake.message and mistake.message not in failure.message:
                wrong.append(f"{case}: {failure.message}")
    assert not wrong, "\n".join(wrong)
    assert api.list(DELIVERY, namespace).items == []


def test_what_is_sound_is_taken_with_the_defaults_of_the_models(api: Cluster, namespace: str) -> None:
    for obj in GOOD.values():
        made = create(api, obj, namespace)
        filled = Delivery.model_validate(obj).spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert made["spec"] == filled
        api.delete(DELIVERY, "shop", namespace)


@pytest.mark.parametrize(
    ("part", "edit"),
    [("deploy", {"cluster": "other"}), ("deploy", {"namespace": "other"}), ("build", {"image": "a.b/c"})],
)
def test_what_cannot_change_stays(shop: Shop, part: str, edit: Json) -> None:
    shop.declare()
    shop.api.merge(DELIVERY, "shop", {"status": {"repository": IMAGE}}, shop.namespace, subresource="status")
    with pytest.raises(ApiFailure, match="cannot change"):
        shop.api.merge(DELIVERY, "shop", {"spec": {part: edit}}, shop.namespace)


def test_a_commit_becomes_a_running_application(works: Shop, infra: EmbeddedProvider) -> None:
    works.declare()
    works.said("Built", "Building")
    job = works.kubelet.job(f"shop-{A[:12]}")
    assert job["metadata"]["ownerReferences"][0]["kind"] == "Delivery"
    works.build(A)
    works.said("Deployed", "Deploying")
    works.come_up(A)
    status = works.delivered(A)
    assert status["image"] == f"{IMAGE}@sha256:{'a' * 64}"
    assert status["history"][0]["seconds"] >= 0
    program = Store().obtain("kubectl", dig(works.api.request("GET", "/version"), "gitVersion").removeprefix("v"))
    words = [str(program.file("kubectl")), "--kubeconfig", str(infra.kubeconfig()), "-n", works.namespace]
    head, row = run([*words, "get", "deliveries"], timeout=WAIT_SECONDS).stdout.splitlines()
    assert head.split() == ["NAME", "COMMIT", "READY", "DOING", "CLUSTER", "URL", "AGE"]
    url = f"http://shop.{works.namespace}.svc:80/"
    assert row.split()[:5] == ["shop", A[:12], "True", "Delivered", url], "of the cluster's own there is no name"


def test_of_five_revisions_the_last_runs_and_two_are_built(works: Shop) -> None:
    works.declare()
    works.kubelet.job(f"shop-{A[:12]}")
    for revision in (B, C, D, E):
        works.push(revision)
    works.wait(lambda: E in works.looks or NotYet("not seen yet"), "the last one to be seen")
    works.build(A)
    works.build(E)
    works.come_up(E)
    works.delivered(E)
    jobs = works.kubelet.jobs()
    assert jobs == [f"shop-{A[:12]}", f"shop-{E[:12]}"]


def test_a_bad_revision_never_takes_the_last_good_one_away(works: Shop) -> None:
    works.declare()
    works.deliver(A)
    good = {pod["metadata"]["uid"] for pod in works.pods()}
    works.patience(SHORT)
    works.push(B)
    works.build(B)
    works.said("Deployed", "RolledBack")
    works.said("Ready", "RolledBack")
    assert good <= {pod["metadata"]["uid"] for pod in works.pods()}, "they have never gone"
    found = works.get(DELIVERY) or {}
    assert [one["outcome"] for one in found["status"]["history"]] == ["RolledBack", "Ready"]
    works.comes_back(DEPLOYMENT, "", lambda one: "a" * 64 in str(dig(one, "spec", "template", "spec", "containers")))
    works.patience(LONG)
    works.deliver(C)


def test_a_build_that_fails_leaves_what_runs_and_names_the_line(works: Shop) -> None:
    works.declare()
    works.deliver(A)
    works.push(B)
    works.build(B, stage="Fetched", reason="DockerfileBroken", message="unknown instruction", line="3: FORM scratch")
    told = works.said("Ready", "DockerfileBroken")
    assert "3: FORM scratch" in told["message"]
    assert (works.get(DELIVERY) or {})["status"]["revision"] == A
    assert dig(works.get(DEPLOYMENT), "spec", "template", "spec", "containers")[0]["image"].endswith("a" * 64)


def test_what_is_deleted_or_changed_by_hand_is_put_back(works: Shop) -> None:
    works.declare(deploy={"replicas": 1})
    works.deliver(A)
    for kind in (SERVICE, DEPLOYMENT):
        before = (works.get(kind) or {})["metadata"]["uid"]
        works.api.delete(kind, "shop", works.namespace)
        works.comes_back(kind, before)
    works.api.merge(SERVICE, "shop", {"spec": {"selector": {"delivery.vmatrix.dev/application": "x"}}}, works.namespace)
    works.comes_back(SERVICE, "", lambda one: one["spec"]["selector"]["delivery.vmatrix.dev/application"] == "shop")
    edit = {"spec": {"progressDeadlineSeconds": 77}, "metadata": {"annotations": {"theirs": "stays"}}}
    works.api.merge(DEPLOYMENT, "shop", edit, works.namespace)
    found = works.comes_back(DEPLOYMENT, "", lambda one: one["spec"]["progressDeadlineSeconds"] == LONG)
    assert found["metadata"]["annotations"]["theirs"] == "stays", "what the Delivery does not say is other people's"


def scale(api: Cluster, namespace: str, replicas: int, manager: str) -> None:
    path = f"{DEPLOYMENT.path(namespace, 'shop')}/scale"
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}}
    body["metadata"] = {"name": "shop", "namespace": namespace}
    api.request("PUT", path, body=body, query={"fieldManager": manager})


def test_an_autoscaler_is_not_fought_over_and_a_person_is(works: Shop) -> None:
    works.declare(deploy={"replicas": 1})
    works.deliver(A)
    scale(works.api, works.namespace, 2, "kubectl")
    works.comes_back(DEPLOYMENT, "", lambda one: one["spec"]["replicas"] == 1)
    scale(works.api, works.namespace, 3, "kube-controller-manager")
    works.api.delete(SERVICE, "shop", works.namespace)
    works.comes_back(SERVICE, "")  # it was looked at meanwhile
    works.push(B)
    works.build(B)
    works.come_up(B)
    assert (works.get(DEPLOYMENT) or {})["spec"]["replicas"] == 3


def test_without_a_number_nobody_is_fought_over(works: Shop) -> None:
    works.declare()
    works.deliver(A)
    scale(works.api, works.namespace, 2, "kubectl")
    works.api.delete(SERVICE, "shop", works.namespace)
    works.comes_back(SERVICE, "")
    assert (works.get(DEPLOYMENT) or {})["spec"]["replicas"] == 2


def test_somebody_elses_deployment_of_the_name_is_left_alone(works: Shop) -> None:
    labels = {"app": "theirs"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "theirs:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    works.api.create(DEPLOYMENT, DEPLOYMENT.manifest("shop", works.namespace, labels={}, spec=spec))
    works.declare()
    works.build(A)
    works.said("Deployed", "NotApplied")
    found = works.get(DEPLOYMENT) or {}
    assert dig(found, "spec", "template", "spec", "containers")[0]["image"] == "theirs:1"


def test_everything_goes_with_its_delivery(works: Shop) -> None:
    works.declare()
    works.deliver(A)
    works.api.delete(DELIVERY, "shop", works.namespace)

    def gone() -> bool | NotYet:
        names = (CONFIG_MAP, f"delivery-{works.namespace}-shop"), (DEPLOYMENT, "shop"), (SERVICE, "shop")
        left = [kind.kind for kind, name in names if works.get(kind, name) is not None]
        return NotYet(f"left: {left}") if left or works.kubelet.jobs() else True

    works.wait(gone, "everything to be gone")


@pytest.fixture
def elsewhere(api: Cluster) -> Iterator[str]:
    with fresh_namespace(api, {}) as name:
        yield name


UP = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
DOWN = {**UP, "status": "False", "reason": "Progressing", "message": "upgrade runs"}
DOCKER = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson")


@dataclass
class InGuest:
    """A Delivery into a guest cluster, which this API server is as well; `space`: the application's namespace."""

    shop: Shop
    space: str
    kubeconfig: bytes

    def declare(self, **deploy: Any) -> None:
        """Create the Delivery, and the Secret that opens the guest."""
        self.opens_with(self.kubeconfig)
        self.shop.declare(deploy={"cluster": "guest", "namespace": self.space, "replicas": 0, **deploy})

    def opens_with(self, content: bytes) -> None:
        """Have the kubeconfig of the guest be another one."""
        data = {"value": base64.b64encode(content).decode()}
        body = SECRET.manifest("guest-kubeconfig", self.shop.namespace, labels={}, data=data)
        self.shop.api.apply(SECRET, body)

    def cluster(self, ready: Json) -> None:
        """Have a ClusterDeployment whose condition Ready says this."""
        self.shop.api.ensure(CLUSTER_DEPLOYMENT, deployment(name="guest", namespace=self.shop.namespace))
        status = {"status": {"conditions": [ready]}}
        self.shop.api.merge(CLUSTER_DEPLOYMENT, "guest", status, self.shop.namespace, subresource="status")

    def deliver(self) -> None:
        """Have the first revision built, and ready in a guest that is Ready."""
        self.shop.build(A)
        self.cluster(UP)
        self.shop.delivered(A)

    def there(self, kind: Resource, name: str = "shop") -> Json:
        """Return an object of the application once it is there."""
        found = lambda: self.shop.api.get(kind, name, self.space) or NotYet("it is not there")  # noqa: E731
        return self.shop.wait(found, f"{kind.kind} {name} in the guest")


@pytest.fixture
def inside(works: Shop, infra: EmbeddedProvider, elsewhere: str) -> InGuest:
    """Return a Delivery into a guest, which is not there yet, while its controllers work."""
    return InGuest(works, elsewhere, infra.kubeconfig().read_bytes())


def test_what_lies_in_a_guest_comes_and_goes(inside: InGuest) -> None:
    works = inside.shop
    inside.declare()
    works.build(A)
    works.said("Deployed", "ClusterMissing")
    inside.cluster(DOWN)
    works.said("Ready", "WaitingForCluster", "upgrade runs")
    inside.cluster(UP)
    works.delivered(A)
    assert works.api.get(DEPLOYMENT, "shop", inside.space)
    works.api.delete(SERVICE, "shop", inside.space)
    inside.there(SERVICE)
    works.api.delete(DELIVERY, "shop", works.namespace)
    works.wait(lambda: works.get(DELIVERY) is None or NotYet("it is there"), "the Delivery to be gone")
    assert works.api.get(DEPLOYMENT, "shop", inside.space) is None
    assert works.api.list(CONFIG_MAP, inside.space, labels="delivery.vmatrix.dev/delivery=shop").items == []


def test_a_pull_secret_is_copied_into_a_guest_kept_up_to_date_and_taken_away(inside: InGuest) -> None:
    works = inside.shop
    inside.declare(pullSecretRef={"name": "pull"})
    works.build(A)
    inside.cluster(UP)
    assert "there is no Secret pull" in works.said("Ready", "SecretMissing")["message"]
    kind, key = DOCKER

    def put(config: bytes) -> str:
        content = base64.b64encode(config).decode()
        body = SECRET.manifest("pull", works.namespace, labels={}, type=kind, data={key: content})
        works.api.apply(SECRET, body)
        return content

    first = put(b'{"auths": {}}')
    works.delivered(A)
    copy = inside.there(SECRET, "shop-pull")
    assert (copy["type"], copy["data"][key]) == (kind, first)
    pod = dig(inside.there(DEPLOYMENT), "spec", "template", "spec")
    assert pod["imagePullSecrets"] == [{"name": "shop-pull"}]
    second = put(b'{"auths": {"registry.example": {}}}')

    def renewed() -> bool | NotYet:
        return inside.there(SECRET, "shop-pull")["data"][key] == second or NotYet("it is the former one")

    works.wait(renewed, "the copy to be renewed")
    works.api.delete(DELIVERY, "shop", works.namespace)
    works.wait(lambda: works.get(DELIVERY) is None or NotYet("it is there"), "the Delivery to be gone")
    assert works.api.get(SECRET, "shop-pull", inside.space) is None
    assert works.api.get(SECRET, "pull", works.namespace), "it is somebody's own"


def test_a_namespace_that_a_guest_lacks_is_made(inside: InGuest) -> None:
    works, name = inside.shop, f"{inside.space}-new"
    inside.space = name
    try:
        inside.declare()
        inside.deliver()
        assert works.api.get(NAMESPACE, name)
    finally:
        works.api.delete(NAMESPACE, name)


def test_during_an_operation_what_runs_is_put_back_and_the_next_revision_waits(inside: InGuest) -> None:
    works = inside.shop
    inside.declare()
    inside.deliver()
    inside.cluster(DOWN)
    works.api.delete(SERVICE, "shop", inside.space)
    inside.there(SERVICE)
    works.push(B)
    works.build(B)
    works.said("Ready", "WaitingForCluster")
    assert (works.get(DELIVERY) or {})["status"]["revision"] == A
    assert "a" * 64 in str(inside.there(DEPLOYMENT)["spec"])
    inside.cluster(UP)
    works.delivered(B)


def test_a_guest_that_is_away_or_has_another_ca_changes_nothing_for_a_while(
    inside: InGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = inside.shop
    inside.declare()
    inside.deliver()
    server = next(line for line in inside.kubeconfig.decode().splitlines() if "server:" in line)
    nobody = inside.kubeconfig.decode().replace(server, f"{server.partition('server:')[0]}server: https://127.0.0.1:1")
    inside.opens_with(nobody.encode())
    told = works.said("Deployed", "Unreachable")
    assert told["status"] == "True"
    assert condition(works.get(DELIVERY), "Ready")["status"] == "True"  # type: ignore[index]
    inside.opens_with(inside.kubeconfig)
    works.said("Deployed", "Applied")
    monkeypatch.setattr(rollouts, "SILENT_SECONDS", 0.5)
    inside.opens_with(nobody.encode())

    def unknown() -> bool | NotYet:
        found = condition(works.get(DELIVERY), "Deployed") or {}
        return found.get("status") == "Unknown" or NotYet(str(found))

    works.wait(unknown, "nobody to know")
    works.said("Ready", "Unreachable")
    inside.opens_with(inside.kubeconfig)
    works.delivered(A)


def test_nothing_runs_in_a_guest_that_is_gone_and_the_same_in_the_next_of_its_name(inside: InGuest) -> None:
    works = inside.shop
    inside.declare()
    inside.deliver()
    works.api.delete(CLUSTER_DEPLOYMENT, "guest", works.namespace)
    works.said("Ready", "ClusterMissing")
    assert not {"revision", "image", "url"} & (works.get(DELIVERY) or {})["status"].keys()
    inside.cluster(UP)
    works.delivered(A)
    assert works.kubelet.jobs() == [f"shop-{A[:12]}"], "it was not built again"


@pytest.fixture
def hooks(api: Cluster, namespace: str) -> Iterator[Served]:
    """Return webhooks that are called."""
    with serving(api, namespace) as made:
        made.configure()
        yield made


def test_who_may_not_deploy_delivers_nothing_and_the_author_is_written_down(
    hooks: Served, shop: Shop, infra: EmbeddedProvider, tmp_path: Path
) -> None:
    made = shop.declare()
    assert made["metadata"]["annotations"]["delivery.vmatrix.dev/requested-by"].startswith("vmatrix-admin")
    alice = person(shop.api, shop.namespace, "alice", infra.kubeconfig(), tmp_path)
    writes = Right(DELIVERY, ("create", "get", "patch"), "deliveries")
    permit(shop.api, shop.namespace, "alice", writes)
    body = stripped(delivery("other", namespace=shop.namespace, source={"secretRef": {"name": "git"}}))

    def refused(words: str) -> Callable[[], bool | NotYet]:
        def asked() -> bool | NotYet:
            try:
                alice.create(DELIVERY, body, dry_run=True)
            except ApiFailure as failure:
                return words in failure.message or NotYet(failure.message)
            return words == "" or NotYet("it was taken")

        return asked

    hooks.wait(refused('deployments.apps is forbidden: User "system:serviceaccount:'), "a refusal")
    deploys = Right(DEPLOYMENT, ("create",), "applications")
    permit(shop.api, shop.namespace, "alice", writes, deploys)
    hooks.wait(refused('services is forbidden: User "system:serviceaccount:'), "a refusal because of the Service")
    exposes = Right(SERVICE, ("create",), "applications")
    permit(shop.api, shop.namespace, "alice", writes, deploys, exposes)
    hooks.wait(refused("spec.source.secretRef uses it"), "a refusal because of the Secret")
    permit(shop.api, shop.namespace, "alice", writes, deploys, exposes, Right(SECRET, ("get",), "keys", names=("git",)))
    hooks.wait(refused(""), "it to be taken")


def test_a_job_that_is_deleted_during_a_build_is_made_again(works: Shop) -> None:
    works.declare()
    name = f"shop-{A[:12]}"
    before = works.kubelet.job(name)["metadata"]["uid"]
    works.api.delete(JOB, name, works.namespace)

    def another() -> bool | NotYet:
        found = works.get(JOB, name)
        return (found is not None and found["metadata"]["uid"] != before) or NotYet("not yet")

    works.wait(another, "the Job to be made again")
    works.build(A)
    works.come_up(A)
    works.delivered(A)
