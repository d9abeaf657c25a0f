"""Parts of a declared cluster: their versions and settings, its network, and where binaries and images come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, StringConstraints, model_validator

from harness.kube.kinds.models import ApiModel, Cel, listed, mapped, part, unchanged
from harness.kube.kinds.page import SpecMistake
from harness.operator.api.networks import HIGHEST_PORT, HIGHEST_VNI, Cidr
from harness.operator.api.resources import Arguments, ComponentVersion, FreeForm, Line, ObjectName

FLAG_PATTERN = r"^[a-z][a-z0-9-]*$"
FLAGS = Cel(
    f"self.extraArgs.all(flag, flag.matches('{FLAG_PATTERN}'))",
    "a flag has letters that no flag has",
    "write flags without dashes in front, with lower-case letters, digits and '-'",
    ".extraArgs",
    holds=lambda flags: all(re.fullmatch(FLAG_PATTERN, flag) for flag in flags.extra_args),
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


class ContainerRuntime(ApiModel):
    """The container runtime of all machines with a kubelet."""

    name: Literal["containerd"] = Field(default="containerd", description="Container runtime; there is one choice.")
    version: ComponentVersion | None = version_of("the container runtime")
    config: FreeForm = mapped("Settings that are merged into the runtime's configuration file.")


class Flags(ApiModel):
    """Further flags of one component."""

    cel: ClassVar[tuple[Cel, ...]] = (FLAGS,)
    extra_args: Arguments = mapped("Flags without dashes, and their values.")


class KubeletSettings(ApiModel):
    """Settings of the kubelets."""

    config: FreeForm = mapped("Settings that are merged into KubeletConfiguration.")


class KubeProxySettings(ApiModel):
    """Settings of kube-proxy."""

    mode: Literal["nftables", "iptables"] = Field(default="nftables", description="How kube-proxy writes its rules.")
    config: FreeForm = mapped("Settings that are merged into KubeProxyConfiguration.")


class SchedulerSettings(Flags):
    """Settings of the scheduler."""

    config: FreeForm | None = Field(default=None, description="KubeSchedulerConfiguration, of version v1.")


class KubernetesSettings(ApiModel):
    """Settings of Kubernetes' own components."""

    api_server: Flags = part(Flags, "kube-apiserver.")
    controller_manager: Flags = part(Flags, "kube-controller-manager.")
    scheduler: SchedulerSettings = part(SchedulerSettings, "kube-scheduler.")
    patches: FreeForm | None = Field(default=None, description="Patches of kubeadm, by the names of their files.")
    kubelet: KubeletSettings = part(KubeletSettings, "The kubelets.")
    kube_proxy: KubeProxySettings = part(KubeProxySettings, "kube-proxy.")


Domain = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", max_length=253)
]
MirrorUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+(/\S*)?$", max_length=1024)]
Registry = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.\[\]:_-]+(/[a-z0-9._/-]+)?$", max_length=255)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)]


def network_of(text: str | None) -> IPv4Network | IPv6Network | None:
    """Read a network in CIDR notation, None when it is none, or one in a form that the API server does not read."""
    if text is None:
        return None
    try:
        found = ip_network(text)
    except ValueError:
        return None
    mapped_to_4 = isinstance(found, IPv6Network) and found.network_address.ipv4_mapped is not None
    return None if mapped_to_4 or re.search("/0[0-9]", text) else found


def _apart(network: ClusterNetwork) -> bool:
    pods, services = network_of(network.pods), network_of(network.services)
    return pods is None or services is None or not pods.overlaps(services)


IS_NETWORK = "isCIDR(self.{0}) && cidr(self.{0}).masked() == cidr(self.{0})"
OVERLAP = Cel(
    "!has(self.pods) || !has(self.services) || "
    f"!({IS_NETWORK.format('pods')}) || !({IS_NETWORK.format('services')}) || "
    "!(cidr(self.pods).containsCIDR(cidr(self.services)) || cidr(self.services).containsCIDR(cidr(self.pods)))",
    "the networks of pods and services overlap",
    "choose two networks that have no address in common",
    ".services",
    holds=_apart,
)


def _is_network(field: str, example: str) -> Cel:
    return Cel(
        f"!has(self.{field}) || ({IS_NETWORK.format(field)})",
        "not a network in CIDR notation",
        f"write one such as {example}",
        f".{field}",
        holds=lambda network: getattr(network, field) is None or network_of(getattr(network, field)) is not None,
    )


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


class Vxlan(ApiModel):
    """How flannel wraps packets between machines."""

    port: int | None = Field(
        default=None,
        ge=1,
        le=HIGHEST_PORT,
        description="UDP port; default: that of the pool, or 8472. Change it if machines use VXLAN themselves.",
    )
    vni: int | None = Field(
        default=None, ge=1, le=HIGHEST_VNI, description="VXLAN number; default: that of the pool, or 1; cannot change."
    )
    mtu: int = Field(default=0, ge=0, le=65535, description="MTU; 0: that of the machine's interface, less the header.")


# As in playbooks/group_vars/all/main.yml.
DEFAULT_NETWORKS = {"pods": "10.243.0.0/16", "services": "10.95.0.0/16"}
DEFAULT_PORT = 8472


def _same(field: str) -> Cel:
    """Return the rule that a network stays: a field that is not there has its default, or what the pool gives."""
    told = "(has({0}.{1}) ? {0}.{1} : has({0}.pool) ? '' : '{2}')"
    before, after = (told.format(who, field, DEFAULT_NETWORKS[field]) for who in ("oldSelf", "self"))
    return Cel(f"{after} == {before}", f"{field} cannot change", ANEW, f".{field}")


ANEW = "delete the object and create it again to change this"
SAME_POOL = Cel(
    "!has(oldSelf.pool) || (has(self.pool) && self.pool == oldSelf.pool)", "pool cannot change", ANEW, ".pool"
)


class ClusterNetwork(ApiModel):
    """Addresses and names inside of the cluster."""

    cel: ClassVar[tuple[Cel, ...]] = (
        *(_is_network(field, network) for field, network in DEFAULT_NETWORKS.items()),
        OVERLAP,
        *(unchanged(f".{name}") for name in ("plugin", "dnsDomain")),
        *(_same(field) for field in DEFAULT_NETWORKS),
        SAME_POOL,
    )
    # As in playbooks/group_vars/all/network_plugins.yml.
    plugin: Literal["flannel", "routes"] = Field(default="flannel", description="Network plugin; cannot change.")
    pool: ObjectName | None = Field(
        default=None, description="ClusterNetworkPool that gives the networks which are not set; cannot change."
    )
    pods: Cidr | None = Field(
        default=None, description="Network of the pods; default: that of the pool, or 10.243.0.0/16; cannot change."
    )
    services: Cidr | None = Field(
        default=None, description="Network of the Services; default: that of the pool, or 10.95.0.0/16; cannot change."
    )
    dns_domain: Domain = Field(default="cluster.local", description="Domain of Services; cannot change.")
    vxlan: Vxlan = part(Vxlan, "How flannel wraps packets between machines.")
    load_balancer_addresses: tuple[Line, ...] | None = listed(
        "Addresses that the add-on metallb gives to Services: ranges or networks.",
        default=None,
        min_length=1,
        max_length=50,
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, given: Any) -> Any:
        """Give a network without a pool the defaults of the playbooks."""
        if not isinstance(given, Mapping) or given.get("pool") is not None:
            return given
        made = {**DEFAULT_NETWORKS, **{name: value for name, value in given.items() if value is not None}}
        vxlan = made.get("vxlan", {})
        return {**made, "vxlan": {"port": DEFAULT_PORT, **vxlan} if isinstance(vxlan, Mapping) else vxlan}


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


class ApiBalancer(ApiModel):
    """What stands in front of the API servers."""

    cel: ClassVar[tuple[Cel, ...]] = (unchanged(".type"),)
    type: Literal["Local", "Service"] = Field(
        default="Local", description="Service: also a Service CLUSTER-api in the namespace; cannot change."
    )


def service_name(cluster: str) -> str:
    """Return the name of a cluster's Service and of its EndpointSlice."""
    return f"{cluster}-api"


def service_names(cluster: str, namespace: str) -> list[str]:
    """Return the names of a cluster's API in its infra cluster, which its certificate has to have, the fullest last."""
    name = service_name(cluster)
    return [name, f"{name}.{namespace}", f"{name}.{namespace}.svc"]


Level = Literal["privileged", "baseline", "restricted"]
Hours = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,6}h(0m)?(0s)?$", max_length=16)]
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=253)]


def switch(what: str) -> bool | None:
    """Return the field of a switch that is as the playbooks have it where it is not set."""
    made: bool | None = Field(default=None, description=f"{what}; default: that of the playbooks.")
    return made


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


class CertificateSettings(ApiModel):
    """For how long certificates are valid."""

    validity: Hours | None = Field(default=None, description="Of what kubeadm signs, in hours; default: a year.")
    ca_validity: Hours | None = Field(default=None, description="Of CAs that are made, in hours; default: ten years.")
    renew_before_days: int | None = Field(
        default=None, ge=0, le=3650, description="Within how many days of its end one is renewed; default: 90."
    )
