"""The real control plane as host processes: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

The flags differ from a production cluster's in what a test infrastructure can afford and gains from: etcd does not
flush to disk (its data dies with the instance), nobody elects a leader among one, namespaces are ended by embedded
KubeVirt. Only the API server listens where others than this host reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.embedded.machines.names import API_PORT
from harness.infra.host import pki
from harness.infra.host.layout import Layout
from harness.infra.host.network import (
    ETCD_HTTP_PORT,
    ETCD_PEER_PORT,
    ETCD_PORT,
    KCM_PORT,
    SCHEDULER_PORT,
    address_of,
    loopback_of,
    service_address_of,
    service_range_of,
)
from harness.infra.host.program import HostProgram, PlainCommand, answers, serves

Binaries = Callable[[str], Path]
NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
NAMESPACES = "namespace-controller"  # which embedded KubeVirt is in the place of
COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kubevirt", NAMESPACES)
ISSUER = "https://kubernetes.default.svc.cluster.local"


def server_of(index: int) -> str:
    """Return the URL of an instance's API."""
    return f"https://{address_of(index)}:{API_PORT}"


def ensure_credentials(layout: Layout, index: int) -> None:
    """Make the certificates and kubeconfigs that are missing or do not fit the instance's address."""
    addresses = (address_of(index), loopback_of(index), "127.0.0.1", service_address_of(index))
    pki.ensure(layout.pki, addresses=addresses, names=NAMES, node=layout.node)
    server, cluster = server_of(index), f"vmatrix-{layout.name}"
    kubeconfigs = {component: layout.kubeconfig_of(component) for component in COMPONENTS}
    for stem, path in {**kubeconfigs, "admin": layout.kubeconfig}.items():
        pki.ensure_component_kubeconfig(path, server=server, folder=layout.pki, stem=stem, cluster=cluster)


def programs(
    layout: Layout, index: int, binaries: Binaries, api_flags: Mapping[str, object] | None = None
) -> tuple[HostProgram, ...]:
    """Return the control plane's programs, in the order in which they can start; `api_flags` are kube-apiserver's."""
    return (
        _etcd(layout, index, binaries),
        _apiserver(layout, index, binaries, api_flags or {}),
        _controller_manager(layout, index, binaries),
        _scheduler(layout, index, binaries),
    )


def _etcd(layout: Layout, index: int, binaries: Binaries) -> HostProgram:
    address, files = loopback_of(index), pki.issued(layout.pki, "etcd")
    client, peer = f"https://{address}:{ETCD_PORT}", f"https://{address}:{ETCD_PEER_PORT}"
    http = f"https://{address}:{ETCD_HTTP_PORT}"
    ca = str(layout.pki / "ca.crt")
    flags: dict[str, object] = {
        "name": layout.name,
        "data-dir": layout.etcd,
        "unsafe-no-fsync": "true",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-client-http-urls": http,  # where it serves gRPC alone, it takes a third less processor time
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"{layout.name}={peer}",
        "cert-file": files.certificate,
        "key-file": files.key,
        "trusted-ca-file": ca,
        "client-cert-auth": "true",
        "peer-cert-file": files.certificate,
        "peer-key-file": files.key,
        "peer-trusted-ca-file": ca,
        "peer-client-cert-auth": "true",
        "heartbeat-interval": "20",
        "election-timeout": "200",  # a lone member elects itself: every millisecond here is start-up time
        "snapshot-count": "5000",
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "10m",
        "log-level": "warn",
    }
    ready = answers(f"{http}/health", authority=layout.pki / "ca.crt", client=pki.issued(layout.pki, "etcd-client"))
    return HostProgram("etcd", _start(binaries, "etcd", flags), ready)


def _apiserver(layout: Layout, index: int, binaries: Binaries, more: Mapping[str, object]) -> HostProgram:
    folder, address = layout.pki, address_of(index)
    serving, etcd = pki.issued(folder, "kube-apiserver"), pki.issued(folder, "etcd-client")
    kubelet, proxy = pki.issued(folder, "kubelet-client"), pki.issued(folder, "front-proxy-client")
    flags: dict[str, object] = {
        "bind-address": address,
        "advertise-address": address,
        "secure-port": API_PORT,
        "tls-cert-file": serving.certificate,
        "tls-private-key-file": serving.key,
        "client-ca-file": folder / "ca.crt",
        "etcd-servers": f"https://{loopback_of(index)}:{ETCD_PORT}",
        "etcd-cafile": folder / "ca.crt",
        "etcd-certfile": etcd.certificate,
        "etcd-keyfile": etcd.key,
        "anonymous-auth": "false",
        "authorization-mode": "Node,RBAC",
        "allow-privileged": "true",
        "service-cluster-ip-range": service_range_of(index),
        "service-account-issuer": ISSUER,
        "service-account-key-file": folder / "service-account.pub",
        "service-account-signing-key-file": folder / "service-account.key",
        "kubelet-certificate-authority": folder / "ca.crt",
        "kubelet-client-certificate": kubelet.certificate,
        "kubelet-client-key": kubelet.key,
        "kubelet-preferred-address-types": "InternalIP",
        "requestheader-client-ca-file": folder / "front-proxy-ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "proxy-client-cert-file": proxy.certificate,
        "proxy-client-key-file": proxy.key,
        "enable-aggregator-routing": "true",  # aggregated APIs are reached at their endpoints: no kube-proxy here
        "shutdown-delay-duration": "0s",
        "event-ttl": "6h",
        "watch-cache": "false",  # with it, each list asks etcd for its revision and waits until the cache has that
        **more,
    }
    start = _start(binaries, "kube-apiserver", flags)
    return HostProgram("kube-apiserver", start, serves(layout.kubeconfig), after=("etcd",))


def _controller_manager(layout: Layout, index: int, binaries: Binaries) -> HostProgram:
    folder = layout.pki
    flags: dict[str, object] = {
        **_component(layout, index, "kube-controller-manager", KCM_PORT),
        "use-service-account-credentials": "true",
        "service-account-private-key-file": folder / "service-account.key",
        "root-ca-file": folder / "ca.crt",
        "cluster-signing-cert-file": folder / "ca.crt",
        "cluster-signing-key-file": folder / "ca.key",
        "service-cluster-ip-range": service_range_of(index),
        "controllers": f"*,-{NAMESPACES}",
        "concurrent-gc-syncs": "30",
        "concurrent-serviceaccount-token-syncs": "10",
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        "pvclaimbinder-sync-period": "5s",
    }
    return _follower("kube-controller-manager", binaries, flags, layout, index)


def _scheduler(layout: Layout, index: int, binaries: Binaries) -> HostProgram:
    flags: dict[str, object] = {
        **_component(layout, index, "kube-scheduler", SCHEDULER_PORT),
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
    }
    return _follower("kube-scheduler", binaries, flags, layout, index)


def _component(layout: Layout, index: int, name: str, port: int) -> dict[str, object]:
    """Return the flags that every component beside the API server takes."""
    kubeconfig, files = layout.kubeconfig_of(name), pki.issued(layout.pki, name)
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": loopback_of(index),
        "secure-port": port,
        "tls-cert-file": files.certificate,
        "tls-private-key-file": files.key,
        "leader-elect": "false",
    }


def _follower(name: str, binaries: Binaries, flags: dict[str, object], layout: Layout, index: int) -> HostProgram:
    """Return a component that needs the API to be ready."""
    url = f"https://{loopback_of(index)}:{flags['secure-port']}/healthz"
    ready = answers(url, authority=layout.pki / "ca.crt")
    return HostProgram(name, _start(binaries, name, flags), ready, after=("kube-apiserver",))


def _start(binaries: Binaries, name: str, flags: dict[str, object]) -> Callable[[], PlainCommand]:
    words = tuple(f"--{flag}={value}" for flag, value in flags.items())
    return lambda: PlainCommand((str(binaries(name)), *words))
