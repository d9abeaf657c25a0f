"""The parts of a declared cluster: versions and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field, JsonValue

from harness.kube.kinds.models import ApiModel, Cel, mapped, part
from harness.kube.kinds.page import SpecMistake
from harness.operator.api.base import Arguments, ComponentVersion, FreeForm

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


class KubernetesSettings(ApiModel):
    """Settings of Kubernetes' own components."""

    api_server: Flags = part(Flags, "kube-apiserver.")
    controller_manager: Flags = part(Flags, "kube-controller-manager.")
    scheduler: Flags = part(Flags, "kube-scheduler.")
    kubelet: KubeletSettings = part(KubeletSettings, "The kubelets.")
    kube_proxy: KubeProxySettings = part(KubeProxySettings, "kube-proxy.")
