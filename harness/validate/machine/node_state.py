"""Prints what kubelet, the container runtime and etcd keep on a machine: for their next start, and for pods.

topics/node_state.py reads the output. Of files, only whether they can be read leaves the machine.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Any

from harness.validate.machine.library import client_of, effective, flag, output_of, processes, read, said

KUBELET = "/var/lib/kubelet"
# What kubelet reads when it starts, as JSON. Its settings are not among them.
CHECKPOINTS = (
    *(f"{KUBELET}/*_state", f"{KUBELET}/*_checkpoint", f"{KUBELET}/device-plugins/*_checkpoint"),
    *(f"{KUBELET}/checkpoints/*", f"{KUBELET}/image_manager/*/*", "/var/lib/containers/storage/overlay-*/*.json"),
)
LISTS = "/var/lib/containers/"  # whose files hold lists
# The checksums that kubelet gives to the state of a policy that keeps none (pkg/kubelet/cm/*manager/state).
EMPTY_SUMS = {"cpu_manager_state": ("none", 1353318690), "memory_manager_state": ("None", 4236770233)}
DATABASES = ("/var/lib/containerd/io.containerd.metadata.*/meta.db", "/var/lib/containerd/*snapshotter*/metadata.db")
BOLT, BOLT_AT, PAGE_SIZE_AT = b"\xed\xda\x0c\xed", 16, 24  # bbolt: its magic number, and where its page size is
WAL_NAME = re.compile(r"^([0-9a-f]{16})-([0-9a-f]{16})\.wal$")
STATE = ("/var/lib/", "/etc/")  # where files are whose removal a running program does not notice
SOCKETS = re.compile(
    r" 00010000 \S+ \S+ +\d+ +(/(?:var/)?run/(?:containerd|crio)/\S+|/var/lib/kubelet/device-plugins/\S+)$",
    re.MULTILINE,
)
NETWORKS, NETNS = "/var/lib/cni/networks/*", "/run/netns"
GROUPS = ("/sys/fs/cgroup/kubepods*", "/sys/fs/cgroup/*/kubepods*", "/sys/fs/cgroup/kubelet*/kubepods*")
HASH = 32  # letters of a static pod's id, which has no hyphens
POD_UID = re.compile(r"[/-]pod([0-9a-f]{8}[-_][0-9a-f_-]{27}|[0-9a-f]{32})(?:\.slice)?$")
POD_MOUNT = re.compile(r"^/var/lib/kubelet/pods/([0-9a-f-]{32,36})/")
RUN_MOUNT = re.compile(r"^/run/containerd/(?:io\.containerd\.runtime\.v2\.task/k8s\.io|.*/sandboxes)/([0-9a-f]{64})/")
OF_CRI = "/var/lib/containerd/io.containerd.grpc.v1.cri/*/*"  # folders of sandboxes and containers that kubelet made
FNV_START, FNV_PRIME = 0x811C9DC5, 0x01000193  # 32 bits


def checkpoints() -> dict[str, str]:
    """Return why kubelet or CRI-O could not read each file that it reads when it starts; "" where it could."""
    why_by_path = {}
    for path in sorted({match for pattern in CHECKPOINTS for match in glob.glob(pattern)}):
        if os.path.isfile(path):
            why_by_path[path] = unreadable(path)
    return why_by_path


def unreadable(path: str) -> str:
    """Return what is wrong with a file of JSON and, where it has one that we know, with its checksum."""
    try:
        content = json.loads(read(path) or "")
    except ValueError as error:
        return f"it is not JSON: {error}"
    if not isinstance(content, dict):
        return "" if isinstance(content, list) and path.startswith(LISTS) else "it is not a JSON object"
    data, policy = content.get("data"), EMPTY_SUMS.get(os.path.basename(path))
    if isinstance(data, str) and "checksum" in content and content["checksum"] != fnv(f"(string){data}"):
        return "its checksum is another one"
    if policy is not None and content.get("policyName") == policy[0] and content.get("checksum") != policy[1]:
        return "its checksum is another one"
    return ""


def fnv(text: str) -> int:
    """Return the checksum that kubelet gives to a text (FNV-1a of 32 bits)."""
    total = FNV_START
    for byte in text.encode():
        total = ((total ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return total


def policies() -> dict[str, str]:
    """Return the policy in each manager's state, by the file's name."""
    policy_by_file = {}
    for name in EMPTY_SUMS:
        try:
            policy_by_file[name] = str(json.loads(read(f"{KUBELET}/{name}") or "{}").get("policyName", ""))
        except (ValueError, AttributeError):  # which another field tells
            continue
    return policy_by_file


def databases(running: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return why the runtime or etcd could not read each of their databases; "" where they could."""
    data = [effective(process, "data-dir") for process in running if process["name"] == "etcd"]
    paths = {match for pattern in DATABASES for match in glob.glob(pattern)}
    paths |= {f"{folder}/member/snap/db" for folder in data if folder}
    return {path: broken(path) for path in sorted(paths)}


def broken(path: str) -> str:
    """Return what is wrong with a bbolt file, as far as its first page and its size tell."""
    try:
        with open(path, "rb") as handle:
            head = handle.read(64)
        size = os.stat(path).st_size
    except OSError as error:
        return str(error.strerror)
    if head[BOLT_AT : BOLT_AT + 4] != BOLT:
        return "it is not a database (bbolt)"
    page = int.from_bytes(head[PAGE_SIZE_AT : PAGE_SIZE_AT + 4], "little")
    return "it ends within a page" if not page or size % page or size < 4 * page else ""


def missing_logs(running: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return what is wrong with the write-ahead log of each etcd, by its folder; "" where nothing is."""
    why_by_log = {}
    for folder in filter(None, (effective(process, "data-dir") for process in running if process["name"] == "etcd")):
        log = f"{folder}/member/wal"
        names = sorted(filter(WAL_NAME.match, os.listdir(log))) if os.path.isdir(log) else []
        numbers = [int(name.partition("-")[0], 16) for name in names]
        gaps = [number for place, number in enumerate(numbers[:-1]) if numbers[place + 1] != number + 1]
        empty = [name for name in names if not os.stat(f"{log}/{name}").st_size]
        why = (
            "there is none" if not names else f"what follows {names[numbers.index(gaps[0])]} is missing" if gaps else ""
        )
        why_by_log[log] = why or (f"{empty[0]} is empty" if empty else "")
    return why_by_log


def removed(running: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return [program, file] of files that a program has open and that are gone from its folder."""
    files = set()
    for process in running:
        folder = f"/proc/{process['pid']}/fd"
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:  # it is closed meanwhile
                continue
            if target.endswith(" (deleted)") and target.startswith(STATE) and not target.endswith(".tmp (deleted)"):
                files.add((process["name"], target.partition(" (deleted)")[0]))
    return sorted(map(list, files))


def lost_sockets() -> list[str]:
    """Return sockets on which programs listen and which are gone from their folder: nobody connects any more."""
    places = set(SOCKETS.findall(read("/proc/net/unix") or ""))
    return sorted(path for path in places if not os.path.exists(path) and os.path.exists(os.path.dirname(path)))


def endpoints(running: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return why kubelet would not reach the runtime by each file that names its socket; "" where it would."""
    config = next((flag(process["argv"], "config") for process in running if process["name"] == "kubelet"), "")
    why_by_file = {}
    for path in filter(os.path.exists, (config, f"{KUBELET}/instance-config.yaml")):
        match = re.search(r"^containerRuntimeEndpoint:\s*[\"']?(\S+?)[\"']?\s*$", read(path) or "", re.MULTILINE)
        if match and match.group(1) not in ("", '""'):
            place = match.group(1).removeprefix("unix://")
            there = os.path.exists(place) and stat.S_ISSOCK(os.stat(place).st_mode)
            why_by_file[path] = "" if there else f"{match.group(1)} is not a socket"
    return why_by_file


def command_lines(running: Sequence[dict[str, Any]]) -> dict[str, list[list[str]]]:
    """Return of each program of a unit what its next start adds to its command line, and what it leaves out.

    By the unit that systemd has read and the variables that it names (systemd.service(5), "COMMAND LINES"). systemctl
    shows arguments without their quotes, so all are compared by their words.
    """
    names = [
        re.findall(r"/([^/]+\.service)$", process["cgroup"])[:1] or [f"{process['name']}.service"]
        for process in running
    ]
    asked = ["systemctl", "show", "--no-pager", "-p", "MainPID,ExecStart,Environment,EnvironmentFiles"]
    text = said([*asked, *sorted({name for units in names for name in units})]) or "" if names else ""
    differences = {}
    for shown in ([line.partition("=") for line in block.splitlines()] for block in text.split("\n\n")):
        pid = next((value for key, _, value in shown if key == "MainPID"), "")
        process = next((process for process in running if str(process["pid"]) == pid), None)
        start = next((value for key, _, value in shown if key == "ExecStart"), "")
        match = re.search(r"argv\[\]=(.*?) ; ignore_errors", start)
        if process is not None and match is not None:
            files = [value.partition(" (")[0] for key, _, value in shown if key == "EnvironmentFiles"]
            own = next((value for key, _, value in shown if key == "Environment"), "")
            following = " ".join(expanded(match.group(1).split(), variables(own, files))).split()[1:]
            now = " ".join(process["argv"]).split()[1:]
            differences[process["name"]] = [
                [word for word in following if word not in now],
                [word for word in now if word not in following],
            ]
    return differences


def variables(own: str, files: Iterable[str]) -> dict[str, str]:
    """Return the variables of a unit: its own, as systemctl shows them, and those of files; later ones count."""
    settings = dict(word.partition("=")[::2] for word in words_of(own))
    for path in (path for pattern in files for path in sorted(glob.glob(pattern))):
        settings |= environment_file(read(path) or "")
    return settings


# A file of variables (systemd.exec(5), "EnvironmentFile="): a value is what is quoted, then the rest of the line.
ASSIGNMENT = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=")
QUOTED = re.compile(r"""[ \t]*(?:"((?:\\.|[^"\\])*)"?|'([^']*)'?)""", re.DOTALL)
BARE = re.compile(r"[ \t]*((?:\\.|[^\n\\])*)\\?(?:\n|$)", re.DOTALL)
LINE = re.compile(r"[^\n]*(?:\n|$)")


def environment_file(text: str) -> dict[str, str]:
    """Read a file of variables as systemd does: quotes, escapes, and lines that go on after a backslash."""
    settings, at = {}, 0
    while at < len(text):
        assignment = ASSIGNMENT.match(text, at)
        if assignment is None:
            at = _end(LINE, text, at)
            continue
        value, at = "", assignment.end()
        while (part := QUOTED.match(text, at)) is not None:
            single, at = part[2], part.end()
            value += re.sub(r'\\(["\\`$]|\n)', _unescaped, part[1] or "") if single is None else single
        bare = BARE.match(text, at)
        value += re.sub(r"\\(.)", _unescaped, bare[1], flags=re.DOTALL).rstrip() if bare is not None else ""
        settings[assignment[1]], at = value, _end(BARE, text, at)
    return settings


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match is not None else len(text)


def words_of(text: str) -> list[str]:
    """Return the words of a text, without their quotes; of one whose quotes do not end, what is between spaces."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def expanded(words: Iterable[str], settings: dict[str, str]) -> list[str]:
    """Return a command line with its variables: $NAME is several words, ${NAME} is a part of one, $$ is a dollar."""
    line: list[str] = []
    for word in words:
        whole = re.fullmatch(r"\$(\w+)", word)
        part = re.sub(
            r"\$(?:\{(\w+)\}|\$)", lambda match: settings.get(match[1], "") if match[1] is not None else "$", word
        )
        line += words_of(settings.get(whole.group(1), "")) if whole else [part]
    return line


def reservations() -> dict[str, dict[str, str]]:
    """Return the container that each address is reserved for, by network (host-local's files)."""
    containers_by_address: dict[str, dict[str, str]] = {}
    for folder in glob.glob(NETWORKS):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            try:
                address = str(ip_address(name))
            except ValueError:  # last_reserved_ip.0, lock
                continue
            containers_by_address.setdefault(os.path.basename(folder), {})[address] = (
                (read(f"{folder}/{name}") or "").split("\n")[0].strip()
            )
    return containers_by_address


def containers(running: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the ids of the runtime's sandboxes and containers; None where nothing tells. strangers: not kubelet's."""
    for process in running:
        if process["name"] == "containerd":
            every = output_of([*client_of(process), "containers", "ls", "-q"])
            ids, own = (every or "").split(), {os.path.basename(path) for path in glob.glob(OF_CRI)}
            return {"known": None if every is None else ids, "strangers": sorted(set(ids) - own) if own else []}
        if process["name"] == "crio":
            pods, rest = (output_of([*client_of(process), *words, "-q"]) for words in (["pods"], ["ps", "-a"]))
            known = f"{pods} {rest}".split() if pods is not None and rest is not None else None
            return {"known": known, "strangers": []}
    return {"known": None, "strangers": []}


def shims() -> list[str]:
    """Return the ids that containerd's shims run for, each one once."""
    running = [
        process["argv"]
        for process in processes("containerd-shim-runc-v2")
        if process["argv"][-1] not in ("start", "delete")
    ]
    return sorted({argv[argv.index("-id") + 1] for argv in running if "-id" in argv})


def idle_namespaces() -> list[str]:
    """Return network namespaces of the CNI in which no process is."""
    used = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            used.add(os.stat(f"/proc/{entry}/ns/net").st_ino)
        except OSError:  # it ended meanwhile
            continue
    names = os.listdir(NETNS) if os.path.isdir(NETNS) else []
    return sorted(name for name in names if name.startswith("cni-") and os.stat(f"{NETNS}/{name}").st_ino not in used)


def loose_veths() -> list[str]:
    """Return pairs of interfaces both of whose ends are on the machine itself, and that nothing is attached to."""
    try:
        links = json.loads(said(["ip", "-json", "-details", "link", "show", "type", "veth"]) or "[]")
    except ValueError:
        return []
    return sorted(link["ifname"] for link in links if "link_netnsid" not in link and "ifname" in link)


def pods() -> dict[str, list[str]]:
    """Return the ids of pods (of static ones: of their manifests) that have folders, mounts or control groups."""
    mounts = [line.split()[4] for line in (read("/proc/self/mountinfo") or "").splitlines()]
    folders = os.listdir(f"{KUBELET}/pods") if os.path.isdir(f"{KUBELET}/pods") else []
    return {
        "folder": sorted(folders),
        "mount": sorted({match.group(1) for mount in mounts if (match := POD_MOUNT.match(mount))}),
        "control group": sorted({uid for uid, _ in pod_groups()}),
    }


def pod_groups() -> list[tuple[str, str]]:
    """Return the control groups of pods: the pod's id, and the folder."""
    roots = [root for pattern in GROUPS for root in glob.glob(pattern)]
    folders = [folder for root in roots for folder, _, _ in os.walk(root)]
    return [(match.group(1).replace("_", "-"), folder) for folder in folders if (match := POD_UID.search(folder))]


def running_static_pods() -> list[str]:
    """Return the ids (hashes of manifests) of static pods that have a process in their control group."""

    def runs(group: str) -> bool:
        return any((read(f"{folder}/cgroup.procs") or "").strip() for folder, _, _ in os.walk(group))

    return sorted({uid for uid, group in pod_groups() if len(uid) == HASH and runs(group)})


def task_mounts() -> list[str]:
    """Return the ids of containers and sandboxes of containerd that have mounts."""
    mounts = [line.split()[4] for line in (read("/proc/self/mountinfo") or "").splitlines()]
    return sorted({match.group(1) for mount in mounts if (match := RUN_MOUNT.match(mount))})


def main(argv: Sequence[str]) -> None:
    """Print everything; argv is ignored."""
    running = processes()
    agents = [process for process in running if process["name"] in ("kubelet", "containerd", "crio", "etcd")]
    report = {
        "checkpoints": checkpoints(),
        "policies": policies(),
        "databases": databases(running),
        "logs": missing_logs(running),
        "removed": removed(agents),
        "lost_sockets": lost_sockets(),
        "endpoints": endpoints(running),
        "command_lines": command_lines(agents),
        "reservations": reservations(),
        "shims": shims(),
        "task_mounts": task_mounts(),
        "idle_namespaces": idle_namespaces() if any(process["name"] == "containerd" for process in running) else [],
        "loose_veths": loose_veths(),
        "pods": pods(),
        "static_pods": running_static_pods(),
        "containers": containers(running),
    }
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
