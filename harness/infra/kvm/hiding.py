"""Hide /dev/kvm from a kind node, and show it again.

A node is a privileged container: it gets every device of the host whenever it starts, and so do KubeVirt's pods in it.
`useEmulation` does not help: KubeVirt uses /dev/kvm where a node has it. So the node itself removes the device, before
containerd starts, each time that it starts.
"""

from __future__ import annotations

from typing import Protocol

from harness.kube import Cluster
from harness.kube.resources import POD
from harness.proc import Completed

HANDLERS = "kubevirt.io=virt-handler"
UNIT = "vmatrix-hide-kvm.service"
FILE = f"/etc/systemd/system/{UNIT}"
CHANGED = "changed"
TEXT = """\
[Unit]
Description=Hide /dev/kvm from KubeVirt
DefaultDependencies=no
Before=containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/rm -f /dev/kvm

[Install]
WantedBy=sysinit.target
"""
HIDE = f"""
set -e
printf '%s' "$1" > {FILE}
systemctl daemon-reload
systemctl enable --quiet {UNIT}
[ ! -e /dev/kvm ] || echo {CHANGED}
rm -f /dev/kvm
"""
# The minor number is KVM's own: https://docs.kernel.org/admin-guide/devices.html
SHOW = f"""
set -e
[ -e {FILE} ] || exit 0
systemctl disable --quiet {UNIT}
rm -f {FILE}
systemctl daemon-reload
[ -e /dev/kvm ] || mknod -m 0666 /dev/kvm c 10 232
echo {CHANGED}
"""


class Container(Protocol):
    """Runs a command in a node's container."""

    def __call__(self, *words: str) -> Completed: ...


def hide(inside: Container) -> bool:
    """Remove the device from the node, now and whenever it starts; return whether it was there.

    Raises CommandFailed when the node cannot.
    """
    return CHANGED in inside("sh", "-c", HIDE, "sh", TEXT).stdout


def show(inside: Container) -> bool:
    """Give the node back what `hide` took; return whether it had been taken."""
    return CHANGED in inside("sh", "-c", SHOW).stdout


def restart_handlers(cluster: Cluster) -> None:
    """Delete the pods that offer the device to others: they have the devices that the node had when they started."""
    for pod in cluster.list(POD, labels=HANDLERS).items:
        cluster.delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])
