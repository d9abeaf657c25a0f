"""The container engine that kind needs on this host: Docker's, found and asked, and what else the host must have.

Only an engine that runs is used; none is started here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import paths, proc
from harness.infra.findings import Finding
from harness.infra.host import preflight
from harness.infra.host.network import PORTS

CLIENTS = ("docker", "podman")
ASK_SECONDS = 30.0  # one answer of an engine on this host
REMOVE_SECONDS = 120.0  # of containers and their volumes, tried again until the cluster is gone
CLUSTER_LABEL = "io.x-k8s.kind.cluster"  # kind puts it on every container of a cluster


@dataclass(frozen=True)
class Engine:
    """An engine that answers.

    client: docker or podman.  program: its client.  version: the engine's.  unified: whether containers get cgroup v2.
    """

    client: str
    program: Path
    version: str
    unified: bool

    @property
    def environment(self) -> Mapping[str, str]:
        """Return what tells kind to use this engine."""
        return {"KIND_EXPERIMENTAL_PROVIDER": self.client}

    def network_variable(self) -> str:
        """Return the variable by which kind is told the network's name."""
        return f"KIND_EXPERIMENTAL_{self.client.upper()}_NETWORK"

    def has_image(self, reference: str) -> bool:
        """Tell whether the engine has an image."""
        return self._run("image", "inspect", "--format", "{{.Id}}", reference, check=False).returncode == 0

    def pull(self, reference: str, seconds: float) -> str:
        """Pull an image; return why not, "" when the engine has it."""
        try:
            done = self._run("pull", "--quiet", reference, check=False, seconds=seconds)
        except proc.CommandFailed as failure:
            return failure.summary
        return "" if done.returncode == 0 else (done.stderr.strip() or done.stdout.strip())[-300:]

    def load(self, archive: Path, seconds: float) -> None:
        """Load an image from the archive that holds it. Raises InfraError when the engine refused it."""
        with proc.failing_as_infra(
            f"{self.client} failed to load the node image", hint="check its free disk space: df -h"
        ):
            self._run("load", "--input", str(archive), seconds=seconds)

    def inside(self, container: str, *words: str, check: bool = True) -> proc.Completed:
        """Run a command in a container."""
        return self._run("exec", container, *words, check=check)

    def containers(self, cluster: str) -> list[Mapping[str, Any]]:
        """Return the containers of a kind cluster: their `Id`, `Name` and `State`, as the engine describes them."""
        ids = self._run("ps", "--all", "--quiet", "--filter", f"label={CLUSTER_LABEL}={cluster}").stdout.split()
        if not ids:
            return []
        described = self._run("inspect", *ids, check=False).stdout  # one may have gone meanwhile
        return list(json.loads(described or "[]"))

    def remove_containers(self, cluster: str) -> None:
        """Remove a kind cluster's containers with their volumes, running or not; none is fine."""
        ids = [str(c["Id"]) for c in self.containers(cluster)]
        if ids:
            self._run("rm", "--force", "--volumes", *ids, check=False, seconds=REMOVE_SECONDS)

    def remove_network(self, name: str) -> None:
        """Remove a network if it exists."""
        if name in self.networks():
            self._run("network", "rm", name, check=False)

    def networks(self) -> list[str]:
        """Return the names of the engine's networks."""
        return self._run("network", "ls", "--format", "{{.Name}}").stdout.split()

    def _run(self, *words: str, check: bool = True, seconds: float = ASK_SECONDS) -> proc.Completed:
        return proc.run([self.program, *words], timeout=seconds, check=check)


@dataclass(frozen=True)
class EngineSearch:
    """What the search for an engine came to: one, or what each client said."""

    engine: Engine | None
    said: Mapping[str, str] = field(default_factory=dict)


def find() -> EngineSearch:
    """Ask every client on PATH for an engine; the first that answers is taken, Docker before podman."""
    reasons: dict[str, str] = {}
    for client in CLIENTS:
        program = shutil.which(client)
        if program is None:
            reasons[client] = "not installed"
            continue
        try:
            done = proc.run([program, "info", "--format", "{{json .}}"], timeout=ASK_SECONDS, check=False)
        except proc.CommandFailed as failure:
            reasons[client] = failure.summary
            continue
        engine, why = read_info(client, Path(program), done.stdout)
        if engine is not None:
            return EngineSearch(engine)
        reasons[client] = why or (done.stderr.strip() or "does not answer").splitlines()[-1]
    return EngineSearch(None, reasons)


def read_info(client: str, program: Path, text: str) -> tuple[Engine | None, str]:
    """Read what `docker info` or `podman info` says in JSON; return the engine, or what is wrong with it."""
    try:
        info = json.loads(text or "{}")
    except ValueError:
        return None, "gave an unreadable answer"
    if client == "podman" and "host" in info:
        version = str((info.get("version") or {}).get("Version", ""))
        return Engine(client, program, version, str(info["host"].get("cgroupVersion", "")) == "v2"), ""
    if info.get("ServerErrors") or not info.get("ServerVersion"):
        return None, "; ".join(info.get("ServerErrors") or [])
    return Engine(client, program, str(info["ServerVersion"]), str(info.get("CgroupVersion", "1")) == "2"), ""


def missing(reasons: Mapping[str, str]) -> Finding:
    """Return the finding that no engine answers."""
    installed: Sequence[str] = [client for client, what in reasons.items() if what != "not installed"]
    heard = "; ".join(f"{client}: {what}" for client, what in reasons.items())
    start = f"start it: systemctl start {installed[0]}" if installed else "apt-get install --yes docker.io"
    if installed == ["podman"]:
        start = "run it as root, as vmatrix runs: sudo podman info"
    return Finding(f"no container engine is running ({heard})", "kind's nodes are containers", start)


NODE_MIB = 2048  # a control plane node with CoreDNS and a storage provisioner, measured 1.1 GiB, rounded up
RELEASE_MIB = 3072  # KubeVirt's and CDI's own pods besides
DISK_GIB = 6  # the node image in the engine, unpacked, and machines' disks
BUILD_GIB = 4  # the node image while it is made
# https://kind.sigs.k8s.io/docs/user/known-issues/#pod-errors-due-to-too-many-open-files
INOTIFY = {"max_user_instances": (512, 128), "max_user_watches": (524288, 65536)}  # advised; kubelet fails with less
MODULES = Path("/lib/modules")
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
PROGRAMS = ("mirror", "registry", "deliveries", "pulls", "kubevirt")


def check(
    *,
    embedded: bool,
    builds_node: bool,
    address: str | None = None,
    programs: Collection[str] = PROGRAMS,
    memory_mib: int = 0,
    find: Callable[[], EngineSearch] = find,
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
    engine = find()
    ports = {name: PORTS[name] for name in programs if embedded or name != "kubevirt"}
    memory = NODE_MIB + (preflight.CONTROL_PLANE_MIB if embedded else RELEASE_MIB) + memory_mib
    return [
        *preflight.check_root(),
        *preflight.check_python(),
        *(preflight.check_programs(needs_build=builds_node) if embedded or builds_node else []),
        *([missing(engine.said)] if engine.engine is None else []),
        *preflight.check_inotify(INOTIFY),
        *check_cgroups(),
        *check_modules(),
        *preflight.check_ports(ports, address),
        *preflight.check_memory(memory),
        *preflight.advise_load(),
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
