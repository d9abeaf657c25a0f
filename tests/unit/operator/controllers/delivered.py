"""Controllers of Deliveries over an API in memory, with git servers, Jobs, Deployments and pods that a test plays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import pytest

from harness.errors import VmatrixError
from harness.kube import resources
from harness.kube.api import RequestOptions
from harness.kube.objects import condition, dig, owner_reference
from harness.kube.resources import DEPLOYMENT, JOB, POD, Resource
from harness.operator.api.delivery import GitSource
from harness.operator.api.resources import DELIVERY, DELIVERY_LABEL
from harness.operator.build.job import BuildReport
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers import builds, rollouts
from harness.operator.controllers.builds import Builds
from harness.operator.controllers.rollouts import Rollouts
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.deliveries import IMAGE, delivery

Json = dict[str, Any]
KEY = ("team", "shop")
A, B, C = (letter * 40 for letter in "abc")
KINDS = [one for one in vars(resources).values() if isinstance(one, Resource)]


class DeliveryApi(FakeCluster):
    """An API with discovery, logs of containers, and reviews. permitted: what SubjectAccessReviews answer."""

    permitted = True

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, str] = {}
        self.reviewed: list[Json] = []

    def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Any:
        """Answer one request."""
        group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
        if path in {f"/apis/{one.group}" for one in KINDS}:
            versions = [{"groupVersion": one.api_version} for one in KINDS if path == f"/apis/{one.group}"]
            return {"kind": "APIGroup", "apiVersion": "v1", "preferredVersion": versions[0], "versions": versions}
        served = [one for one in KINDS if (one.group, one.version) == (group, version)]
        if served and method == "GET":
            told = [{"name": one.plural, "kind": one.kind, "namespaced": one.namespaced} for one in served]
            return {"kind": "APIResourceList", "apiVersion": "v1", "resources": told}
        if path.endswith("/log"):
            return self.logs.get((options.get("query") or {}).get("container", ""), "")
        if path.endswith("/subjectaccessreviews"):
            self.reviewed.append(dict(options.get("body") or {})["spec"])
            return {"status": {"allowed": self.permitted}}
        return super().request(method, path, **options)


class PlayedDelivery:
    """One Delivery in the middle of a played world.

    Attributes: newest (revision of the repository, or why it is not to be had), asked (sources that were asked for),
    results (what has become of each Job, by its name).
    """

    def __init__(self, body: Json | None = None, options: OperatorOptions | None = None) -> None:
        self.api = DeliveryApi()
        self.newest: str | VmatrixError = A
        self.asked: list[GitSource] = []
        self.results: dict[str, BuildReport] = {}
        self.verified: list[str] = []
        self.untrusted: VmatrixError | None = None
        self.context = OperatorContext.of(
            self.api, Path("none"), options=options or OperatorOptions("registry.invalid/vmatrix:1")
        )
        self.builds, self.rollouts = Builds(self.context), Rollouts(self.context)
        self.api.put(DELIVERY, body or delivery())

    def revision_of(self, source: GitSource, _: Mapping[str, bytes], *, deadline: float) -> str:
        """Play `git ls-remote`."""
        self.asked.append(source)
        if isinstance(self.newest, VmatrixError):
            raise self.newest
        return self.newest

    def verify(self, image: str, *_: Any, **__: Any) -> None:
        """Play the look at a signature."""
        self.verified.append(image)
        if self.untrusted is not None:
            raise self.untrusted

    def _copied(self) -> None:
        for informer in self.context.informers._of.values():
            informer._relist()

    def build(self, key: tuple[str, str] = KEY) -> float | None:
        """Have the builds looked at."""
        self._copied()
        return self.builds.reconcile(key)

    def roll(self, key: tuple[str, str] = KEY) -> float | None:
        """Have the rollouts looked at."""
        self._copied()
        return self.rollouts.reconcile(key)

    def settle(self) -> None:
        """Look until nothing changes any more."""
        for _ in range(20):
            before = self.get(DELIVERY)
            pauses = self.build(), self.roll()
            if self.get(DELIVERY) == before and not any(pause is not None and pause <= 1.0 for pause in pauses):
                return
        raise AssertionError("it never comes to rest")

    def get(self, kind: Resource, name: str = "shop", namespace: str = "team") -> Json:
        """Return an object; fail where it is not there."""
        found = self.api.get(kind, name, namespace)
        assert found is not None, f"there is no {kind.kind} {name}"
        return found

    @property
    def status(self) -> Json:
        """Return the Delivery's status."""
        return dict(self.get(DELIVERY).get("status") or {})

    def said(self, kind: str) -> tuple[str, str, str]:
        """Return status, reason and message of a condition."""
        found = condition(self.get(DELIVERY), kind)
        assert found is not None, f"nothing is said of {kind}"
        return found["status"], found["reason"], found["message"]

    @property
    def outcomes(self) -> list[str]:
        """Return what became of the revisions: the first letter of each, and the outcome."""
        return [f"{one['revision'][0]} {one['outcome']}" for one in self.status.get("history") or ()]

    def edit(self, **spec: Any) -> None:
        """Replace parts of the spec."""
        body = self.get(DELIVERY)
        self.api.replace(DELIVERY, {**body, "spec": {**body["spec"], **spec}})

    def annotate(self, **annotations: str) -> None:
        """Annotate the Delivery, with the group's names."""
        told = {f"delivery.vmatrix.dev/{name}": value for name, value in annotations.items()}
        self.api.merge(DELIVERY, "shop", {"metadata": {"annotations": told}}, "team")

    def end(self, revision: str, **result: Any) -> None:
        """Have the Job of a revision end: with an image, or as `result` says."""
        digest = f"{IMAGE}@sha256:{revision[0] * 64}"
        good = BuildReport("succeeded", revision, stage="Pushed", image=digest, committed="2026-01-01T00:00:00Z")
        name = f"shop-{revision[:12]}"
        self.results[name] = BuildReport(**{"outcome": "failed", "revision": revision, **result}) if result else good
        job = self.get(JOB, name)
        over = {"type": "Failed" if result else "Complete", "status": "True"}
        job = self.api.put(JOB, {**job, "status": {"conditions": [over]}})
        labels = {DELIVERY_LABEL: "shop", "batch.kubernetes.io/job-name": name}
        pod = POD.manifest(f"{name}-x", "team", labels=labels, spec=job["spec"]["template"]["spec"])
        pod["metadata"]["ownerReferences"] = [owner_reference(job, JOB)]
        self.api.put(POD, pod)

    def came_up(self, *, image: str | None = None) -> None:
        """Play the Deployment controller: everything that is asked for is there."""
        self._deployment({"conditions": [{"type": "Available", "status": "True"}]}, ready=True)

    def came_not_up(self) -> None:
        """Play the Deployment controller: the deadline of a rollout has passed."""
        late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too late"}
        self._deployment({"conditions": [late]}, ready=False)

    def _deployment(self, status: Json, *, ready: bool) -> None:
        found = self.get(DEPLOYMENT)
        counts = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": int(ready)}
        seen = {"observedGeneration": found["metadata"]["generation"]}
        self.api.put(DEPLOYMENT, {**found, "status": {**status, **counts, **seen}})

    @property
    def runs(self) -> str:
        """Return the first digit of the digest that the Deployment has."""
        container = dig(self.get(DEPLOYMENT), "spec", "template", "spec", "containers")[0]
        return str(container["image"].partition("sha256:")[2][:1])


def played(monkeypatch: pytest.MonkeyPatch, body: Json | None = None, **options: Any) -> PlayedDelivery:
    """Return a Delivery whose git server, builds and registry are played."""
    made = PlayedDelivery(body, OperatorOptions("registry.invalid/vmatrix:1", **options))

    def result_of(job: Json | None, _: Any) -> BuildReport | None:
        return made.results.get(job["metadata"]["name"], BuildReport("running", "")) if job is not None else None

    monkeypatch.setattr(builds, "remote_revision", made.revision_of)
    monkeypatch.setattr(builds, "build_result", result_of)
    monkeypatch.setattr(rollouts, "verify", made.verify)
    return made
