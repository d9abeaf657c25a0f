"""What machines can and cannot, as plain facts that any product is given beside our playbooks' settings.

docs/guests.md says what each means; tests/contract/test_guests.py proves each in a machine. For machines that share
this host's kernel they are found by looking at the host.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.embedded.machines.runtime import CAP_SYS_RESOURCE, host_has_capability
from harness.spec.variables import ETCD_ARGS, ETCD_TIMES

PREFIX = "guest_"  # of the variables


@dataclass(frozen=True)
class GuestFacts:
    """Facts of the machines of an infra cluster. Those of a virtual machine whose image is one of the matrix.

    open_files: the most that a unit can have open (LimitNOFILE=infinity), at least.
    internet: whether a way out is open at all; for virtual machines a cell's NetworkPolicy decides.
    """

    own_kernel: bool = True
    kernel_modules: bool = True
    proc_modules: bool = True
    own_sysctls: bool = True
    own_clock: bool = True
    own_size: bool = True
    own_disks: bool = True
    loop_devices: bool = True
    fuse: bool = True
    udev: bool = True
    raise_limits: bool = True
    open_files: int = 1048576  # the kernel's own fs.nr_open (Documentation/admin-guide/sysctl/fs.rst)
    cgroup_version: int = 2
    swap: bool = False
    dns: bool = True
    internet: bool = True

    def variables(self) -> Mapping[str, bool | int]:
        """Return the facts as variables."""
        return {f"{PREFIX}{name}": value for name, value in asdict(self).items()}


VIRTUAL = GuestFacts()


@dataclass(frozen=True)
class HostKernel:
    """What machines inherit of the host's kernel: cgroup v2 or v1, whether limits may be raised, whether it swaps.

    open_files: the most that a program may have open.  proc_modules: whether there is a /proc/modules.
    """

    unified_cgroups: bool
    may_raise_limits: bool
    swap: bool = False
    open_files: int = 1048576
    proc_modules: bool = True


def look(*, unified_cgroups: bool | None = None) -> HostKernel:
    """Look at this host. `unified_cgroups`: what machines get where a container engine decides that."""
    here = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    raises = host_has_capability(CAP_SYS_RESOURCE)
    most = int(Path("/proc/sys/fs/nr_open").read_text(encoding="ascii"))
    return HostKernel(
        unified_cgroups=here if unified_cgroups is None else unified_cgroups,
        may_raise_limits=raises,
        swap=len(Path("/proc/swaps").read_text(encoding="utf-8").splitlines()) > 1,
        open_files=most if raises else resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        proc_modules=Path("/proc/modules").exists(),
    )


def guest_vars(host: HostKernel | None = None) -> Mapping[str, Any]:
    """Return the variables of the playbooks, and the facts behind them.

    Four things hold on every host: kubeadm cannot verify a kernel whose configuration a guest does not see, guests
    may be smaller than kubeadm's minimum, the size of the connection tracking table is the host's to set, and a dozen
    guests share a few processors, so that etcd's members must not elect another leader when one is late by a second.
    """
    host = host if host is not None else look()
    kubelet: dict[str, Any] = {"cgroupDriver": "systemd" if host.unified_cgroups else "cgroupfs"}
    if not host.unified_cgroups:
        kubelet["failCgroupV1"] = False  # kubelet refuses cgroup v1 by default since 1.35
    ignored = ["SystemVerification", "NumCPU", "Mem"]
    if host.swap:
        kubelet["failSwapOn"] = False
        ignored.append("Swap")
    return {
        **guest_facts(host).variables(),
        "cluster_kubelet_config": kubelet,
        "cluster_kube_proxy_config": {"conntrack": {"maxPerCore": 0, "min": 0}},
        ETCD_ARGS: ETCD_TIMES,
        "cluster_kubeadm_ignore_preflight_errors": ignored,
        "cluster_containerd_systemd_cgroup": host.unified_cgroups,
        "cluster_containerd_restrict_oom_score_adj": not host.may_raise_limits,
        "cluster_crio_systemd_cgroup": host.unified_cgroups,
        "cluster_crio_within_limits": not (host.may_raise_limits and host.unified_cgroups),
    }


def guest_facts(host: HostKernel) -> GuestFacts:
    """Return what machines can and cannot that are containers of systemd-nspawn on this kernel."""
    return GuestFacts(
        own_kernel=False,
        kernel_modules=False,
        proc_modules=host.proc_modules,
        own_sysctls=False,
        own_clock=False,
        own_size=False,
        own_disks=False,
        loop_devices=False,
        fuse=False,
        udev=False,
        raise_limits=host.may_raise_limits,
        open_files=host.open_files,
        cgroup_version=2 if host.unified_cgroups else 1,
        swap=host.swap,
        dns=False,
        internet=False,
    )
