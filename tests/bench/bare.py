"""The deployment without playbooks: what somebody who knows every value would type, both machines at once.

The files are those that the playbooks rendered; nothing is checked, templated or made repeatable. Images are pulled
when kubeadm and the kubelet ask for them (the playbooks begin to pull them as soon as containerd runs).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.cell.provision import in_parallel
from harness.model import Environment, Machine
from tests.bench.rendered import Archive, put, remote

PREPARE = ("fetch", "files", "start")  # everything else is what the cluster itself takes
PHASE = re.compile(r"\[(?P<phase>[a-z-]+)\]")
START = """
sysctl --quiet --load=/etc/sysctl.d/90-kubernetes.conf
systemctl daemon-reload
systemctl enable --quiet --now api-endpoint.service containerd.service flannel-cni.path
systemctl enable --quiet kubelet.service
"""
ADMIN = "export KUBECONFIG=/etc/kubernetes/admin.conf"
INIT = "kubeadm init --config /etc/kubernetes/kubeadm.yml --skip-token-print"
APPLY = f"{ADMIN}; kubectl apply --filename=/etc/kubernetes/flannel.yml"
# What the control plane hands out is its kubeconfig with a token in place of its own key: discovery by file, like the
# playbooks'. (With discovery by token a join polls for a signature every five seconds, which would flatter them.)
HAND_OUT = """
token=$(kubeadm token create --ttl 2h)
sed -e '/client-certificate-data:/d' -e "s|client-key-data:.*|token: $token|" /etc/kubernetes/admin.conf
"""
JOIN = """
umask 077
cat >/run/kubeadm-discovery.conf
kubeadm join --config /etc/kubernetes/kubeadm-join.yml
"""


@dataclass(frozen=True)
class Made:
    """A cluster made by hand: each step's seconds, and those of kubeadm by the phase that printed last."""

    steps: dict[str, float]
    init: dict[str, float]
    join: dict[str, float]


@dataclass
class PhaseClock:
    """How long each phase of kubeadm takes, by the [word] that its lines begin with."""

    phase: str = "starts"
    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)

    def on_line(self, line: str) -> None:
        """Book the time since the last line on the phase that printed it."""
        now = time.monotonic()
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + now - self.began
        found = PHASE.match(line)
        self.phase, self.began = found["phase"] if found else self.phase, now


def fetch_script(variables: Mapping[str, Any]) -> str:
    """Return the commands that fetch and unpack every binary, all at once."""
    mirror = f"{variables['cluster_mirror_url']}/bin"
    kubernetes = variables["cluster_kubernetes_version"]
    curl = "curl --fail --silent --show-error"
    lines = ["mkdir -p /opt/cni/bin", "jobs=()"]
    for name, key, folder in (
        ("containerd", "cluster_containerd_version", "/usr/local/bin"),
        ("cni-plugins", "cluster_cni_plugins_version", "/opt/cni/bin"),
    ):
        url = f"{mirror}/{name}/{variables[key]}/{name}.tar"
        lines.append(f'{curl} {url} | tar --extract --directory={folder} & jobs+=("$!")')
    single = dict.fromkeys(("kubeadm", "kubectl", "kubelet"), kubernetes)
    for name, version in {**single, "runc": variables["cluster_runc_version"]}.items():
        lines.append(f'{curl} --output /usr/local/bin/{name} {mirror}/{name}/{version}/{name} & jobs+=("$!")')
    lines += ['for job in "${jobs[@]}"; do wait "$job"; done', "chmod 0755 /usr/local/bin/* /opt/cni/bin/*"]
    return "\n".join(lines)


def wait_script(environment: Environment, seconds: float) -> str:
    """Return the commands that wait for the same as the playbooks' last tasks do."""
    timeout = f"--timeout={seconds:.0f}s"
    workers = " ".join(m.name for m in environment.group("node"))
    nodes = " ".join(f"node/{m.name}" for m in environment.machines)
    return f"""
{ADMIN}
kubectl --namespace=kube-system wait --for=condition=Available deployment/coredns {timeout}
kubectl wait --for=create {timeout} {nodes}
kubectl label --overwrite node {workers} node-role.kubernetes.io/worker=
kubectl wait --for=condition=Ready {timeout} {nodes}
kubectl rollout status --namespace kube-system {timeout} daemonset/kube-proxy
kubectl rollout status --namespace kube-flannel {timeout} daemonset/kube-flannel-ds
"""


def deploy(
    environment: Environment, files: Mapping[str, Archive], variables: Mapping[str, Any], *, seconds: float
) -> Made:
    """Make the cluster and tell how long each step took.

    Args:
        files: each machine's files, addresses already right.
        seconds: for each wait.

    Raises:
        CommandFailed: a command did not end well.
    """
    machines = environment.machines
    (control_plane,) = environment.group("control_plane")
    steps: dict[str, float] = {}
    began = time.monotonic()

    def lap(step: str) -> None:
        nonlocal began
        ended = time.monotonic()
        steps[step], began = ended - began, ended

    fetch = fetch_script(variables)
    in_parallel(lambda m: remote(environment, m, fetch), machines)
    lap("fetch")
    in_parallel(lambda m: put(environment, m, files[m.name]), machines)
    lap("files")
    in_parallel(lambda m: remote(environment, m, START), machines)
    lap("start")
    init = PhaseClock()
    remote(environment, control_plane, INIT, on_line=init.on_line)
    init.on_line("")
    lap("init")
    remote(environment, control_plane, APPLY)
    lap("apply")
    handed_out = remote(environment, control_plane, HAND_OUT).stdout
    lap("hand-out")
    joins = {m.name: PhaseClock() for m in joining(environment)}
    in_parallel(
        lambda m: remote(environment, m, JOIN, stdin=handed_out, on_line=joins[m.name].on_line), joining(environment)
    )
    longest = max(joins.values(), key=lambda clock: sum(clock.seconds.values()))
    lap("join")
    remote(environment, control_plane, wait_script(environment, seconds))
    lap("wait")
    return Made(steps, init.seconds, longest.seconds)


def joining(environment: Environment) -> tuple[Machine, ...]:
    """Return the machines that join."""
    return tuple(m for m in environment.group("node") if "control_plane" not in m.groups)
