"""The Job that builds one revision of a Delivery: its objects, and how it stands, by what its containers leave.

Its pod: `tools` brings BuildKit's programs, `buildkitd` builds beside the others and knows no Secret, `fetch` clones,
`build` checks, builds by buildkitd, pushes and signs. The pod needs no more than Pod Security `baseline` allows: the
daemon begins as root without rights but those to map users, and is a user of none afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from harness.kube.failures import Json
from harness.kube.objects import condition, dig, is_condition, owner_reference
from harness.kube.resources import CONFIG_MAP, JOB, container_security, pod_security
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.delivery import Delivery, GitSource, ImageBuild
from harness.operator.api.resources import DELIVERY, DELIVERY_LABEL, REVISION_LABEL
from harness.operator.decide.delivery import job_name, short
from harness.operator.execute.objects import MAY_READ, REPORT, TEMPORARY, USER, single_pod_job

BUILDKIT_VERSION = "0.34.2"
BUILDKIT = f"buildkit:v{BUILDKIT_VERSION}"  # of the catalogue
CONTAINERS = ("fetch", "build")  # whose output tells what was done, in the order in which they run
TOOLS, DAEMON = "tools", "buildkitd"
PROGRAM = "harness.operator.build.program"
INPUTS, INPUTS_FILE, DAEMON_FILE = "/var/run/vmatrix/build", "build.json", "buildkitd.toml"
TOOLS_FOLDER, SOCKETS, STATE, WORKSPACE = "/tools", "/run/buildkit", "/var/lib/buildkit", "/workspace"
SECRETS = "/var/run/vmatrix/secrets"
GIT, PUSH, SIGNING = "git", "push", "signing"  # folders of it
GRACE_SECONDS = 10  # for BuildKit to end what it runs, and to say why
EXTRA_SECONDS = 60.0  # for images of the pod to be pulled, before a build is stopped that never began
MESSAGE_BYTES = 4096  # of a container's message; a kubelet cuts what is longer
IMAGE_MISSING = "BuilderImageMissing"  # what that means for a build
UNSCHEDULABLE = "Unschedulable"  # no node takes the pod of a build
NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
Outcome = Literal["succeeded", "failed", "running"]
Stage = Literal["", "Fetched", "Built", "Pushed"]


@dataclass(frozen=True)
class BuildSettings:
    """What a manager knows about builds.

    Attributes:
        image: vmatrix's own, of this manager.
        buildkit_image: the one with BuildKit's programs; "": `buildkit` beside `image`.
        registries: HOST[:PORT][/PATH] that base images may come from; empty: that of `image` alone.
        insecure_registries: those that are spoken to without TLS.
        stretch: factor for waits.
        seccomp_profile: a file of the node's, where its usual one forbids user namespaces.
    """

    image: str
    buildkit_image: str = ""
    registries: Sequence[str] = ()
    insecure_registries: Sequence[str] = ()
    stretch: float = 1.0
    seccomp_profile: str = ""

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the registries that base images may come from."""
        return tuple(self.registries) or (self.image.partition("/")[0],)

    @property
    def builder(self) -> str:
        """Return the image with BuildKit's programs."""
        return self.buildkit_image or f"{self.image.rpartition('/')[0]}/{BUILDKIT}"


@dataclass(frozen=True)
class BuildInputs:
    """What the programs of a pod are told, as a file of a ConfigMap."""

    delivery: str
    revision: str
    source: GitSource
    build: ImageBuild
    registries: tuple[str, ...]
    insecure_registries: tuple[str, ...] = ()
    seconds: float = 900.0

    @property
    def tag(self) -> str:
        """Return the tag of the image."""
        return short(self.revision)


INPUTS_FORM = TypeAdapter(BuildInputs)


def build_objects(delivery: Delivery, revision: str, settings: BuildSettings) -> list[Json]:
    """Return the ConfigMap and the Job that build a revision; they go with the Delivery."""
    name, namespace = job_name(delivery.metadata.name, revision), delivery.metadata.namespace
    labels = {
        DELIVERY_LABEL: delivery.metadata.name,
        REVISION_LABEL: short(revision),
        LABEL_MANAGED: MANAGED_BY,
    }
    inputs = BuildInputs(
        delivery.metadata.name,
        revision,
        delivery.spec.source,
        delivery.spec.build,
        settings.allowed,
        _insecure(delivery, settings),
        delivery.spec.build.timeout_seconds * settings.stretch,
    )
    files = {
        INPUTS_FILE: INPUTS_FORM.dump_json(inputs, by_alias=True, indent=1).decode(),
        DAEMON_FILE: _daemon_file(inputs),
    }
    template = {"metadata": {"labels": labels}, "spec": _pod(name, inputs, settings)}
    spec = single_pod_job(template, int(inputs.seconds + EXTRA_SECONDS * settings.stretch))
    objects = [
        CONFIG_MAP.manifest(name, namespace, labels=labels, data=files),
        JOB.manifest(name, namespace, labels=labels, spec=spec),
    ]
    owner = {"metadata": {"name": delivery.metadata.name, "uid": delivery.metadata.uid}}
    for body in objects:
        body["metadata"]["ownerReferences"] = [owner_reference(owner, DELIVERY)]
    return objects


def _insecure(delivery: Delivery, settings: BuildSettings) -> tuple[str, ...]:
    own = [delivery.spec.build.image.partition("/")[0]] if delivery.spec.build.insecure else []
    return tuple(dict.fromkeys([*settings.insecure_registries, *own]))


def _daemon_file(inputs: BuildInputs) -> str:
    """Return buildkitd's configuration: https://github.com/moby/buildkit/blob/master/docs/buildkitd.toml.md"""
    plain = [f"[registry.{json.dumps(registry)}]\n  http = true\n" for registry in inputs.insecure_registries]
    return "".join(["[worker.oci]\n  gc = false\n", *plain])


def _pod(name: str, inputs: BuildInputs, settings: BuildSettings) -> Json:
    build, source = inputs.build, inputs.source
    secrets = {
        GIT: source.secret_ref.name if source.secret_ref else None,
        PUSH: build.push_secret_ref.name if build.push_secret_ref else None,
        SIGNING: build.signing_secret_ref.name if build.signing_secret_ref else None,
    }
    mounted = {key: {"secretName": secret, "defaultMode": MAY_READ} for key, secret in secrets.items() if secret}
    folders = ("tools", "sockets", "state", "workspace", *(f"temporary-{name}" for name in (DAEMON, *CONTAINERS)))
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {"fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"},
        "initContainers": [
            _tools(settings),
            _daemon(build, settings),
            _container("fetch", settings, [GIT] if GIT in mounted else []),
        ],
        "containers": [_container("build", settings, [secret for secret in (PUSH, SIGNING) if secret in mounted])],
        "volumes": [
            {"name": "inputs", "configMap": {"name": name, "defaultMode": MAY_READ}},
            *({"name": folder, "emptyDir": {}} for folder in folders),
            *({"name": key, "secret": secret} for key, secret in mounted.items()),
        ],
    }


def _tools(settings: BuildSettings) -> Json:
    return {
        "name": TOOLS,
        "image": settings.builder,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/cp", "--recursive", "/opt/buildkit/.", TOOLS_FOLDER],
        "securityContext": {**container_security(), **pod_security(USER)},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "volumeMounts": [{"name": "tools", "mountPath": TOOLS_FOLDER}],
    }


def _daemon(build: ImageBuild, settings: BuildSettings) -> Json:
    """Return the container that builds. It is a sidecar: it starts before `fetch` and is ended after `build`."""
    asked = build.resources.model_dump(by_alias=True, exclude_none=True)
    security: Json = {
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SETGID", "SETUID"]},
    }
    if settings.seccomp_profile:
        security["seccompProfile"] = {"type": "Localhost", "localhostProfile": settings.seccomp_profile}
    if build.privileged:
        security = {"runAsUser": 0, "runAsGroup": 0, "privileged": True, "readOnlyRootFilesystem": True}
    resources = {
        "requests": {"cpu": "100m", "memory": "192Mi", **asked.get("requests", {})},
        **({"limits": asked["limits"]} if asked.get("limits") else {}),
    }
    return {
        **_running(DAEMON, "daemon", settings, [{"name": "state", "mountPath": STATE}]),
        "restartPolicy": "Always",
        "securityContext": security,
        "resources": resources,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _container(name: str, settings: BuildSettings, secrets: Sequence[str]) -> Json:
    """Return a container that reports how it ended. `secrets`: the folders of those that it may read."""
    mounts: list[Json] = [
        {"name": "workspace", "mountPath": WORKSPACE},
        *({"name": folder, "mountPath": f"{SECRETS}/{folder}", "readOnly": True} for folder in secrets),
    ]
    return {
        **_running(name, name, settings, mounts),
        "securityContext": {**container_security(), **pod_security(USER)},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "768Mi"}},
        "terminationMessagePath": REPORT,
        "terminationMessagePolicy": "File",
    }


def _running(name: str, program: str, settings: BuildSettings, mounts: Sequence[Json]) -> Json:
    """Return what all containers have that run a program of ours; `mounts`: of the volumes that not all of them see."""
    return {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", PROGRAM, program],
        "env": [{"name": "HOME", "value": TEMPORARY}],
        "volumeMounts": [
            {"name": "inputs", "mountPath": INPUTS, "readOnly": True},
            {"name": "tools", "mountPath": TOOLS_FOLDER, "readOnly": True},
            {"name": "sockets", "mountPath": SOCKETS},
            {"name": f"temporary-{name}", "mountPath": TEMPORARY},
            *mounts,
        ],
    }


@dataclass(frozen=True)
class BuildReport:
    """How a build stands: what a container says at its end, as its termination message, or what is known without it.

    outcome: a container's is never `running`.  stage: the last that was reached.
    line: of the Dockerfile or of the output, with its text.  message: for people.
    image: by digest.  committed: RFC 3339.  transient: the same build may succeed later.
    """

    outcome: Outcome
    revision: str
    stage: Stage = ""
    reason: str = ""
    message: str = ""
    line: str = ""
    image: str = ""
    committed: str = ""
    transient: bool = False

    def to_text(self) -> str:
        """Return the message; what is too long for it is cut."""
        facts = {key: value for key, value in asdict(self).items() if value}
        text = json.dumps(facts, ensure_ascii=False)
        for name in ("message", "line"):
            while len(text.encode("utf-8", "replace")) > MESSAGE_BYTES and len(facts.get(name, "")) > 100:
                facts[name] = f"{facts[name][: len(facts[name]) * 3 // 4]}..."
                text = json.dumps(facts, ensure_ascii=False)
        return text.encode("utf-8", "replace").decode()


REPORT_FORM = TypeAdapter(BuildReport)


@dataclass(frozen=True)
class _Ended:
    """A way in which a container ends without a report: its reason for a condition, and what to say."""

    reason: str
    message: str
    transient: bool = True


ENDINGS = {  # by the word of the kubelet for a container or a pod
    "OOMKilled": _Ended(
        "OutOfMemory", "the build took more memory than build.resources.limits allows", transient=False
    ),
    "Evicted": _Ended("Evicted", "the node was short of disk or memory, and ended the pod"),
    "DeadlineExceeded": _Ended("TimedOut", "the build took longer than build.timeoutSeconds", transient=False),
}
LOST = _Ended("PodLost", "the pod of the build was ended before it was done")


def build_result(job: Json | None, pods: Sequence[Json]) -> BuildReport | None:
    """Return how a build stands, by its Job and the Job's pods; None without a Job."""
    if job is None:
        return None
    revision = str(dig(job, "metadata", "labels", REVISION_LABEL) or "")
    pod = max(pods, key=lambda candidate: str(dig(candidate, "metadata", "creationTimestamp") or ""), default=None)
    reports = [report for name in CONTAINERS if (report := _report(pod, name)) is not None]
    last = reports[-1] if reports else None
    if is_condition(job, "Complete", "True") and last is not None and last.outcome == "succeeded" and last.image:
        return last
    if not is_condition(job, "Failed", "True") and not is_condition(job, "Complete", "True"):
        return _under_way(pod, last, revision)
    if last is not None and last.outcome == "failed":
        return last
    ended, begun = _ending(job, pod), last or BuildReport("failed", revision)
    return BuildReport(
        "failed",
        begun.revision,
        begun.stage,
        ended.reason,
        ended.message,
        committed=begun.committed,
        transient=ended.transient,
    )


def _under_way(pod: Json | None, last: BuildReport | None, revision: str) -> BuildReport:
    """Return how a build stands whose Job has not ended; a pod that waits for a node or an image says so."""
    waiting = next((status for status in _statuses(pod) if dig(status, "state", "waiting", "reason") in NO_IMAGE), None)
    reason, message = "", ""
    placed = condition(pod, "PodScheduled") or {}
    if placed.get("status") == "False":
        reason, message = UNSCHEDULABLE, f"no node takes its pod: {placed.get('message') or 'none has room'}"
    elif waiting is not None:
        reason = IMAGE_MISSING
        message = f"{waiting['name']}: {dig(waiting, 'state', 'waiting', 'message') or 'its image cannot be pulled'}"
    begun = last or BuildReport("running", revision)
    return BuildReport("running", begun.revision, begun.stage, reason, message, committed=begun.committed)


def _ending(job: Json, pod: Json | None) -> _Ended:
    """Return what is known of a build that left no report."""
    failed = condition(job, "Failed") or {}
    states = [
        dig(status, state, "terminated", "reason") for status in _statuses(pod) for state in ("state", "lastState")
    ]
    words = [dig(pod, "status", "reason"), *states, failed.get("reason")]
    return next((ENDINGS[word] for word in words if word in ENDINGS), LOST)


def _statuses(pod: Json | None) -> list[Json]:
    status: Any = dig(pod, "status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _report(pod: Json | None, name: str) -> BuildReport | None:
    """Return what a container of a pod has reported; None where it has not ended, or was killed."""
    status = next((status for status in _statuses(pod) if status.get("name") == name), None)
    text = dig(status, "state", "terminated", "message")
    try:
        return REPORT_FORM.validate_json(text) if text else None
    except ValidationError:
        return None
