"""Parts of a declared cluster: their versions and settings, and where binaries and images come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, StringConstraints

from harness.kube.kinds.models import ANEW, ApiModel, Cel, keys_match, listed, mapped, part, unchanged
from harness.kube.kinds.page import SpecMistake
from harness.operator.api.resources import Arguments, ComponentVersion, FreeForm

FLAG_PATTERN = r"^[a-z][a-z0-9-]*$"
FLAGS = keys_match(
    ".extraArgs",
    FLAG_PATTERN,
    "a flag has letters that no flag has",
    "write flags without dashes in front, with lower-case letters, digits and '-'",
)

# Settings of the kubelet and of kube-proxy that may be negative, and their least values; all other numbers are counts,
# sizes and times. https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1 and kube-proxy-config.v1alpha1
LEAST = {"oomScoreAdj": -1000, "podPidsLimit": -1}


def number_mistakes(field: str, settings: Mapping[str, JsonValue]) -> Iterator[SpecMistake]:
    """Yield the numbers among settings that are too small for any kubelet or kube-proxy."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from number_mistakes(f"{field}.{name}", value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and value < LEAST.get(name, 0):
            yield SpecMistake(f"{field}.{name}", f"{value} is too small", f"use {LEAST.get(name, 0)} or more")


def version_of(what: str) -> ComponentVersion | None:
    """Return the field of a version that the release table gives where it is not set."""
    made: ComponentVersion | None = Field(default=None, description=f"Version of {what}; default: the release table.")
    return made


class Components(ApiModel):
    """Versions that differ from those of the release table."""

    etcd: ComponentVersion | None = version_of("etcd")
    coredns: ComponentVersion | None = version_of("CoreDNS")
    pause: ComponentVersion | None = version_of("the pause image")
    runc: ComponentVersion | None = version_of("runc")
    cni_plugins: ComponentVersion | None = Field(
        default=None, alias="cni-plugins", description="Version of the CNI plugins; default: the release table."
    )
    flannel: ComponentVersion | None = version_of("flannel")
    crictl: ComponentVersion | None = version_of("crictl, which comes with CRI-O")


def switch(what: str) -> bool | None:
    """Return the field of a switch that is as the playbooks have it where it is not set."""
    made: bool | None = Field(default=None, description=f"{what}; default: that of the playbooks.")
    return made


_LABEL = "[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
_REGISTRY_HOST = rf"(({_LABEL}[.])*{_LABEL}|\[[0-9a-fA-F:]+\])(:[0-9]{{1,5}})?"


class FurtherRegistry(ApiModel):
    """A registry of applications' images, besides the one of the cluster's own."""

    name: Annotated[str, StringConstraints(pattern=f"^{_REGISTRY_HOST}$", max_length=255)] = Field(
        description="What names of images begin with, as HOST or HOST:PORT."
    )
    server: Annotated[str, StringConstraints(pattern=f"^https?://{_REGISTRY_HOST}$", max_length=255)] | None = Field(
        default=None, description="URL at which machines ask for them; default: that name, with TLS."
    )
    ca: (
        Annotated[str, StringConstraints(pattern=r"^\s*-----BEGIN CERTIFICATE-----", min_length=27, max_length=65536)]
        | None
    ) = Field(default=None, description="CA of its certificate, as PEM; default: those that machines trust.")


class ContainerRuntime(ApiModel):
    """The container runtime of all machines with a kubelet."""

    cel: ClassVar[tuple[Cel, ...]] = (unchanged(".name"),)
    name: Literal["containerd", "crio"] = Field(default="containerd", description="Container runtime; cannot change.")
    version: ComponentVersion | None = version_of("the container runtime")
    config: FreeForm = mapped("Settings that are merged into the runtime's configuration file.")
    systemd_cgroup: bool | None = switch("systemd makes cgroups, as cgroupDriver of kubelets says")
    within_limits: bool | None = switch("Machines lack CAP_SYS_RESOURCE")
    registries: tuple[FurtherRegistry, ...] | None = listed(
        "Further registries that machines pull from.", key="name", default=None, max_length=20
    )


class Flags(ApiModel):
    """Further flags of one component."""

    cel: ClassVar[tuple[Cel, ...]] = (FLAGS,)
    extra_args: Arguments = mapped("Flags without dashes, and their values.")


VolumeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
MachinePath = Annotated[str, StringConstraints(pattern=r"^/[^\n\r]*$", max_length=4096)]
UPWARDS = Cel(
    "!self.hostPath.matches('(^|/)[.][.](/|$)') && !self.mountPath.matches('(^|/)[.][.](/|$)')",
    "a path leads upwards",
    "write paths without ..",
    ".hostPath",
    holds=lambda volume: ".." not in (*volume.host_path.split("/"), *volume.mount_path.split("/")),
)


class ExtraVolume(ApiModel):
    """A file or folder of control planes that a component's pod has."""

    cel: ClassVar[tuple[Cel, ...]] = (UPWARDS,)
    name: VolumeName = Field(description="Name of the volume in the pod.")
    host_path: MachinePath = Field(description="Path on the machine.")
    mount_path: MachinePath = Field(description="Path in the pod.")
    read_only: bool | None = Field(default=None, description="The pod cannot write to it; default: it can.")
    path_type: (
        Literal["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"] | None
    ) = Field(default=None, description="What has to be there; default: anything.")


class StaticPodSettings(Flags):
    """Settings of a component that runs as a static pod."""

    extra_volumes: tuple[ExtraVolume, ...] | None = listed(
        "Further files and folders of the machine for its pod.", key="name", default=None, max_length=20
    )


class KubeletSettings(ApiModel):
    """Settings of the kubelets."""

    config: FreeForm = mapped("Settings that are merged into KubeletConfiguration.")
    swap_off: bool | None = Field(
        default=None, description="Disable swap, now and at boot; default: unless config.failSwapOn is false."
    )


class KubeProxySettings(ApiModel):
    """Settings of kube-proxy."""

    mode: Literal["nftables", "iptables"] = Field(default="nftables", description="How kube-proxy writes its rules.")
    config: FreeForm = mapped("Settings that are merged into KubeProxyConfiguration.")


class SchedulerSettings(StaticPodSettings):
    """Settings of the scheduler."""

    config: FreeForm | None = Field(default=None, description="KubeSchedulerConfiguration, of version v1.")


class CorednsSettings(ApiModel):
    """Settings of CoreDNS."""

    cache_seconds: int | None = Field(
        default=None, ge=0, le=86400, description="For how long answers are kept; default: 30."
    )


Duration = Annotated[str, StringConstraints(pattern=r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$", max_length=32)]
PreflightCheck = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.:/-]*$", max_length=253)]


class KubeadmTimeouts(ApiModel):
    """How long kubeadm waits, as `timeouts` of kubeadm.k8s.io/v1beta4; the playbooks have defaults of their own."""

    control_plane_component_health_check: Duration | None = Field(default=None, description="For a component.")
    kubelet_health_check: Duration | None = Field(default=None, description="For a kubelet.")
    kubernetes_api_call: Duration | None = Field(
        default=None, alias="kubernetesAPICall", description="For an answer of an API server."
    )
    etcd_api_call: Duration | None = Field(default=None, alias="etcdAPICall", description="For an answer of etcd.")
    tls_bootstrap: Duration | None = Field(default=None, description="For a kubelet's first certificate.")
    discovery: Duration | None = Field(default=None, description="For what a machine that joins has to know.")
    upgrade_manifests: Duration | None = Field(default=None, description="For a static pod that is upgraded.")


class KubeadmSettings(ApiModel):
    """How kubeadm is run."""

    timeouts: KubeadmTimeouts | None = Field(default=None, description="How long it waits.")
    ignore_preflight_errors: tuple[PreflightCheck, ...] | None = listed(
        "Names of its checks whose errors do not count.", default=None, max_length=50
    )
    skip_phases: tuple[Literal["addon/kube-proxy", "preflight", "show-join-command"], ...] | None = listed(
        "Phases that are left out.", default=None, max_length=3
    )


GATE_PATTERN = "^[A-Z][A-Za-z0-9]{0,126}$"
GATES = keys_match(
    ".featureGates",
    GATE_PATTERN,
    "a feature gate has another form than feature gates have",
    "write names such as SidecarContainers, with true or false",
)
# The flag of components that have feature gates, and the setting in the files of the kubelet and of kube-proxy.
GATES_FLAG, GATES_SETTING = "feature-gates", "featureGates"
GATED_FLAGS = ("apiServer", "controllerManager", "scheduler")
# CEL sees nothing of an object of any form, such as `config` of the kubelet: there only `holds` looks.
GATES_TWICE = Cel(
    "self.featureGates.size() == 0 || !("
    + " || ".join(f"'{GATES_FLAG}' in self.{name}.extraArgs" for name in GATED_FLAGS)
    + ")",
    "feature gates are set for all components, and for one of them as well",
    f"use featureGates alone, or {GATES_FLAG} of extraArgs and featureGates of config alone",
    ".featureGates",
    holds=lambda settings: (
        not settings.feature_gates
        or (
            not any(GATES_FLAG in component.extra_args for component in settings.with_flags)
            and not any(GATES_SETTING in component.config for component in (settings.kubelet, settings.kube_proxy))
        )
    ),
)


class KubernetesSettings(ApiModel):
    """Settings of Kubernetes' own components."""

    cel: ClassVar[tuple[Cel, ...]] = (GATES, GATES_TWICE)
    api_server: StaticPodSettings = part(StaticPodSettings, "kube-apiserver.")
    controller_manager: StaticPodSettings = part(StaticPodSettings, "kube-controller-manager.")
    scheduler: SchedulerSettings = part(SchedulerSettings, "kube-scheduler.")
    feature_gates: dict[str, bool] = mapped(
        "Feature gates of all components of Kubernetes, by name.",
        max_length=100,
    )
    patches: FreeForm | None = Field(default=None, description="Patches of kubeadm, by the names of their files.")
    kubeadm: KubeadmSettings = part(KubeadmSettings, "How kubeadm is run.")
    kubelet: KubeletSettings = part(KubeletSettings, "The kubelets.")
    kube_proxy: KubeProxySettings = part(KubeProxySettings, "kube-proxy.")
    coredns: CorednsSettings = part(CorednsSettings, "CoreDNS.")

    @property
    def with_flags(self) -> tuple[Flags, ...]:
        """Return the components whose feature gates are a flag."""
        return self.api_server, self.controller_manager, self.scheduler


class MaintenanceSettings(ApiModel):
    """How gently nodes are emptied, and when a member of etcd is defragmented."""

    drain_timeout_seconds: int | None = Field(
        default=None, ge=0, le=86400, description="For how long a node may take to be drained; default: 300."
    )
    drain_force: bool | None = switch("Delete also pods that nothing would make again")
    defragment_percent: int | None = Field(
        default=None, ge=0, le=100, description="Share of a member's file that is free by then; default: 30."
    )
    defragment_mebibytes: int | None = Field(
        default=None, ge=0, le=1 << 20, description="How much of it is free by then, in MiB; default: 100."
    )


MirrorUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+(/\S*)?$", max_length=1024)]
# As https://pkg.go.dev/github.com/distribution/reference has names of images: HOST[:PORT], and each part of a path.
_DOMAIN = r"([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:.]+\])"
_PLACE = rf"{_DOMAIN}(:[0-9]{{1,5}})?"
_COMPONENT = "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*"
Registry = Annotated[str, StringConstraints(pattern=rf"^{_PLACE}(/{_COMPONENT})*$", max_length=255)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)]


NO_MIRROR = Cel(
    "self.type != 'Mirror' || has(self.mirror)",
    "type Mirror needs mirror",
    "set it to the URL below which the mirror serves bin/NAME/VERSION/FILE",
    ".mirror",
    holds=lambda source: source.type != "Mirror" or source.mirror is not None,
)
NO_REGISTRY = Cel(
    "has(self.registry)",
    "machines need a registry, with either type",
    "set it to HOST:PORT, with a path if there is one, below which the images are",
    ".registry",
    holds=lambda source: source.registry is not None,
)


class ReleaseSites(ApiModel):
    """Where releases are, for type Upstream; default: their makers' sites."""

    kubernetes: MirrorUrl | None = Field(default=None, description="Of Kubernetes.")
    containerd: MirrorUrl | None = Field(default=None, description="Of containerd.")
    runc: MirrorUrl | None = Field(default=None, description="Of runc.")
    cni_plugins: MirrorUrl | None = Field(default=None, alias="cni-plugins", description="Of the CNI plugins.")
    etcd: MirrorUrl | None = Field(default=None, description="Of etcd.")


ImageReference = Annotated[
    str,
    StringConstraints(
        pattern=rf"^({_PLACE}/)?{_COMPONENT}(/{_COMPONENT})*(:[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}})?(@sha256:[0-9a-f]{{64}})?$"
    ),
]


def _image(what: str) -> Any:
    return Field(default=None, max_length=512, description=f"Of {what}; default: as the registry has it.")


class NamedImages(ApiModel):
    """Images with their tags, where the registry has them under other names than the playbooks'."""

    sandbox: ImageReference | None = _image("pods' sandboxes")
    coredns: ImageReference | None = _image("CoreDNS, which is only pulled ahead of time")
    network_plugin: ImageReference | None = _image("the network plugin")
    metrics_server: ImageReference | None = _image("the add-on metrics-server")
    local_path_provisioner: ImageReference | None = _image("the add-on local-path-provisioner")
    busybox: ImageReference | None = _image("what that add-on runs")
    metallb_controller: ImageReference | None = _image("the add-on metallb's controller")
    metallb_speaker: ImageReference | None = _image("the add-on metallb's speakers")
    kube_router: ImageReference | None = _image("the add-on kube-router")
    traefik: ImageReference | None = _image("the add-on traefik")


class ArtifactSource(ApiModel):
    """Where machines get binaries and images from."""

    cel: ClassVar[tuple[Cel, ...]] = (NO_MIRROR, NO_REGISTRY)
    type: Literal["Mirror", "Upstream"] = Field(
        default="Mirror", description="Mirror: only from the mirror; Upstream: binaries from the makers' sites."
    )
    mirror: MirrorUrl | None = Field(
        default=None, description="URL of the mirror of binaries; required for type Mirror."
    )
    registry: Registry | None = Field(
        default=None, description="HOST:PORT of the registry of images, with a path if there is one; required."
    )
    checksums: dict[str, Sha256] = mapped("SHA-256 of files on the mirror, by NAME/VERSION.", max_length=200)
    image_prefix: Registry | None = Field(
        default=None,
        description="What names of images begin with, whatever the registry's address is; default: the registry.",
    )
    architecture: Literal["amd64", "arm64"] | None = Field(
        default=None, description="Of machines, in the makers' addresses; default: amd64."
    )
    sites: ReleaseSites = part(ReleaseSites, "Where releases are, for type Upstream.")
    images: NamedImages = part(NamedImages, "Images that the registry has under other names.")


class ApiBalancer(ApiModel):
    """What stands in front of the API servers."""

    type: Literal["Local", "Service"] = Field(
        default="Local", description="Service: the same as endpoint.type, which has more types."
    )


PKI = "/etc/kubernetes/pki"  # kubeadm's certificatesDir where nobody says otherwise
Level = Literal["privileged", "baseline", "restricted"]
Hours = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,6}h(0m)?(0s)?$", max_length=16)]
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=253)]


class PodSecurity(ApiModel):
    """Pod Security levels of namespaces that say nothing themselves."""

    enforce: Level | None = Field(default=None, description="Pods beyond it are refused.")
    audit: Level | None = Field(default=None, description="Pods beyond it are in the audit log.")
    warn: Level | None = Field(default=None, description="Who makes pods beyond it is warned.")
    exempt: tuple[Word, ...] | None = listed("Further namespaces without a level.", default=None, max_length=100)


class EventRateLimit(ApiModel):
    """How many events are taken."""

    type: Literal["Server", "Namespace", "User", "SourceAndObject"] = Field(description="Counted for.")
    qps: int = Field(ge=1, le=1_000_000, description="Events a second.")
    burst: int = Field(ge=1, le=1_000_000, description="Events at once.")
    cache_size: int | None = Field(default=None, ge=1, le=1_000_000, description="How many are counted apart.")


class TlsSettings(ApiModel):
    """TLS of every listener."""

    minimum: Literal["VersionTLS12", "VersionTLS13"] | None = Field(default=None, description="The oldest version.")
    cipher_suites: tuple[Word, ...] | None = listed(
        "Of TLS 1.2, by the names of Go.", default=None, min_length=1, max_length=20
    )


class Hardening(ApiModel):
    """What makes the cluster harder to break into. Keys are no fields: a Secret has them."""

    audit_policy: FreeForm | None = Field(default=None, description="Policy of audit.k8s.io/v1, without apiVersion.")
    tls: TlsSettings = part(TlsSettings, "TLS of every listener.")
    pod_security: PodSecurity | None = Field(default=None, description="Pod Security levels.")
    event_rate_limits: tuple[EventRateLimit, ...] | None = listed(
        "How many events are taken.", key="type", default=None, max_length=4
    )
    admission_plugins: tuple[Word, ...] | None = listed(
        "Further admission plugins.", default=None, min_length=1, max_length=40
    )
    anonymous_health_only: bool | None = switch("Strangers may ask for health and nothing else")
    kubelet_certificates_signed: bool | None = switch("The cluster signs what kubelets serve with")
    seccomp_default: bool | None = switch("Pods without a seccomp profile get the runtime's")
    profiling: bool | None = switch("Components show profiles")
    private_files: bool | None = switch("Files of the kubelet and of the pod network are root's alone")


ATOMIC: dict[str, JsonValue] = {"x-kubernetes-list-type": "atomic"}  # nothing in an item names it


class TokenIssuer(ApiModel):
    """Who issues tokens, and for whom."""

    url: Annotated[str, StringConstraints(pattern=r"^https://.+", max_length=2048)] = Field(
        description="URL of the issuer, as tokens name it; its keys are found below it."
    )
    discovery_url: Annotated[str, StringConstraints(pattern=r"^https://.+", max_length=2048)] | None = Field(
        default=None, alias="discoveryURL", description="Where its configuration is, if not below its URL."
    )
    audiences: tuple[Annotated[str, StringConstraints(min_length=1, max_length=2048)], ...] = listed(
        "Whom tokens are for: any of these.", min_length=1, max_length=20
    )
    audience_match_policy: Literal["MatchAny"] | None = Field(
        default=None, description="With several audiences: MatchAny."
    )
    certificate_authority: str | None = Field(
        default=None, max_length=65536, description="CAs of its server, in PEM; default: those of the machine."
    )


class TokenAuthenticator(ApiModel):
    """Takes the tokens of one issuer, such as an OpenID Connect provider, as `jwt` of AuthenticationConfiguration."""

    issuer: TokenIssuer = Field(description="Who issues the tokens.")
    claim_mappings: FreeForm = Field(description="What of a token is the name, the groups, the uid and more of a user.")
    claim_validation_rules: tuple[FreeForm, ...] | None = Field(
        default=None, max_length=50, json_schema_extra=ATOMIC, description="What must hold of the claims of a token."
    )
    user_validation_rules: tuple[FreeForm, ...] | None = Field(
        default=None,
        max_length=50,
        json_schema_extra=ATOMIC,
        description="What must hold of the user that comes of a token.",
    )


class Authentication(ApiModel):
    """Who may log in besides the owners of certificates and service accounts."""

    jwt: tuple[TokenAuthenticator, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        json_schema_extra=ATOMIC,
        description="Authenticators of JSON Web Tokens.",
    )


CertificateFolder = Annotated[str, StringConstraints(pattern=r"^/etc/kubernetes/[A-Za-z0-9_-]+$", max_length=200)]
ApiName = Annotated[
    str,
    StringConstraints(pattern=r"^([*]\.)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$|^[0-9A-Fa-f:.]+$", max_length=253),
]


# What the playbooks and kubeadm keep in /etc/kubernetes, as preflight_rules of playbooks/roles/preflight has it.
TAKEN_FOLDERS = tuple(
    f"/etc/kubernetes/{name}" for name in ("manifests", "patches", "hardening", "scheduler", "tmp", "recover")
)
OWN_FOLDER = Cel(
    f"!has(self.folder) || !(self.folder in [{', '.join(map(repr, TAKEN_FOLDERS))}])",
    "the playbooks or kubeadm have something else in this folder",
    "use a folder of its own, such as /etc/kubernetes/ssl",
    ".folder",
    holds=lambda certificates: certificates.folder not in TAKEN_FOLDERS,
)


class CertificateSettings(ApiModel):
    """For how long certificates are valid, where they are, and what they name."""

    cel: ClassVar[tuple[Cel, ...]] = (
        OWN_FOLDER,
        Cel(
            f"(has(self.folder) ? self.folder : '{PKI}') == (has(oldSelf.folder) ? oldSelf.folder : '{PKI}')",
            "folder cannot change",
            ANEW,
            ".folder",
        ),
    )
    folder: CertificateFolder | None = Field(
        default=None,
        description="Folder of certificates, in /etc/kubernetes; default: /etc/kubernetes/pki; cannot change.",
    )
    extra_sans: tuple[ApiName, ...] | None = listed(
        "Further names and addresses in the certificate of the API servers.", default=None, max_length=100
    )
    validity: Hours | None = Field(default=None, description="Of what kubeadm signs, in hours; default: a year.")
    ca_validity: Hours | None = Field(default=None, description="Of CAs that are made, in hours; default: ten years.")
    renew_before_days: int | None = Field(
        default=None, ge=0, le=3650, description="Within how many days of its end one is renewed; default: 90."
    )
