"""kubeadm: whole command lines of its programs, and the settings that it keeps for upgrades and new machines.

The flags are those of Kubernetes 1.34 to 1.37, which give the same but for OF_A_MINOR: from the manifests that `kubeadm
init phase control-plane all` and `kubeadm init phase etcd local` of 1.34.4, 1.35.4, 1.36.1, 1.36.3 and 1.37.2 write
with --dry-run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.kube import Cluster
from harness.urls import in_url, joined
from harness.validate.expected import PROXY_MODES, ExpectedGuest, minor_of
from harness.validate.facts.cluster import ZERO, Json, explicit_settings, settings_in, value_at
from harness.validate.facts.node import NodeFacts, Process
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, differs, differs_upstream, on_every, unjudged
from harness.validate.variables import (
    customised_flags,
    external_flags,
    hardened_flags,
    patched_settings,
    patches_of_others,
)

ANY = "{any}"  # what depends on when a machine joined
MAY_LACK = frozenset({"initial-cluster", "initial-cluster-state", "initial-advertise-peer-urls"})
PKI = "{certificates}"
CONF = "/etc/kubernetes"


def _own(program: str) -> dict[str, str]:
    """Return the flags of a client that the API server's clients are known to, by one kubeconfig."""
    path = f"{CONF}/{program}.conf"
    return {
        "authentication-kubeconfig": path,
        "authorization-kubeconfig": path,
        "bind-address": "127.0.0.1",
        "kubeconfig": path,
        "leader-elect": "true",
    }


MINORS = ("1.34", "1.35", "1.36", "1.37")

# kubeadm 1.34 writes it into kubeadm-flags.env; later ones do not, and the kubelet of 1.35 does not know it.
OF_A_MINOR: Mapping[str, Mapping[str, Mapping[str, str]]] = {"1.34": {"kubelet": {"pod-infra-container-image": ANY}}}

KUBEADM: Mapping[str, Mapping[str, str]] = {
    "kube-apiserver": {
        "advertise-address": "{address}",
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "client-ca-file": f"{PKI}/ca.crt",
        "enable-admission-plugins": "NodeRestriction",
        "enable-bootstrap-token-auth": "true",
        "etcd-cafile": f"{PKI}/etcd/ca.crt",
        "etcd-certfile": f"{PKI}/apiserver-etcd-client.crt",
        "etcd-keyfile": f"{PKI}/apiserver-etcd-client.key",
        "etcd-servers": "{etcd}",
        "kubelet-client-certificate": f"{PKI}/apiserver-kubelet-client.crt",
        "kubelet-client-key": f"{PKI}/apiserver-kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
        "proxy-client-cert-file": f"{PKI}/front-proxy-client.crt",
        "proxy-client-key-file": f"{PKI}/front-proxy-client.key",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-client-ca-file": f"{PKI}/front-proxy-ca.crt",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "secure-port": "6443",
        "service-account-issuer": "https://kubernetes.default.svc.{domain}",
        "service-account-key-file": f"{PKI}/sa.pub",
        "service-account-signing-key-file": f"{PKI}/sa.key",
        "service-cluster-ip-range": "{service_cidr}",
        "tls-cert-file": f"{PKI}/apiserver.crt",
        "tls-private-key-file": f"{PKI}/apiserver.key",
    },
    "kube-controller-manager": {
        **_own("controller-manager"),
        "allocate-node-cidrs": "true",
        "client-ca-file": f"{PKI}/ca.crt",
        "cluster-cidr": "{pod_cidr}",
        "cluster-name": "kubernetes",
        "cluster-signing-cert-file": f"{PKI}/ca.crt",
        "cluster-signing-key-file": f"{PKI}/ca.key",
        "controllers": "*,bootstrapsigner,tokencleaner",
        "requestheader-client-ca-file": f"{PKI}/front-proxy-ca.crt",
        "root-ca-file": f"{PKI}/ca.crt",
        "service-account-private-key-file": f"{PKI}/sa.key",
        "service-cluster-ip-range": "{service_cidr}",
        "use-service-account-credentials": "true",
    },
    "kube-scheduler": _own("scheduler"),
    "etcd": {
        "advertise-client-urls": "https://{host}:2379",
        "cert-file": f"{PKI}/etcd/server.crt",
        "client-cert-auth": "true",
        "data-dir": "/var/lib/etcd",
        "feature-gates": "InitialCorruptCheck=true",
        "initial-advertise-peer-urls": "https://{host}:2380",
        "initial-cluster": ANY,
        "initial-cluster-state": ANY,
        "key-file": f"{PKI}/etcd/server.key",
        "listen-client-urls": "https://{loopback}:2379,https://{host}:2379",
        "listen-metrics-urls": "http://{loopback}:2381",
        "listen-peer-urls": "https://{host}:2380",
        "name": "{name}",
        "peer-cert-file": f"{PKI}/etcd/peer.crt",
        "peer-client-cert-auth": "true",
        "peer-key-file": f"{PKI}/etcd/peer.key",
        "peer-trusted-ca-file": f"{PKI}/etcd/ca.crt",
        "snapshot-count": "10000",
        "trusted-ca-file": f"{PKI}/etcd/ca.crt",
        "watch-progress-notify-interval": "5s",
    },
    "kube-proxy": {"config": "/var/lib/kube-proxy/config.conf", "hostname-override": "{name}"},
}
OF_THE_CELL: Mapping[str, str] = {  # variable with a program's further flags
    "kube-apiserver": "cluster_apiserver_extra_args",
    "kube-controller-manager": "cluster_controller_manager_extra_args",
    "kube-scheduler": "cluster_scheduler_extra_args",
    "etcd": "cluster_etcd_extra_args",
}
Facts = Mapping[str, NodeFacts]
NOT_SAID = "product.yml does not say which flags the product adds (flags)"


def strange_flags(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return flags that nobody asked for, those that are missing, and those with another value."""
    own = expected.leaves.flags
    if own is None or expected.leaves.kubeadm is None:
        return [unjudged("whole command lines", NOT_SAID, whole=True)]
    if expected.minor not in MINORS:
        why = f"kubeadm's flags are known for Kubernetes {MINORS[0]} to {MINORS[-1]}, and this is {expected.minor}"
        return [unjudged("whole command lines", why, whole=True)]
    programs = (*KUBEADM, *(name for name in own if name not in KUBEADM))

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        for program in programs:
            for process in node.running(program):
                yield from _compare(f"{name} {program}", wanted_flags(program, name, expected), process)

    return on_every(expected.machines, facts, judge)


def wanted_flags(program: str, machine: str, expected: ExpectedGuest) -> dict[str, str]:
    """Return the flags of a program on a machine."""
    of_cell = expected.variables.get(OF_THE_CELL.get(program, ""), None) or {}
    minor = minor_of(expected.kubernetes_of(machine)) if program == "kubelet" else expected.minor
    of_minor = OF_A_MINOR.get(minor, {}).get(program, {})
    flags = {**KUBEADM.get(program, {}), **of_minor, **(expected.leaves.flags or {}).get(program, {})}
    flags |= {**hardened_flags(program, expected.variables), **customised_flags(program, expected.variables)}
    flags |= external_flags(program, expected.variables)
    flags |= {flag: str(value).lower() if isinstance(value, bool) else str(value) for flag, value in of_cell.items()}
    words = {
        "{address}": expected.addresses[machine],
        "{host}": in_url(expected.addresses[machine]),
        "{loopback}": in_url(expected.loopback),
        "{addresses}": ",".join(expected.addresses_of(machine)),
        "{name}": machine,
        "{certificates}": expected.leaves.certificates or "",
        "{domain}": expected.dns_domain,
        "{pod_cidr}": expected.pod_cidrs,
        "{service_cidr}": expected.service_cidrs,
        "{etcd}": _members(expected),
    }
    for word, value in words.items():
        flags = {flag: text.replace(word, value) for flag, text in flags.items()}
    return flags


def flags_of(process: Process) -> dict[str, str]:
    """Return the flags of a command line by name, without their dashes; a flag without a value is "true"."""
    flags: dict[str, str] = {}
    for word in process.argv[1:]:
        name, equal, value = word.lstrip("-").partition("=")
        flags[name] = value if equal else "true"
    return flags


def _members(expected: ExpectedGuest) -> str:
    if expected.stacked_etcd and expected.leaves.etcd.used == "own":
        return f"https://{joined(expected.loopback, 2379)}"
    return ",".join(sorted(f"https://{joined(expected.addresses[name], 2379)}" for name in expected.etcd))


def _compare(where: str, flags: Mapping[str, str], process: Process) -> Iterator[Mismatch]:
    observed = flags_of(process)
    for flag in sorted({*flags, *observed}):
        value, there = flags.get(flag), observed.get(flag)
        if value is None:
            yield Mismatch(where, f"no flag --{flag}, for which nobody asked", f"--{flag}={there}")
        elif there is None and flag not in MAY_LACK:
            yield Mismatch(where, f"--{flag}={value}", "no such flag")
        elif there is not None and value != ANY and not _same(flag, value, there):
            yield Mismatch(where, f"--{flag}={value}", f"--{flag}={there}")


def _same(flag: str, expected_value: str, observed: str) -> bool:
    if flag == "etcd-servers":  # any order leads to all of them
        return sorted(expected_value.split(",")) == sorted(observed.split(","))
    return expected_value == observed


CLUSTER, KUBELET = "kube-system/kubeadm-config", "kube-system/kubelet-config"
ETCD = "etcd.local"
ARGUMENTS = {  # part of kubeadm's configuration -> its program
    "apiServer": "kube-apiserver",
    "controllerManager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    ETCD: "etcd",
}
INFO = "kube-public/cluster-info"
ADDED_ON_NODES = ("containerRuntimeEndpoint",)  # kubeadm writes it beside what the ConfigMap has
RESOLV_CONF = (None, "", "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")  # to one of these


def wrong_cluster_settings(api: Cluster, kubeconfig: Path, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where kubeadm-config and cluster-info are not those of this cluster and its cell.

    Args:
        kubeconfig: the admin's, which has the cluster's CA.
    """
    kept = settings_in(api, CLUSTER, "ClusterConfiguration")
    if kept is None:
        return _missing(CLUSTER, expected)
    endpoint = _endpoint(kept, expected)
    settings = {
        "controlPlaneEndpoint": endpoint,
        "kubernetesVersion": f"v{expected.kubernetes}",
        "networking.podSubnet": expected.pod_cidrs,
        "networking.serviceSubnet": expected.service_cidrs,
        "networking.dnsDomain": expected.dns_domain,
        "imageRepository": expected.image_prefix if expected.leaves.images_from_mirror else "",
    }
    version = str(settings.pop("kubernetesVersion"))
    mismatches = differs_upstream(CLUSTER, "kubernetesVersion", version, str(value_at(kept, "kubernetesVersion")))
    mismatches += [
        mismatch
        for path, value in settings.items()
        if value
        for mismatch in differs(CLUSTER, path, value, value_at(kept, path))
    ]
    info = settings_in(api, INFO, "kubeconfig")
    if info is None:
        return [*mismatches, *_missing(INFO, expected)]
    told = info["clusters"][0]["cluster"]
    own = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    mismatches += differs(INFO, "server", f"https://{endpoint}", told.get("server")) if endpoint else []
    same = told.get("certificate-authority-data") == own.get("certificate-authority-data")
    mismatches += [] if same else [Mismatch(INFO, "the CA of the admin's kubeconfig", "another CA, or none")]
    return [*mismatches, *strange_arguments(kept, expected), *_strayed_proxy(api, endpoint, expected)]


def _endpoint(kept: Json, expected: ExpectedGuest) -> str:
    """Return HOST:PORT of the API as kubeadm hands it on: the product's, else what kubeadm keeps itself."""
    own = expected.leaves.local_api.address if expected.leaves.manifests is not None else None
    return own or str(kept.get("controlPlaneEndpoint") or "")


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
        asked |= {**customised_flags(program, expected.variables), **external_flags(program, expected.variables)}
        asked |= expected.variables.get(OF_THE_CELL[program]) or {}
        every = wanted_flags(program, expected.control_plane[0], expected)
        there = _arguments((settings or {}).get("extraArgs") or ())
        for flag in sorted({*asked, *there}):
            value = every[flag] if flag in asked else None
            yield from differs(CLUSTER, f"{part}.extraArgs {flag}", value, there.get(flag))


def _arguments(arguments: Any) -> dict[str, str]:
    """Return flags by name: kubeadm's v1beta4 has a list of names and values, v1beta3 a mapping."""
    return (
        dict(arguments)
        if isinstance(arguments, Mapping)
        else {argument["name"]: str(argument.get("value", "")) for argument in arguments}
    )


def _strayed_proxy(api: Cluster, endpoint: str, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where kube-proxy's next pods would look for another API server than kubeadm's."""
    place = expected.leaves.kube_proxy
    if place is None or not endpoint or expected.kube_proxy_mode not in PROXY_MODES:
        return []
    config = settings_in(api, place, "kubeconfig.conf") or {}
    servers = [cluster["cluster"].get("server") for cluster in config.get("clusters") or ()]
    return differs(f"ConfigMap {place} kubeconfig.conf", "server", [f"https://{endpoint}"], servers)


# What kubeadm writes into kubelet-config of its own (`kubeadm init phase upload-config kubelet --dry-run`).
KUBELET_OWN: Mapping[str, Any] = {
    "authentication.anonymous.enabled": False,
    "authentication.webhook.enabled": True,
    "authentication.x509.clientCAFile": f"{PKI}/ca.crt",
    "authorization.mode": "Webhook",
    "cgroupDriver": "systemd",
    "clusterDomain": "{domain}",
    "healthzBindAddress": "127.0.0.1",
    "healthzPort": 10248,
    "rotateCertificates": True,
    "staticPodPath": "{manifests}",
}
WRITTEN_FALSE = ("failCgroupV1",)  # which kubeadm writes where nobody asks for it


def _kubelet_settings(dns_address: str, expected: ExpectedGuest) -> dict[str, Any]:
    """Return the settings that kubelet-config must have, by path: kubeadm's own, and the cell's above them."""
    words = {
        "{domain}": expected.dns_domain,
        "{manifests}": expected.leaves.control_plane.manifests or "/etc/kubernetes/manifests",
        f"{PKI}/ca.crt": f"{expected.leaves.certificates}/ca.crt",
    }
    own = {path: words.get(value, value) if isinstance(value, str) else value for path, value in KUBELET_OWN.items()}
    product = expected.leaves.kubelet.settings
    return {**own, **product, "clusterDNS": [dns_address], **dict(explicit_settings(expected.kubelet_config))}


def wrong_kubelet_template(
    api: Cluster, running: Mapping[str, Mapping[str, Any]], dns_address: str, expected: ExpectedGuest
) -> list[Mismatch]:
    """Return where kubelet-config is not as the cell asks, or a running kubelet is configured otherwise.

    Where the product says all that it installs, both are compared with the cell, so that the wrong one is named.

    Args:
        running: the configuration that each kubelet reports, by node.  dns_address: what kubelets give to pods.
    """
    kept = settings_in(api, KUBELET, "kubelet")
    if kept is None or expected.leaves.kubeadm is None:
        return _missing(KUBELET, expected)
    all_said = expected.leaves.manifests is not None
    settings = _kubelet_settings(dns_address, expected)
    asked = {"clusterDNS", "clusterDomain", *dict(explicit_settings(expected.kubelet_config))}
    mismatches: list[Mismatch] = []
    for path, value in settings.items():
        if all_said or path in asked:
            observed = value_at(kept, path)
            mismatches += [] if value in ZERO and observed in ZERO else differs(KUBELET, path, value, observed)
    there = dict(explicit_settings(kept))
    for path, value in there.items() if all_said else ():
        if path not in settings and not (value is False and path in WRITTEN_FALSE):
            mismatches.append(Mismatch(KUBELET, f"no {path}, for which nobody asked", repr(value)))

    patched = patched_settings(expected.variables)  # another check looks at these
    right = {path: value for path, value in settings.items() if path in there} if all_said else there

    def judge(name: str, configuration: Mapping[str, Any]) -> Iterator[Mismatch]:
        for path, value in right.items():
            if path.partition(".")[0] in patched:
                continue
            observed = value_at(configuration, path)
            what = f"{path} as the cell asks:" if all_said else f"{path} as in {KUBELET}:"
            yield from differs(
                f"{name} kubelet", what, value, False if value is False and observed is None else observed
            )

    mismatches += on_every(expected.nodes, running, judge)
    return mismatches if all_said else [*mismatches, unjudged(f"what else {KUBELET} has", NOT_ALL)]


NOT_ALL = "product.yml does not say all that it installs (manifests)"


def strange_kubelet_files(api: Cluster, setups: Mapping[str, MachineSetup], expected: ExpectedGuest) -> list[Mismatch]:
    """Return settings in kubelets' files that kubelet-config does not have: nobody asked for them."""
    kept = settings_in(api, KUBELET, "kubelet")
    if kept is None or expected.leaves.kubeadm is None:
        return _missing(KUBELET, expected)
    if patches_of_others(expected.variables):
        return [unjudged("settings in kubelets' files", "the cell has patches, which change them on each machine")]
    known, patched = dict(explicit_settings(kept)), patched_settings(expected.variables)
    if expected.leaves.manifests is not None:  # what kubelet-config has too much, or lacks, is not the kubelets' doing
        known = {**_kubelet_settings("", expected), **dict.fromkeys(WRITTEN_FALSE, False)}

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        for path, value in explicit_settings(setup.kubelet):
            if path not in known and path not in ADDED_ON_NODES and path.partition(".")[0] not in patched:
                yield Mismatch(
                    f"{name} kubelet's file", "no setting that is not of kubeadm or the cell", f"{path}: {value}"
                )
        if setup.kubelet.get("resolvConf") not in RESOLV_CONF:
            requirement = f"resolvConf {' or '.join(filter(None, RESOLV_CONF))}, as kubeadm sets it"
            yield Mismatch(f"{name} kubelet's file", requirement, str(setup.kubelet["resolvConf"]))

    return on_every(expected.nodes, setups, judge)


def _missing(place: str, expected: ExpectedGuest) -> list[Mismatch]:
    if expected.leaves.kubeadm is not None:
        return [Mismatch(f"ConfigMap {place}", "to exist", "none, or no settings in it")]
    return [
        unjudged(f"ConfigMap {place}", "product.yml does not say that kubeadm made the cluster (kubeadm)", whole=True)
    ]
