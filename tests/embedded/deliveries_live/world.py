"""A world for deliveries: git servers that pods reach, registries, images, and the operator in a Deployment."""

from __future__ import annotations

import base64
import hashlib
import json
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import proc
from harness.artifacts.own import push
from harness.artifacts.registry import digest_in
from harness.artifacts.store import Store
from harness.embedded.machines.names import PODS_NETWORK, Names
from harness.infra.host.network import deliveries_of
from harness.infra.pods import NAME as PODS
from harness.infra.pods import NAMESPACE_NAME
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import deleting, dig, is_condition
from harness.kube.objects import ensure as ensure_object
from harness.kube.resources import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CRD,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
)
from harness.operator.api.delivery import Delivery
from harness.operator.api.resources import DELIVERY, DELIVERY_LABEL
from harness.operator.build.job import CONTAINERS
from harness.operator.manifests import NAME as OPERATOR
from harness.operator.manifests import Installation
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.deliveries.git_servers import GitServers
from tests.embedded.deliveries_live.applications import PORT

SPARE_HOST = 240  # of the pods' network: no machine has it
LABELS = {"pod-security.kubernetes.io/enforce": "baseline"}
SECONDS = 150.0  # for a delivery on a busy host
NODE_SECONDS = 240.0  # from a reset until pods run again
MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json"
ANSWER_SECONDS = 20.0
KINDS = (CRD, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, DEPLOYMENT, SERVICE, SECRET)


@dataclass
class World:
    """One infra cluster with pods, and all that a Delivery needs."""

    infra: EmbeddedProvider
    folder: Path
    namespace: str = "deliveries"
    image: str = ""
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
        """Publish images, start git servers where pods reach them, and the operator in the namespace."""
        store = Store()
        self.api = Cluster.from_kubeconfig(self.infra.kubeconfig())
        image = push.obtain_image(store)
        for each in (image, push.obtain_builder(store)):
            push.publish(each, store)
        mirror = self.infra.mirror().registry
        self.image = f"{mirror}/{push.REPOSITORY}:{image.ref.version}"
        self._start_servers()
        self.api.ensure(NAMESPACE, NAMESPACE.manifest(self.namespace, "", labels=LABELS))
        self._install(mirror)

    def _start_servers(self) -> None:
        """Start the git servers beside the machine that runs pods: from there, nothing else of this host is reached."""
        names = Names(self.index)
        space, address = names.bridge_netns(PODS_NETWORK), str(names.network(PODS_NETWORK)[SPARE_HOST])
        links = json.loads(proc.run(["ip", "-n", space, "-j", "link", "show", "type", "bridge"], timeout=10.0).stdout)
        proc.run(["ip", "-n", space, "addr", "add", f"{address}/24", "dev", links[0]["ifname"]], timeout=10.0)
        proc.run(["ip", "-n", space, "link", "set", "lo", "up"], timeout=10.0)
        self.servers = GitServers(self.folder, address, prefix=["ip", "netns", "exec", space])
        self.servers.start()

    def _install(self, mirror: str) -> None:
        """Run the operator as people do, with the controllers of deliveries alone."""
        kinds = {kind.kind: kind for kind in KINDS}
        for body in Installation(self.namespace, self.image).objects():
            if body["kind"] == "Deployment":
                words = body["spec"]["template"]["spec"]["containers"][0]["args"]
                words += ["--controllers=builds,rollouts", f"--insecure-registry={mirror}"]
            ensure_object(self.api, kinds[body["kind"]], body)
        self.wait("the operator", lambda: self._runs(OPERATOR))

    def _runs(self, name: str) -> bool | NotYet:
        found = self.api.get(DEPLOYMENT, name, self.namespace)
        return is_condition(found, "Available", "True") or NotYet(str(dig(found, "status")))

    def close(self) -> None:
        """End the git servers."""
        self.servers.stop()

    def wait(self, what: str, probe: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """Wait for something of a delivery; what is known is told when it does not come."""
        deadline = Deadline.after(seconds)
        return until(probe, deadline=deadline, what=what, describe=self.describe, interval=0.2)

    def secret(self, name: str, data: Mapping[str, bytes], kind: str = "Opaque") -> None:
        """Make a Secret, or change it."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        ensure_object(self.api, SECRET, SECRET.manifest(name, self.namespace, labels={}, type=kind, data=encoded))

    def deliver(self, name: str, source: Mapping[str, Any], build: Mapping[str, Any], **deploy: Any) -> None:
        """Make a Delivery of an application that answers at a port of the node."""
        whole = {"image": f"{self.registry}/{name}", "insecure": True, **build}
        application = {
            "ports": [{"name": "http", "port": 80, "targetPort": PORT}],
            "service": {"type": "NodePort"},
            "rolloutSeconds": 60,
            **deploy,
        }
        spec = {"source": {"pollSeconds": 1, **source}, "build": whole, "deploy": application}
        self.api.ensure(DELIVERY, DELIVERY.manifest(name, self.namespace, labels={}, spec=spec))

    def seen(self, name: str) -> Delivery:
        """Return a Delivery."""
        return Delivery.model_validate(self.api.get(DELIVERY, name, self.namespace))

    def ready(self, name: str, revision: str) -> bool | NotYet:
        """Tell whether a revision runs."""
        found = self.api.get(DELIVERY, name, self.namespace)
        runs = dig(found, "status", "revision") == revision and is_condition(found, "Ready", "True")
        return runs or NotYet(json.dumps(dig(found, "status", "conditions")))

    def answer(self, name: str) -> str:
        """Ask the application through its Service; "" where nobody answers."""
        service = self.api.get(SERVICE, name, self.namespace)
        ports = dig(service, "spec", "ports") or [{}]
        if not ports[0].get("nodePort"):
            return ""
        node = self.api.get(NODE, self.infra.layout.pods_node)
        (address, *_) = [one["address"] for one in dig(node, "status", "addresses") if one["type"] == "InternalIP"]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{address}:{ports[0]['nodePort']}/", timeout=2.0) as reply:
                return str(reply.read().decode())
        except OSError:
            return ""

    def answers(self, name: str, text: str) -> bool | NotYet:
        """Tell whether the application answers so."""
        found = self.answer(name)
        return found == text or NotYet(f"it answers {found!r}")

    def running_image(self, name: str) -> set[str]:
        """Return the images that the application's containers run."""
        found = self.api.get(DEPLOYMENT, name, self.namespace)
        labels = ",".join(f"{key}={value}" for key, value in dig(found, "spec", "selector", "matchLabels").items())
        pods = self.api.list(POD, self.namespace, labels=labels).items
        running = [pod for pod in pods if dig(pod, "status", "phase") == "Running" and not deleting(pod)]
        return {one["image"] for pod in running for one in pod["spec"]["containers"]}

    def jobs(self, name: str) -> list[Json]:
        """Return the Jobs of a Delivery."""
        return list(self.api.list(JOB, self.namespace, labels=f"{DELIVERY_LABEL}={name}").items)

    def digest(self, name: str, tag: str) -> str:
        """Return the digest of a tag in the registry of deliveries; "" where it is not there."""
        return digest_in(self.registry, name, tag)

    def deployments(self, name: str) -> list[Json]:
        """Return the Deployments of a Delivery."""
        return list(self.api.list(DEPLOYMENT, self.namespace, labels=f"{DELIVERY_LABEL}={name}").items)

    def require_whole(self, name: str) -> None:
        """Require of each tag of a Delivery's image that its manifest and all of its layers are in the registry."""
        registry = f"http://{self.registry}/v2/{name}"
        tags = json.loads(_body(f"{registry}/tags/list"))["tags"]
        assert tags, "there is no tag to look at"
        for tag in tags:
            manifest = json.loads(_body(f"{registry}/manifests/{tag}", MANIFESTS))
            for part in manifest.get("manifests") or ():
                assert _body(f"{registry}/manifests/{part['digest']}", MANIFESTS), (tag, part)
            for part in (*manifest.get("layers", ()), *([manifest["config"]] if "config" in manifest else ())):
                content = _body(f"{registry}/blobs/{part['digest']}")
                assert f"sha256:{hashlib.sha256(content).hexdigest()}" == part["digest"], (tag, part)

    def restart_node(self) -> None:
        """Reset the machine that runs pods, as a power cut does, and wait until its Node is Ready with another boot."""
        node = self.infra.layout.pods_node
        before = dig(self.api.get(NODE, node), "status", "nodeInfo", "bootID")
        path = f"/apis/subresources.kubevirt.io/v1/namespaces/{NAMESPACE_NAME}/virtualmachineinstances/{PODS}/reset"
        self.api.request("PUT", path, body={})

        def back() -> bool | NotYet:
            found = self.api.get(NODE, node)
            boot = dig(found, "status", "nodeInfo", "bootID")
            if boot == before:
                return NotYet("its kubelet has not reported since")
            return is_condition(found, "Ready", "True") or NotYet("it is not Ready")

        self.wait(f"node {node} to be back", back, NODE_SECONDS)

    def describe(self) -> str:
        """Return all that explains a delivery that does not come."""
        parts = [json.dumps(self.api.list(DELIVERY, self.namespace).items, indent=1)]
        for pod in self.api.list(POD, self.namespace).items:
            parts.append(f"=== {pod['metadata']['name']} {json.dumps(pod['status'])[:3000]}")
            names = (*CONTAINERS, "buildkitd") if DELIVERY_LABEL in pod["metadata"]["labels"] else ("manager",)
            for name in names:
                try:
                    log = self.api.pod_log(self.namespace, pod["metadata"]["name"], container=name)
                    parts.append(f"--- {name}\n{log[-4000:]}")
                except ApiFailure as failure:
                    parts.append(f"--- {name}: {failure.summary}")
        return "\n".join(parts)


def _body(url: str, accept: str = "*/*") -> bytes:
    """Return what a registry of this host answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, headers={"Accept": accept}), timeout=ANSWER_SECONDS) as reply:  # noqa: S310
        return bytes(reply.read())
