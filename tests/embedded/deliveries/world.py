"""A world for deliveries: git servers that pods reach, registries, images, and builds whose Jobs are made here."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import proc
from harness.artifacts import refs
from harness.artifacts.own import push
from harness.artifacts.registry import publish_images
from harness.artifacts.store import Store
from harness.embedded.machines.names import PODS_NETWORK, Names
from harness.infra.host.network import deliveries_of
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import ensure
from harness.kube.resources import CONFIG_MAP, CRD, JOB, NAMESPACE, POD, SECRET
from harness.operator.api.crds import crds
from harness.operator.api.delivery import Delivery
from harness.operator.api.resources import DELIVERY
from harness.operator.build.job import CONTAINERS, BuildResult, BuildSettings, build_objects, build_result, job_name
from harness.paths import cache_dir
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.deliveries.git_servers import GitServers

SPARE_HOST = 240  # of the pods' network: no machine has it
BASELINE = {"pod-security.kubernetes.io/enforce": "baseline"}
BUILD_SECONDS = 240.0
BUILDKIT_IMAGE = "image/buildkit"
KINDS = {one.kind: one for one in (CONFIG_MAP, JOB)}


@dataclass
class World:
    """One infra cluster with pods, and all that a Delivery needs."""

    infra: EmbeddedProvider
    folder: Path
    namespace: str = "deliveries"
    servers: GitServers = field(init=False)
    api: Cluster = field(init=False)

    @property
    def index(self) -> int:
        """Return the index of the instance."""
        return self.infra.host.index()

    @property
    def registry(self) -> str:
        """Return the registry that pods push to."""
        return deliveries_of(self.index)

    def open(self) -> None:
        """Publish images, start git servers where pods reach them, make the namespace."""
        store = Store()
        self.api = Cluster.from_kubeconfig(self.infra.kubeconfig())
        image = push.obtain_image(store)
        push.publish(image, store)
        mirror = self.infra.mirror().registry
        buildkit = refs.newest(store.catalogue, BUILDKIT_IMAGE)
        publish_images([buildkit], mirror, root=cache_dir() / "registry", store=store)
        self.image = f"{mirror}/{push.REPOSITORY}:{image.ref.version}"
        self.settings = BuildSettings(self.image, insecure_registries=(mirror,))
        self._start_servers()
        for body in crds():
            ensure(self.api, CRD, body)
        self.api.ensure(NAMESPACE, NAMESPACE.manifest(self.namespace, "", labels=BASELINE))

    def _start_servers(self) -> None:
        """Start the git servers beside the machine that runs pods: from there, nothing else of this host is reached."""
        names = Names(self.index)
        space, address = names.bridge_netns(PODS_NETWORK), str(names.network(PODS_NETWORK)[SPARE_HOST])
        links = json.loads(proc.run(["ip", "-n", space, "-j", "link", "show", "type", "bridge"], timeout=10.0).stdout)
        proc.run(["ip", "-n", space, "addr", "add", f"{address}/24", "dev", links[0]["ifname"]], timeout=10.0)
        proc.run(["ip", "-n", space, "link", "set", "lo", "up"], timeout=10.0)
        self.servers = GitServers(self.folder, address, prefix=["ip", "netns", "exec", space])
        self.servers.start()

    def close(self) -> None:
        """End the git servers."""
        self.servers.stop()

    def secret(self, name: str, data: Mapping[str, bytes], kind: str = "Opaque") -> None:
        """Make a Secret, or change it."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        ensure(self.api, SECRET, SECRET.manifest(name, self.namespace, labels={}, type=kind, data=encoded))

    def delivery(self, name: str, source: Mapping[str, Any], build: Mapping[str, Any], **spec: Any) -> Delivery:
        """Make a Delivery; return it as the API has it."""
        whole = {"image": f"{self.registry}/{name}", "insecure": True, **build}
        body = DELIVERY.manifest(name, self.namespace, labels={}, spec={"source": dict(source), "build": whole, **spec})

        def served() -> Json | NotYet:
            try:
                return self.api.ensure(DELIVERY, body)
            except ApiFailure as failure:  # not served yet (404), or its storage is not ready (429)
                return NotYet(failure.summary)

        made = until(served, deadline=Deadline.after(30.0), what="Deliveries to be served", interval=0.1)
        return Delivery.model_validate(made)

    def begin(self, delivery: Delivery, revision: str, settings: BuildSettings | None = None) -> str:
        """Make the objects that build a revision; return the Job's name."""
        for body in build_objects(delivery, revision, settings or self.settings):
            self.api.create_if_absent(KINDS[body["kind"]], body)
        return job_name(delivery.metadata.name, revision)

    def state(self, job: str) -> BuildResult | None:
        """Return how a build stands."""
        pods = self.api.list(POD, self.namespace, labels=f"batch.kubernetes.io/job-name={job}").items
        return build_result(self.api.get(JOB, job, self.namespace), pods)

    def built(self, job: str, seconds: float = BUILD_SECONDS) -> BuildResult:
        """Wait for the end of a build."""

        def ended() -> BuildResult | NotYet:
            found = self.state(job)
            return found if found is not None and found.outcome != "running" else NotYet(str(found))

        return until(
            ended,
            deadline=Deadline.after(seconds),
            what=f"the end of {job}",
            describe=lambda: self.logs(job),
            interval=0.2,
        )

    def logs(self, job: str) -> str:
        """Return what the containers of a build wrote."""
        parts = []
        for pod in self.api.list(POD, self.namespace, labels=f"batch.kubernetes.io/job-name={job}").items:
            for name in (*CONTAINERS, "buildkitd", "tools"):
                try:
                    text = self.api.pod_log(self.namespace, pod["metadata"]["name"], container=name)
                except ApiFailure as failure:
                    text = failure.summary
                parts.append(f"--- {name}\n{text}")
            parts.append(json.dumps(pod["status"], indent=1))
        return "\n".join(parts)

    def tags(self, name: str) -> list[str]:
        """Return the tags of a repository in the registry of deliveries."""
        url = f"http://{self.registry}/v2/{name}/tags/list"
        done = proc.run(["curl", "-s", url], timeout=10.0)
        return sorted(json.loads(done.stdout).get("tags") or [])


def fresh(folder: Path) -> Path:
    """Return an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
