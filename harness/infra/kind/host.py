"""What this host must have for a kind cluster, looked at before anything is touched."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from harness import paths
from harness.infra.findings import Finding
from harness.infra.host import preflight
from harness.infra.host.network import PORTS
from harness.infra.kind import engine
from harness.infra.kind.engine import EngineSearch

NODE_MIB = 2048  # a control plane node with CoreDNS and a storage provisioner, measured 1.1 GiB, rounded up
RELEASE_MIB = 3072  # KubeVirt's and CDI's own pods besides
DISK_GIB = 6  # the node image in the engine, unpacked, and machines' disks
BUILD_GIB = 4  # the node image while it is made
# https://kind.sigs.k8s.io/docs/user/known-issues/#pod-errors-due-to-too-many-open-files
INOTIFY = {"max_user_instances": (512, 128), "max_user_watches": (524288, 65536)}  # advised; kubelet fails with less
MODULES = Path("/lib/modules")
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
PROGRAMS = ("mirror", "registry", "kubevirt")


def check(
    *,
    embedded: bool,
    builds_node: bool,
    address: str | None = None,
    programs: Collection[str] = PROGRAMS,
    memory_mib: int = 0,
    find: Callable[[], EngineSearch] = engine.find,
) -> list[Finding]:
    """Return what keeps this host from running a kind cluster, all of it.

    Args:
        embedded: whether our own KubeVirt and CDI part, and with it machines, will run here.
        builds_node: whether a node image may have to be built first.
        address: the instance's address, whose ports must be free; None when it will get a fresh one.
        programs: those that will be started, whose ports must be free.
        memory_mib: what machines need besides.
        find: looks for a container engine.
    """
    found = find()
    ports = {name: PORTS[name] for name in programs if embedded or name != "kubevirt"}
    memory = NODE_MIB + (preflight.CONTROL_PLANE_MIB if embedded else RELEASE_MIB) + memory_mib
    return [
        *preflight.check_root(),
        *preflight.check_python(),
        *(preflight.check_programs(needs_build=builds_node) if embedded or builds_node else []),
        *([engine.missing(found.said)] if found.engine is None else []),
        *preflight.check_inotify(INOTIFY),
        *check_cgroups(),
        *check_modules(),
        *preflight.check_ports(ports, address),
        *preflight.check_memory(memory),
        *preflight.check_disk(paths.state_dir(), DISK_GIB, "the node's and machines' disks"),
        *(preflight.check_disk(paths.cache_dir(), BUILD_GIB, "a node image is built there") if builds_node else []),
    ]


def check_cgroups(unified: Path = UNIFIED) -> list[Finding]:
    """Advise on cgroup v1: kind and kubelet still run on it when they are told to, KubeVirt's next release will not."""
    if unified.exists():
        return []
    return [
        Finding(
            "this host has cgroup v1",
            "kubelet runs on it only if configured to (vmatrix does), and KubeVirt 1.9 is its last release on it",
            "boot with systemd.unified_cgroup_hierarchy=1",
            fatal=False,
        )
    ]


def check_modules(folder: Path = MODULES) -> list[Finding]:
    """Require the folder that kind hands to every node, empty or not."""
    if folder.is_dir():
        return []
    return [Finding(f"{folder} does not exist", "kind mounts it into every node", f"mkdir -p {folder}")]
