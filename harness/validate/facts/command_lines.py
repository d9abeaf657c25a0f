"""The flags that kubeadm gives to programs, for Kubernetes 1.34 to 1.37, which give the same but for OF_A_MINOR.

From the manifests that `kubeadm init phase control-plane all` and `kubeadm init phase etcd local` of 1.34.4, 1.35.4,
1.36.1, 1.36.3 and 1.37.2 write with --dry-run.
"""

from __future__ import annotations

from collections.abc import Mapping

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
