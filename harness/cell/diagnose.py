"""Dump before delete: everything that could explain a cell's outcome, into its directory. Never changes the outcome."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import yaml

from harness.cell import finalizers
from harness.cell.place import Place
from harness.errors import VmatrixError
from harness.kube.client import Cluster, Json, event_time
from harness.kube.resources import DATA_VOLUME, EVENT, NAMESPACE, POD, PVC, VM, VMI
from harness.machines.kubevirt.launchers import died_of, launcher_pod
from harness.machines.reach.ssh import control_directory, run_on
from harness.model import Environment, Machine
from harness.rundir import OF_MACHINES, AttemptDir

log = logging.getLogger(__name__)
OBJECTS = (VM, VMI, POD, DATA_VOLUME, PVC)
CONSOLE, LAUNCHER = "guest-console-log", "compute"  # containers of a launcher
LAUNCHER_LOGS = dict(zip((CONSOLE, LAUNCHER), OF_MACHINES, strict=True))  # container -> the end of its file's name
LOG_LINES = 20_000

# One script per machine: each section's output becomes a file. A command that does not exist yet says so.
SECTIONS = {
    "cloud-init.log": "cat /var/log/cloud-init.log /var/log/cloud-init-output.log",
    "journal.log": "journalctl --no-pager -b -o short-iso",
    "kubelet.log": "journalctl --no-pager -b -u kubelet -o short-iso",
    "containerd.log": "journalctl --no-pager -b -u containerd -o short-iso",
    "crio.log": "journalctl --no-pager -b -u crio -o short-iso",
    "units.log": "systemctl --no-pager --failed; systemctl --no-pager list-units --type service",
    "processes.log": "ps -eo pid,ppid,rss,etime,args",
    "network.log": "ip -d address; ip route; ss -tlnp; nft list ruleset",
    "system.log": "uname -a; free -m; df -h; cat /etc/os-release; dmesg | tail -200",
    "kubernetes.log": "ls -laR /etc/kubernetes/manifests /var/lib/kubelet/*.yaml; cat /etc/kubernetes/manifests/*",
    "pods.log": 'cd /var/log/pods && for f in */*/*.log; do echo "== $f"; tail -n 200 "$f"; done',
}
MARK = "=== vmatrix section "


def collect(
    cluster: Cluster, place: Place, files: AttemptDir, environment: Environment | None, *, seconds: float
) -> list[Path]:
    """Write the cell's objects and events, and every reachable machine's logs, into the logs.

    Args:
        environment: the machines that could be logged in to; None when there never were any.
        seconds: for the whole collection.

    Returns:
        The files that were written. Whatever fails is logged and left out.
    """
    files.logs.mkdir(parents=True, exist_ok=True)
    jobs = [
        partial(_objects, cluster, place, files.objects),
        partial(_events, cluster, place, files.events),
        partial(_consoles, cluster, place, files),
    ]
    if environment is not None:
        jobs += [partial(_machine, machine, environment, seconds) for machine in environment.machines]
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        return [path for paths in pool.map(_survive, jobs) for path in paths]


def _survive(job: Callable[[], list[Path]]) -> list[Path]:
    try:
        return job()
    except (VmatrixError, OSError) as error:
        log.warning("could not collect: %s", error)
        return []


def _objects(cluster: Cluster, place: Place, path: Path) -> list[Path]:
    own = None if place.shared else cluster.get(NAMESPACE, place.namespace)
    objects: list[Json] = [own] if own is not None else []
    for resource in OBJECTS:
        objects += cluster.list(resource, place.namespace, labels=place.selector).items
    objects += () if place.shared else finalizers.objects(cluster, place.namespace)
    for obj in objects:
        obj["metadata"].pop("managedFields", None)
    path.write_text(yaml.safe_dump_all(objects, sort_keys=False, width=200), encoding="utf-8")
    return [path]


def _events(cluster: Cluster, place: Place, path: Path) -> list[Path]:
    """Save the events; in a shared namespace those about objects that the cell's prefix names."""
    found = cluster.list(EVENT, place.namespace).items
    events = [e for e in found if place.prefix in str(e["involvedObject"].get("name"))]
    events.sort(key=event_time)
    lines = [
        f"{event_time(e) or '-'} {e.get('type', '-')} "
        f"{e['involvedObject'].get('kind')}/{e['involvedObject'].get('name')} {e.get('reason')}: {e.get('message')}"
        for e in events
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [path]


def _consoles(cluster: Cluster, place: Place, files: AttemptDir) -> list[Path]:
    """Save each launcher pod's logs: the guest's serial console, and KubeVirt's own words about it."""
    written: list[Path] = []
    namespace = place.namespace
    for vmi in cluster.list(VMI, namespace, labels=place.selector).items:
        name = vmi["metadata"]["name"].removeprefix(place.prefix)
        pod = launcher_pod(cluster, namespace, vmi)
        if pod is None:
            continue
        for container, ending in LAUNCHER_LOGS.items():
            written += _survive(partial(_log, cluster, pod, container, files.log(f"{name}-{ending}")))
    return written


def _log(cluster: Cluster, pod: Json, container: str, path: Path) -> list[Path]:
    """Save one container's log, if it says anything, behind what the pod's status says of how it ended."""
    meta = pod["metadata"]
    text = cluster.pod_log(meta["namespace"], meta["name"], container=container, tail=LOG_LINES)
    ended = died_of(pod)
    if not text and not ended:
        return []
    path.write_text((f"{meta['name']}: {ended}\n" if ended else "") + text, encoding="utf-8")
    return [path]


def _machine(machine: Machine, environment: Environment, seconds: float) -> list[Path]:
    command = f"sudo sh -c {shlex.quote(script())}"
    control = control_directory(environment.run, environment.cell.id)
    done = run_on(machine, command, private_key=environment.private_key, timeout=seconds, control=control)
    return split(done.stdout or done.stderr, environment.files.machine_logs(machine.name))


def script() -> str:
    """Return the shell script that prints every section behind its mark."""
    return "\n".join(f"echo '{MARK}{name}'\n( {command} ) 2>&1" for name, command in SECTIONS.items())


def split(output: str, directory: Path) -> list[Path]:
    """Write each section of the script's output to its file."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for part in output.split(MARK)[1:]:
        name, _, text = part.partition("\n")
        path = directory / name.strip()
        if path.name in SECTIONS and text.strip():
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written
