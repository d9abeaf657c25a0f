"""What kubeadm keeps in a guest for the next upgrade and the next machine: it must be what the cell asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP
from harness.validate.facts.cluster import Json, value_at
from harness.validate.facts.command_lines import OF_THE_CELL
from harness.validate.facts.customised import customised_flags, patched_settings, patches_of_others
from harness.validate.facts.expected import PROXY_MODES, ExpectedGuest
from harness.validate.facts.hardening import hardened_flags
from harness.validate.facts.setup import MachineSetup
from harness.validate.judge.command_lines import wanted_flags
from harness.validate.judge.finding import unjudged
from harness.validate.judge.mismatch import Mismatch, differs, differs_upstream, on_every

CLUSTER, KUBELET = "kube-system/kubeadm-config", "kube-system/kubelet-config"
ETCD = "etcd.local"
ARGUMENTS = {  # part of kubeadm's configuration -> its program
    "apiServer": "kube-apiserver",
    "controllerManager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    ETCD: "etcd",
}
INFO = "kube-public/cluster-info"
ZERO: tuple[Any, ...] = (None, "", 0, "0", "0s", {}, [])  # what kubeadm writes for "the kubelet's default"
ADDED_ON_NODES = ("containerRuntimeEndpoint",)  # kubeadm writes it beside what the ConfigMap has
OF_THE_NODE = ("resolvConf", "kind", "apiVersion")  # kubeadm sets the first by what runs on each machine
RESOLV_CONF = (None, "", "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")  # to one of these


def settings_in(api: Cluster, place: str, key: str) -> Json | None:
    """Return the YAML under a key of a ConfigMap (NAMESPACE/NAME), None where it has none."""
    namespace, _, name = place.partition("/")
    text = ((api.get(CONFIG_MAP, name, namespace) or {}).get("data") or {}).get(key)
    read: Any = yaml.safe_load(text) if text is not None else None
    return read if isinstance(read, dict) else None


def wrong_cluster_settings(api: Cluster, kubeconfig: Path, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where kubeadm-config and cluster-info are not those of this cluster and its cell.

    Args:
        kubeconfig: the admin's, which has the cluster's CA.
    """
    kept = settings_in(api, CLUSTER, "ClusterConfiguration")
    if kept is None:
        return _missing(CLUSTER, expected)
    wanted = {
        "kubernetesVersion": f"v{expected.kubernetes}",
        "networking.podSubnet": expected.pod_cidrs,
        "networking.serviceSubnet": expected.service_cidrs,
        "networking.dnsDomain": expected.dns_domain,
        "imageRepository": expected.image_prefix if expected.leaves.images_from_mirror else "",
    }
    version = str(wanted.pop("kubernetesVersion"))
    found = differs_upstream(CLUSTER, "kubernetesVersion", version, str(value_at(kept, "kubernetesVersion")))
    found += [
        one for path, value in wanted.items() if value for one in differs(CLUSTER, path, value, value_at(kept, path))
    ]
    info = settings_in(api, INFO, "kubeconfig")
    if info is None:
        return [*found, *_missing(INFO, expected)]
    told = info["clusters"][0]["cluster"]
    own = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    endpoint = kept.get("controlPlaneEndpoint")
    found += differs(INFO, "server", f"https://{endpoint}", told.get("server")) if endpoint else []
    same = told.get("certificate-authority-data") == own.get("certificate-authority-data")
    found += [] if same else [Mismatch(INFO, "the CA of the admin's kubeconfig", "another CA, or none")]
    return [*found, *strange_arguments(kept, expected), *_strayed_proxy(api, endpoint, expected)]


def strange_arguments(kept: Json, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Yield flags in kubeadm-config that the next upgrade would set although nobody asked, and those that it lacks."""
    own = expected.leaves.flags
    if own is None:
        yield unjudged(f"flags in {CLUSTER}", "product.yml does not say which the product adds (flags)")
        return
    for part, program in ARGUMENTS.items():
        settings = value_at(kept, part)
        if not isinstance(settings, dict) and part == ETCD:  # it runs elsewhere
            continue
        asked = {**own.get(program, {}), **hardened_flags(program, expected.variables)}
        asked |= customised_flags(program, expected.variables)
        asked |= expected.variables.get(OF_THE_CELL[program]) or {}
        every = wanted_flags(program, expected.control_plane[0], expected)
        there = _arguments((settings or {}).get("extraArgs") or ())
        for flag in sorted({*asked, *there}):
            value = every[flag] if flag in asked else None
            yield from differs(CLUSTER, f"{part}.extraArgs {flag}", value, there.get(flag))


def _arguments(given: Any) -> dict[str, str]:
    """Return flags by name: kubeadm's v1beta4 has a list of names and values, v1beta3 a mapping."""
    return dict(given) if isinstance(given, Mapping) else {one["name"]: str(one.get("value", "")) for one in given}


def _strayed_proxy(api: Cluster, endpoint: str | None, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where kube-proxy's next pods would look for another API server than kubeadm's."""
    place = expected.leaves.kube_proxy
    if place is None or endpoint is None or expected.kube_proxy_mode not in PROXY_MODES:
        return []
    config = settings_in(api, place, "kubeconfig.conf") or {}
    servers = [one["cluster"].get("server") for one in config.get("clusters") or ()]
    return differs(f"ConfigMap {place} kubeconfig.conf", "server", [f"https://{endpoint}"], servers)


def wrong_kubelet_template(
    api: Cluster, running: Mapping[str, Mapping[str, Any]], dns_address: str, expected: ExpectedGuest
) -> list[Mismatch]:
    """Return where kubelet-config is not as the cell asks, or a running kubelet is configured otherwise.

    Args:
        running: the configuration that each kubelet reports, by node.  dns_address: what kubelets give to pods.
    """
    kept = settings_in(api, KUBELET, "kubelet")
    if kept is None or expected.leaves.kubeadm is None:
        return _missing(KUBELET, expected)
    wanted = {"clusterDNS": [dns_address], "clusterDomain": expected.dns_domain, **expected.kubelet_config}
    found = [one for path, value in wanted.items() for one in differs(KUBELET, path, value, value_at(kept, path))]

    patched = patched_settings(expected.variables)  # another check looks at these

    def judge(name: str, seen: Mapping[str, Any]) -> Iterator[Mismatch]:
        for path, value in given(kept):
            if path.partition(".")[0] in patched:
                continue
            there = value_at(seen, path)
            yield from differs(
                f"{name} kubelet",
                f"{path} as in {KUBELET}:",
                value,
                False if value is False and there is None else there,
            )

    return found + on_every(expected.nodes, running, judge)


def strange_kubelet_files(api: Cluster, setups: Mapping[str, MachineSetup], expected: ExpectedGuest) -> list[Mismatch]:
    """Return settings in kubelets' files that kubelet-config does not have: nobody asked for them."""
    kept = settings_in(api, KUBELET, "kubelet")
    if kept is None or expected.leaves.kubeadm is None:
        return _missing(KUBELET, expected)
    if patches_of_others(expected.variables):
        return [unjudged("settings in kubelets' files", "the cell has patches, which change them on each machine")]
    known, patched = dict(given(kept)), patched_settings(expected.variables)

    def judge(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
        for path, value in given(seen.kubelet):
            if path not in known and path not in ADDED_ON_NODES and path.partition(".")[0] not in patched:
                yield Mismatch(f"{name} kubelet's file", f"no setting that {KUBELET} does not have", f"{path}: {value}")
        if seen.kubelet.get("resolvConf") not in RESOLV_CONF:
            wanted = f"resolvConf {' or '.join(filter(None, RESOLV_CONF))}, as kubeadm sets it"
            yield Mismatch(f"{name} kubelet's file", wanted, str(seen.kubelet["resolvConf"]))

    return on_every(expected.nodes, setups, judge)


def given(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings that are not left to the kubelet's default, each with its path of keys, joined by dots."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from given(value, f"{above}{key}.")
        elif not (value in ZERO and value is not False) and key not in OF_THE_NODE:
            yield f"{above}{key}", value


def _missing(place: str, expected: ExpectedGuest) -> list[Mismatch]:
    if expected.leaves.kubeadm is not None:
        return [Mismatch(f"ConfigMap {place}", "to exist", "none, or no settings in it")]
    return [
        unjudged(f"ConfigMap {place}", "product.yml does not say that kubeadm made the cluster (kubeadm)", whole=True)
    ]
