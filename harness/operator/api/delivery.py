"""Delivery: from the commits of a git repository to an application that runs, and what became of each revision."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, ValidationError

from harness.kube.failures import Json
from harness.kube.kinds.models import (
    ApiModel,
    Cel,
    ObjectModel,
    StatusModel,
    keys_match,
    listed,
    mapped,
    part,
    unchanged,
)
from harness.kube.kinds.page import SpecMistake, mistakes_of_form, path_of
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.etcd import Moment, SecretEntry, SecretName
from harness.operator.api.resources import FreeForm, Line, ObjectName

# Where git clones from. No other scheme: `ext::` and `file://` run programs and read files of whoever clones.
_HOST = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)"
_PORT, _USER = "(:[0-9]{1,5})?", "[a-z_][A-Za-z0-9_.-]*"
_PATH = "[A-Za-z0-9._~%+][A-Za-z0-9._~%+/-]*"
GIT_PATTERN = f"^(https?://{_HOST}{_PORT}/{_PATH}|ssh://({_USER}@)?{_HOST}{_PORT}/{_PATH}|{_USER}@{_HOST}:/?{_PATH})$"
# As https://github.com/distribution/reference has names, with the registry, which has a dot or a port.
_LABEL = "[a-z0-9]+([-]+[a-z0-9]+)*"
_REGISTRY = rf"(localhost|{_LABEL}:[0-9]{{1,5}}|{_LABEL}([.]{_LABEL})+(:[0-9]{{1,5}})?|\[[0-9a-f:.]+\](:[0-9]{{1,5}})?)"
IMAGE_PATTERN = f"^{_REGISTRY}(/[a-z0-9]+(([.]|_|__|[-]+)[a-z0-9]+)*)+$"
ENV_PATTERN = "^[-._a-zA-Z][-._a-zA-Z0-9]*$"
ARGUMENT_PATTERN = "^[a-zA-Z_][a-zA-Z0-9_]*$"
NAME_LENGTH = 50  # NAME-SHA12 names Jobs, whose names have at most 63 characters
NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"


def _matches(field: str, pattern: str, message: str, remedy: str, *, optional: bool = False) -> Cel:
    """Return the rule that a text of a model has a form; the API server says less of a pattern in a schema."""
    name = field.removeprefix(".")
    attribute = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)

    def holds(model: Any) -> bool:
        value = getattr(model, attribute)
        return value is None or re.fullmatch(pattern, value) is not None

    rule = f"self.{name}.matches(r'{pattern}')"
    return Cel(f"!has(self.{name}) || {rule}" if optional else rule, message, remedy, field, holds=holds)


def _ref_holds(name: str) -> Callable[[Any], bool]:
    return lambda source: (value := getattr(source, name)) is None or not re.search(BAD_REF, value)


BAD_REF = r"[.][.]|//|/[.]|[.]lock(/|$)|[./]$"  # https://git-scm.com/docs/git-check-ref-format
REF_REMEDY = "write it as `git ls-remote` shows it, without refs/heads/ or refs/tags/"
GIT_URL = _matches(
    ".git",
    GIT_PATTERN,
    "it is not the address of a git repository",
    "write https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH, without a password",
)
ONE_REF = Cel(
    "[has(self.branch), has(self.tag), has(self.revision)].filter(one, one).size() <= 1",
    "a Delivery follows one branch, one tag or one revision",
    "set one of branch, tag and revision; with none of them, it follows the default branch",
    holds=lambda source: sum(ref is not None for ref in (source.branch, source.tag, source.revision)) <= 1,
)
BRANCH_NAME, TAG_NAME = (
    Cel(
        f"!has(self.{name}) || !self.{name}.matches(r'{BAD_REF}')",
        f"git has no {name} of such a name",
        REF_REMEDY,
        f".{name}",
        holds=_ref_holds(name),
    )
    for name in ("branch", "tag")
)
RefName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+@#=/-]*$", max_length=200)]
FullRevision = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$", max_length=64)]
# No segment is `..`, and none begins with a hyphen, which programs take for an option.
_SEGMENT = "[.]?[A-Za-z0-9_+@][A-Za-z0-9._+@-]*"
InnerPath = Annotated[str, StringConstraints(pattern=rf"^([.]|{_SEGMENT}(/{_SEGMENT})*)?$", max_length=512)]
Provider = Literal["GitLab", "GitHub", "Bitbucket"]


class GitWebhook(ApiModel):
    """Requests by which a git server tells of new commits; docs/operator/delivery.md has their URL."""

    provider: Provider = Field(description="Whose requests they are.")
    secret_ref: SecretEntry = Field(description="What the server signs them with, or sends as its token.")


class GitSource(ApiModel):
    """The repository, and what of it is delivered."""

    cel: ClassVar[tuple[Cel, ...]] = (GIT_URL, ONE_REF, BRANCH_NAME, TAG_NAME)
    git: Annotated[str, StringConstraints(min_length=1, max_length=512)] = Field(
        description="Address of the repository: https://, http://, ssh:// or USER@HOST:PATH."
    )
    branch: RefName | None = Field(default=None, description="Branch to follow; default: the repository's own default.")
    tag: RefName | None = Field(default=None, description="Tag to follow.")
    revision: FullRevision | None = Field(default=None, description="The only revision to deliver, as its full SHA.")
    sub_path: InnerPath = Field(default="", description="Folder of the repository that everything else starts at.")
    secret_ref: SecretName | None = Field(
        default=None,
        description="Secret with ssh-privatekey and known_hosts, or with username and password; ca.crt is optional.",
    )
    poll_seconds: int = Field(
        default=30, ge=0, le=86400, description="Seconds between two looks for new commits; 0: nobody looks."
    )
    webhook: GitWebhook | None = Field(default=None, description="Requests by which the git server tells of commits.")
    submodules: bool = Field(default=False, description="Whether submodules are fetched, too.")


IMAGE_NAME = _matches(
    ".image",
    IMAGE_PATTERN,
    "it is not the name of an image in a registry",
    "write REGISTRY/NAME in lower-case letters, without a tag or digest, such as registry.example:5000/team/app",
)
ARGUMENT_NAMES = keys_match(
    ".args",
    ARGUMENT_PATTERN,
    "a build argument has a name that no ARG of a Dockerfile has",
    "use letters, digits and '_', a letter first",
)
Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]+([.][0-9]+)?(m|k|[KMGTPE]i?)?$", max_length=20)]
Value = Annotated[str, StringConstraints(max_length=4096)]


class ResourceAmounts(ApiModel):
    """Amounts of what a node has, as a container's resources name them."""

    cpu: Quantity | None = Field(default=None, description="Processors, such as 500m.")
    memory: Quantity | None = Field(default=None, description="Memory, such as 256Mi.")
    ephemeral_storage: Quantity | None = Field(
        default=None, alias="ephemeral-storage", description="Disk of the node, such as 4Gi."
    )


class ContainerResources(ApiModel):
    """What a container asks for, and what it may take at most."""

    requests: ResourceAmounts = part(ResourceAmounts, "What the scheduler keeps for the container.")
    limits: ResourceAmounts = part(ResourceAmounts, "What the container gets at most.")


class ImageBuild(ApiModel):
    """How the image is built, and where it is pushed."""

    cel: ClassVar[tuple[Cel, ...]] = (IMAGE_NAME, ARGUMENT_NAMES)
    image: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Name of the image with its registry, without a tag; cannot change after the first build."
    )
    dockerfile: InnerPath = Field(default="Dockerfile", description="Dockerfile, below source.subPath.")
    buildpack: Literal["None"] = Field(default="None", description="Buildpacks; there is one choice.")
    context: InnerPath = Field(default=".", description="Folder that COPY starts at, below source.subPath.")
    args: dict[str, Value] = mapped("Values of the Dockerfile's ARGs.", max_length=50)
    target: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$", max_length=128)] | None = Field(
        default=None, description="Stage of the Dockerfile that is built; default: the last."
    )
    insecure: bool = Field(default=False, description="Whether the registry is spoken to without TLS.")
    push_secret_ref: SecretName | None = Field(
        default=None, description="Secret of type kubernetes.io/dockerconfigjson that opens the registry."
    )
    signing_secret_ref: SecretName | None = Field(
        default=None, description="Secret with cosign.key, cosign.password and cosign.pub; without: it is not signed."
    )
    cache: Literal["Registry", "None"] = Field(
        default="Registry", description="Whether layers are kept beside the image for the next build."
    )
    platforms: tuple[Annotated[str, StringConstraints(pattern=r"^linux/[a-z0-9]+(/v[0-9]+)?$", max_length=32)], ...] = (
        listed("Platforms to build for, such as linux/arm64; default: that of the node.", default=(), max_length=4)
    )
    timeout_seconds: int = Field(default=900, ge=30, le=86400, description="Seconds after which a build is stopped.")
    resources: ContainerResources = part(ContainerResources, "What the builder asks for, and may take.")
    privileged: bool = Field(
        default=False, description="Whether the builder's container is privileged; the namespace has to allow it."
    )


class ApplicationPort(ApiModel):
    """One port of the application."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=15)] = Field(
        description="Name of the port."
    )
    port: int = Field(ge=1, le=65535, description="Port of the Service.")
    target_port: int | None = Field(
        default=None, ge=1, le=65535, description="Port of the container; default: that of the Service."
    )
    protocol: Literal["TCP", "UDP"] = Field(default="TCP", description="Protocol of the port.")

    @property
    def of_container(self) -> int:
        """Return the port that the container listens on."""
        return self.target_port or self.port


ONE_VALUE = Cel(
    "[has(self.value), has(self.secretKeyRef), has(self.configMapKeyRef)].filter(one, one).size() == 1",
    "a variable has one value",
    "set one of value, secretKeyRef and configMapKeyRef",
    holds=lambda env: sum(v is not None for v in (env.value, env.secret_key_ref, env.config_map_key_ref)) == 1,
)


class EnvironmentVariable(ApiModel):
    """One variable of the application's environment."""

    cel: ClassVar[tuple[Cel, ...]] = (ONE_VALUE,)
    name: Annotated[str, StringConstraints(pattern=ENV_PATTERN, max_length=253)] = Field(
        description="Name of the variable."
    )
    value: Value | None = Field(default=None, description="Its value.")
    secret_key_ref: SecretEntry | None = Field(default=None, description="Key of a Secret of the target's namespace.")
    config_map_key_ref: SecretEntry | None = Field(
        default=None, description="Key of a ConfigMap of the target's namespace."
    )


class HealthProbe(ApiModel):
    """How the kubelet looks at the application."""

    path: Annotated[str, StringConstraints(pattern=r"^/[^\s]*$", max_length=512)] | None = Field(
        default=None, description="Path of an HTTP GET; without it, a connection is enough."
    )
    port: int | None = Field(
        default=None, ge=1, le=65535, description="Port of the container; default: that of the first port."
    )
    period_seconds: int = Field(default=5, ge=1, le=3600, description="Seconds between two looks.")
    timeout_seconds: int = Field(default=2, ge=1, le=300, description="Seconds that an answer may take.")
    failure_threshold: int = Field(default=3, ge=1, le=1000, description="Failures in a row that count.")


class ApplicationProbes(ApiModel):
    """How it is known that the application works."""

    readiness: HealthProbe | None = Field(
        default=None, description="Whether requests are sent to it; default: a connection to the first port."
    )
    liveness: HealthProbe | None = Field(default=None, description="Whether it is restarted; default: never.")
    startup: HealthProbe | None = Field(default=None, description="Whether it has started; default: nobody asks.")


class ApplicationService(ApiModel):
    """The Service of the application, which has its name."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer", "None"] = Field(
        default="ClusterIP", description="Its type; None: no Service."
    )


class ApplicationIngress(ApiModel):
    """The Ingress of the application, which has its name."""

    host: Annotated[str, StringConstraints(pattern=r"^([*][.])?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)] = (
        Field(description="Host name that requests are for.")
    )
    path: Annotated[str, StringConstraints(pattern=r"^/[^\s]*$", max_length=512)] = Field(
        default="/", description="What paths of requests begin with."
    )
    class_name: ObjectName | None = Field(default=None, description="IngressClass; default: the cluster's own default.")
    port: Annotated[str, StringConstraints(max_length=15)] | None = Field(
        default=None, description="Name of the port; default: the first."
    )
    tls_secret: ObjectName | None = Field(
        default=None, description="Secret of type kubernetes.io/tls in the target's namespace; without: no TLS."
    )


PORTS_TWICE = Cel(
    "self.ports.all(a, self.ports.exists_one(b, a.port == b.port && a.protocol == b.protocol))",
    "two ports of the Service have the same number",
    "give each port a number of its own",
    ".ports",
    holds=lambda deploy: len({(port.port, port.protocol) for port in deploy.ports}) == len(deploy.ports),
)
INGRESS_PORT = Cel(
    "!has(self.ingress) || (self.ports.size() > 0 && self.service.type != 'None')",
    "an Ingress leads to a port of the Service",
    "add an entry to ports, and a service.type other than None",
    ".ingress",
    holds=lambda deploy: deploy.ingress is None or (bool(deploy.ports) and deploy.service.type != "None"),
)
INGRESS_NAMED = Cel(
    "!has(self.ingress) || !has(self.ingress.port) || self.ports.exists(one, one.name == self.ingress.port)",
    "there is no port of this name",
    "use the name of an entry of ports",
    ".ingress",
    holds=lambda deploy: (
        deploy.ingress is None
        or deploy.ingress.port is None
        or any(port.name == deploy.ingress.port for port in deploy.ports)
    ),
)
PROBED = Cel(
    "self.ports.size() > 0 || ["
    + ", ".join(
        f"!has(self.probes.{probe}) || has(self.probes.{probe}.port)" for probe in ("readiness", "liveness", "startup")
    )
    + "].all(one, one)",
    "a probe needs a port",
    "set its port, or add an entry to ports",
    ".probes",
    holds=lambda deploy: (
        bool(deploy.ports)
        or all(
            probe is None or probe.port is not None
            for probe in (deploy.probes.readiness, deploy.probes.liveness, deploy.probes.startup)
        )
    ),
)
PULLS_AT_HOME = Cel(
    "!has(self.pullSecretRef) || self.cluster != '' || self.namespace == ''",
    "Secrets are copied into guest clusters, and not between namespaces",
    "leave deploy.namespace out, or make the Secret there and name it in template.spec.imagePullSecrets",
    ".pullSecretRef",
    holds=lambda deploy: deploy.pull_secret_ref is None or bool(deploy.cluster) or not deploy.namespace,
)
MOVED = "delete the Delivery and create it again: the application would stay where it is"
NamespaceName = Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", max_length=63)]


class Application(ApiModel):
    """What runs the image, and where."""

    cel: ClassVar[tuple[Cel, ...]] = (
        PORTS_TWICE,
        INGRESS_PORT,
        INGRESS_NAMED,
        PROBED,
        PULLS_AT_HOME,
        unchanged(".cluster", MOVED),
        unchanged(".namespace", MOVED),
    )
    cluster: Annotated[str, StringConstraints(pattern=r"^([a-z]([-a-z0-9]*[a-z0-9])?)?$", max_length=30)] = Field(
        default="", description="ClusterDeployment of the same namespace; empty: the cluster of this object."
    )
    namespace: NamespaceName = Field(
        default="", description="Namespace of the application; empty: one of the same name as this object's."
    )
    replicas: int | None = Field(
        default=None, ge=0, le=1000, description="Number of pods; default: 1, or what an autoscaler says."
    )
    ports: tuple[ApplicationPort, ...] = listed("Ports of the application.", key="name", default=(), max_length=20)
    env: tuple[EnvironmentVariable, ...] = listed(
        "Variables of its environment.", key="name", default=(), max_length=100
    )
    resources: ContainerResources = part(ContainerResources, "What the application asks for, and may take.")
    probes: ApplicationProbes = part(ApplicationProbes, "How it is known that the application works.")
    service: ApplicationService = part(ApplicationService, "The Service in front of it, where there are ports.")
    ingress: ApplicationIngress | None = Field(default=None, description="The Ingress in front of the Service.")
    pull_secret_ref: SecretName | None = Field(
        default=None,
        description="Secret of type kubernetes.io/dockerconfigjson by which nodes pull; copied into a guest cluster.",
    )
    template: FreeForm = mapped("Pod template that is merged over what the fields make; its container is app.")
    rollout_seconds: int = Field(
        default=120, ge=5, le=3600, description="Seconds that a revision may take until it is ready."
    )


class DeliverySpec(ApiModel):
    """What is delivered, and where to."""

    source: GitSource = Field(description="The repository, and what of it is delivered.")
    build: ImageBuild = Field(description="How the image is built, and where it is pushed.")
    deploy: Application = part(Application, "What runs the image, and where.")
    rollback: bool = Field(
        default=True, description="Whether the last revision that was ready comes back when a new one is not."
    )
    history: int = Field(default=10, ge=2, le=50, description="How many revisions are kept in status.history.")
    paused: bool = Field(default=False, description="Nothing is fetched, built or deployed while this is true.")


FETCHED, BUILT, PUSHED, DEPLOYED, STALLED = "Fetched", "Built", "Pushed", "Deployed", "Stalled"
Revision = Annotated[str, StringConstraints(max_length=64)]
Text = Annotated[str, StringConstraints(max_length=4096)]
Outcome = Literal["Building", "Built", "BuildFailed", "Deploying", "Ready", "RolledBack", "Failed", "Superseded"]


class RequestedRevision(StatusModel):
    """A revision that was seen in the repository."""

    revision: Revision = Field(description="Its full SHA.")
    by: Line = Field(default="", description="Who or what told of it.")
    seen: Moment = Field(default=None, description="When it was seen first.")


class DeliveredRevision(RequestedRevision):
    """What became of one revision."""

    outcome: Outcome = Field(description="How far it is, or how it ended.")
    image: Line | None = Field(default=None, description="Its image, by digest.")
    inputs: Line | None = Field(default=None, description="Digest of what decides what is in the image.")
    settings: Line | None = Field(default=None, description="Digest of spec.source and spec.build, as they were built.")
    application: Line | None = Field(default=None, description="Digest of spec.deploy, as it was deployed.")
    job: Line | None = Field(default=None, description="The Job that built it.")
    attempts: int = Field(default=0, description="How often its build was begun.")
    transient: bool = Field(default=False, description="Whether the same build may succeed later.")
    stage: Line | None = Field(default=None, description="The last stage that its build has reached.")
    reason: Line | None = Field(default=None, description="Why it failed, as one word for programs.")
    message: Text | None = Field(default=None, description="Why it failed, for people.")
    line: Text | None = Field(default=None, description="The line of the Dockerfile or of the output that failed.")
    committed: Moment = Field(default=None, description="When it was committed.")
    started: Moment = Field(default=None, description="When its build began.")
    pushed: Moment = Field(default=None, description="When its image was in the registry.")
    deployed: Moment = Field(default=None, description="When its rollout began.")
    ended: Moment = Field(default=None, description="When it was ready, or had failed.")
    seconds: int | None = Field(default=None, description="How long that took since it was seen.")
    log: Line | None = Field(default=None, description="ConfigMap that keeps the output of its build.")


class DeliveryStatus(StatusModel):
    """What runs, and what became of each revision."""

    observed_generation: int | None = Field(default=None, description="Generation that the status is about.")
    commit: Line | None = Field(default=None, description="The first 12 digits of the revision that runs.")
    revision: Revision | None = Field(default=None, description="The revision that runs, as its full SHA.")
    image: Line | None = Field(default=None, description="Its image, by digest.")
    url: Line | None = Field(default=None, description="Where the application answers.")
    repository: Line | None = Field(default=None, description="Name of the image since the first build.")
    requested: RequestedRevision | None = Field(default=None, description="The newest revision of the repository.")
    reconciled: Line | None = Field(
        default=None, description="Last value of annotation delivery.vmatrix.dev/reconcile that was acted upon."
    )
    history: tuple[DeliveredRevision, ...] = Field(
        default=(), max_length=50, description="The last revisions, the latest first."
    )
    conditions: tuple[Condition, ...] = conditions("Accepted, Fetched, Built, Pushed, Deployed, Ready, Stalled.")


DELIVERY_NAME = Cel(
    f"self.metadata.name.size() <= {NAME_LENGTH} && self.metadata.name.matches('{NAME_PATTERN}')",
    "the name is too long or has other letters than the names of its Jobs and its Service may have",
    f"use at most {NAME_LENGTH} lower-case letters, digits and '-', a letter first",
    ".metadata.name",
    holds=lambda delivery: (
        len(delivery.metadata.name) <= NAME_LENGTH and re.search(NAME_PATTERN, delivery.metadata.name) is not None
    ),
)
IMAGE_STAYS = Cel(
    "!has(self.status) || !has(self.status.repository) || self.spec.build.image == self.status.repository",
    "the image's name cannot change after the first build",
    "delete the Delivery and create it again, or use the name that status.repository has",
    ".spec.build.image",
    holds=lambda delivery: delivery.status.repository in (None, delivery.spec.build.image),
)


class Delivery(ObjectModel):
    """The wish that the commits of a repository run as an application: each is built, pushed, deployed, waited for."""

    cel: ClassVar[tuple[Cel, ...]] = (DELIVERY_NAME, IMAGE_STAYS)
    spec: DeliverySpec = Field(description="What is delivered, and where to.")
    status: DeliveryStatus = Field(default_factory=DeliveryStatus, description="What runs, and what became of it.")


def read_delivery(obj: Json, *, creating: bool = True) -> tuple[Delivery | None, list[SpecMistake]]:
    """Return the object with all defaults, None when it has another form, and what is wrong with it."""
    try:
        delivery = Delivery.model_validate(obj)
    except ValidationError as error:
        return None, mistakes_of_form(error)
    broken = delivery.broken(creating=creating)
    return delivery, [SpecMistake(path_of(*place, rule.field), rule.message, rule.remedy) for place, rule in broken]
