"""Prints how a machine is set up around its programs: names, name servers, pod network's files, rules, images, units.

Also whether the API answers at the address that kubelet uses.

facts/programs.py reads the output.
"""

from __future__ import annotations

import base64
import glob
import json
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.validate.machine.library import fetch, flag, own_api, processes, read, said, trusting

CNI = "/etc/cni/net.d"
CRIO_IMAGES = "/var/lib/containers/storage/overlay-images/images.json"
REGISTRIES = ("/etc/containers/registries.conf", "/etc/containers/registries.conf.d/*.conf")
PORTS = "/sys/class/net/*/brif"  # what is on a bridge
API_PATHS = ("/version", "/readyz?verbose", "/api/v1/nodes", "/api/v1/secrets")
KUBECONFIG = ("server", "certificate-authority", "certificate-authority-data")
# Files of control groups, with how they begin where there is no limit: of cgroup v2, and of controllers of v1.
LIMITS = {
    "": {"cpu.max": "max", "memory.max": "max", "memory.high": "max"},
    "cpu": {"cpu.cfs_quota_us": "-1"},
    "cpu,cpuacct": {"cpu.cfs_quota_us": "-1"},
    "memory": {"memory.limit_in_bytes": "9223372036854"},
}
CORE = ("kubelet", "containerd", "crio", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NO_UNIT = "vmatrix-none.service"  # what has no file: systemd shows what every unit has
# Properties that tell of a unit's state, and what follows from other properties.
STATE_OF_UNIT = re.compile(
    r"Timestamp|Monotonic$|PID$|Current$|Peak$|^CPUUsage|^Effective|^Exec(Main|\w*Ex$|Start$)|^NRestarts|Result$|^[UG]ID$"
    r"|^Status|Invocation|^ControlGroup|State$|^(Id|Names|Description|Documentation|FragmentPath|SourcePath|DropInPaths)$"
    r"|^UnitFile|^Can[A-Z]|^Job$|^NeedDaemonReload|^Memory(Available|Pressure)|^IP(In|E)gress|^IO(Read|Write)[BO]|Next$"
    r"|^(Before|After|Wants|WantedBy|RequiredBy|TriggeredBy|ConsistsOf|BoundBy|Triggers|ReferencedBy|References)$"
    r"|^(RequiresMountsFor|WantsMountsFor|OnFailureOf|OnSuccessOf|PropagatesReloadTo|ReloadPropagatedFrom|Following)$"
    r"|^WatchdogUSec|^(Transient|Perpetual|SetLoginEnvironment|DelegateControllers|DebugInvocation)|^NFileDescriptor"
    r"|Ex$|^Slice$|^(CPU|Memory|Tasks|IO|BlockIO|IP)Accounting$|^DefaultMemory|^LoadError|^Restart(Steps|MaxDelay)|^TTYRe"
)
UNLINKED = re.compile(r"(\S+:( |$))+")  # folders of a unit (StateDirectorySymlink and so on), none of which has a link
DEPENDENCIES = ("Requires", "Requisite", "BindsTo", "PartOf", "Conflicts", "Upholds", "OnFailure", "OnSuccess")
ADDED_UNIT = re.compile(r"^(sysinit|basic|shutdown|umount)\.target$|\.slice$|\.mount$|^systemd-journald")
SHOWN_COMMAND = re.compile(r"\{ path=\S+ ; argv\[\]=(.*?) ; [^}]*\}")
# kube-proxy's rules by ClusterIP, protocol and port: elements of a map of nftables, rules of a chain of iptables.
NFTABLES = re.compile(r"([0-9a-f.:]+) \. (tcp|udp|sctp) \. (\d+) :")
IPTABLES = re.compile(r"^-A KUBE-SERVICES -d ([0-9a-f.:]+)/(?:32|128) .*-p (\w+) .*--dport (\d+) ", re.MULTILINE)
FAMILIES, PROGRAMS = ("ip", "ip6"), ("iptables-save", "ip6tables-save")
MAPS = ("service-ips", "no-endpoint-services")
IMAGE = re.compile(r"^([^@\s]+/[^@\s]+:[^@\s]+)\s+\S+\s+(sha256:[0-9a-f]{64})\s", re.MULTILINE)


def api_answers(said_ca: str) -> dict[str, Any]:
    """Return what this machine's own API server answers to a stranger, by path; nothing where none runs."""
    answers = own_api(said_ca, API_PATHS, known_only=True)
    # what a stranger gets of objects is in the status; the objects stay here
    return {p: a if "/api/" not in p else {**a, "body": a["body"][:200]} for p, a in answers.items()}


def resolv_conf(*names: str) -> list[list[str]]:
    """Return the lines of /etc/resolv.conf that begin with one of these words, as words."""
    lines = (line.split() for line in (read("/etc/resolv.conf") or "").splitlines())
    return [words for words in lines if len(words) > 1 and words[0] in names]


def resolved(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the addresses that programs on this machine get for names."""

    def ask(name: str) -> list[str]:
        lines = (line.split() for line in (said(["getent", "ahosts", name]) or "").splitlines())
        return sorted({words[0] for words in lines if words})

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(names, pool.map(ask, names)))  # noqa: B905 - Python 3.9


def api_of_kubelet() -> dict[str, Any] | None:
    """Return what answers at the API's address that the running kubelet uses; None where no kubelet runs."""
    for process in processes("kubelet"):
        text = read(flag(process["argv"], "kubeconfig")) or ""
        matches = {name: re.search(rf"^\s*-?\s*{name}:\s*[\"']?([^\s\"']+)", text, re.MULTILINE) for name in KUBECONFIG}
        server, file, data = (match.group(1) if match else "" for match in matches.values())
        try:
            context = trusting(cadata=base64.b64decode(data).decode()) if data else trusting(cafile=file)
        except (OSError, ValueError) as error:
            return {"server": server, "status": 0, "body": f"{file or 'the CA in the kubeconfig'}: {error}"}
        answer = fetch(f"{server}/readyz", None, context)
        return {"server": server, "status": answer["status"], "body": answer["body"][:200]}
    return None


def cni_files() -> dict[str, Any]:
    """Return the pod network's files by name, as the runtime reads them; None for one that is not JSON."""
    content_by_name = {}
    for path in sorted(glob.glob(CNI + "/*")):
        if path.endswith((".conf", ".conflist", ".json")):
            try:
                content_by_name[os.path.basename(path)] = json.loads(read(path) or "")
            except ValueError:
                content_by_name[os.path.basename(path)] = None
    return content_by_name


def service_rules() -> list[list[str]] | None:
    """Return [address, protocol, port] of the Services that kube-proxy has rules for; None where none runs.

    By the tools in kube-proxy's own container, which wrote the rules: older ones do not understand them.
    """
    for process in processes("kube-proxy"):
        inside = ["chroot", f"/proc/{process['pid']}/root"]
        rules: set[tuple[str, ...]] = set()
        for words, pattern in (
            *((["nft", "list", "map", family, "kube-proxy", name], NFTABLES) for family in FAMILIES for name in MAPS),
            *(([program, "-t", table], IPTABLES) for program in PROGRAMS for table in ("nat", "filter")),
        ):
            for text in (said([*inside, *words]), said(words)):
                rules |= set(pattern.findall(text or ""))
        return sorted(map(list, rules))
    return None


def images() -> dict[str, str]:
    """Return the digests of the container runtime's images, by name."""
    if processes("crio"):
        kept = json.loads(read(CRIO_IMAGES) or "[]")
        return {name: image["digest"] for image in kept for name in image.get("names", []) if "@" not in name}
    address = next((flag(p["argv"], "address") for p in processes("containerd")), "")
    words = ["ctr", *(["--address", address] if address else []), "-n", "k8s.io", "images", "ls"]
    return dict(IMAGE.findall((said(words) or "") + "\n"))


def kubelet_config() -> str:
    """Return the file of settings that the running kubelet names; "" where it names none."""
    return next((read(flag(p["argv"], "config")) or "" for p in processes("kubelet")), "")


def drop_ins(units: Sequence[str]) -> dict[str, list[str]]:
    """Return the files that amend units, by unit."""
    return {unit: (said(["systemctl", "show", "--value", "-p", "DropInPaths", unit]) or "").split() for unit in units}


def properties(text: str) -> dict[str, str]:
    """Return the properties that `systemctl show` prints; of one that is printed several times, all values."""
    shown: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        shown[key] = f"{shown[key]}; {value}" if key in shown else value
    return shown


def unit_settings(units: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return of each service what its unit sets, and what became of it.

    settings: the properties that differ from a unit's without any setting.  limits: those of processes (LimitNOFILE and
    so on) as they are.  restarts: how often systemd restarted it by itself.  reload: whether its files are newer than
    what systemd has read.  pid: of its main process.
    """
    names = [unit for unit in units if unit.endswith(".service")]
    show = ["systemctl", "show", "--no-pager"]
    blocks = map(properties, (said([*show, *names, NO_UNIT]) or "").split("\n\n"))
    shown = {block.get("Id", ""): block for block in blocks}
    manager = properties(said(show) or "")
    usual = {key[len("Default") :]: value for key, value in manager.items() if key.startswith("Default")}
    usual = {**shown.get(NO_UNIT, {}), **usual}
    units_shown = {}
    for unit in names:
        unit_state = shown.get(unit, {})
        if unit_state.get("LoadState") == "loaded":
            own = {
                key: SHOWN_COMMAND.sub(r"\1", value)
                for key, value in unit_state.items()
                if not STATE_OF_UNIT.search(key)
            }
            own |= {key: linked(value) for key, value in own.items() if key in DEPENDENCIES}
            own |= dict.fromkeys((key for key in own if key.endswith("Symlink") and UNLINKED.fullmatch(own[key])), "")
            units_shown[unit] = {
                "settings": {key: value for key, value in own.items() if value and value != usual.get(key, "")},
                "limits": {key: value for key, value in unit_state.items() if key.startswith("Limit")},
                "restarts": int(unit_state.get("NRestarts", "0")),
                "reload": unit_state.get("NeedDaemonReload") == "yes",
                "pid": int(unit_state.get("MainPID", "0")),
            }
    return units_shown


def linked(value: str) -> str:
    """Return the units that a unit names without those that systemd adds to every one."""
    return " ".join(sorted(name for name in value.split() if not ADDED_UNIT.search(name)))


def process_limits(pids: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return limits [soft, hard], score, niceness and processors of processes; of the first one of the machine, too."""
    limits_by_pid = {}
    for pid in {1, *pids} - {0}:
        lines = (read(f"/proc/{pid}/limits") or "").splitlines()[1:]
        rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
        status = dict(line.split(":", 1) for line in (read(f"/proc/{pid}/status") or "").splitlines() if ":" in line)
        fields = (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
        if rows and fields:
            limits_by_pid[str(pid)] = {
                "limits": {row[0].removeprefix("Max "): row[1:3] for row in rows},
                "oom": int(read(f"/proc/{pid}/oom_score_adj") or 0),
                "nice": int(fields[16]),
                "state": fields[0],
                "cpus": status.get("Cpus_allowed_list", "").strip(),
            }
    return limits_by_pid


def limits() -> list[list[str]]:
    """Return [program, file, value] of what limits kubelet and the runtime: their control groups and those above.

    Not the outermost group, which is the machine.
    """
    rows = set()
    for process in processes("kubelet", "containerd", "crio"):
        for line in (read(f"/proc/{process['pid']}/cgroup") or "").splitlines():
            _, controller, group = line.split(":", 2)
            group = group.rstrip("/")
            while group:  # of cgroup v2 there is one line without a controller, of v1 one for each
                for name, unlimited in LIMITS.get(controller, {}).items():
                    path = f"/sys/fs/cgroup/{controller}{group}/{name}".replace("//", "/")
                    value = (read(path) or "").strip()
                    if value and not value.startswith(unlimited):
                        rows.add((process["name"], path, value))
                group = group.rpartition("/")[0]
    return sorted(map(list, rows))


def servers(folder: str) -> dict[str, list[str]]:
    """Return the URLs in each registry's file for containerd, by the file's path."""
    files = sorted(glob.glob(f"{folder}/*/hosts.toml")) if folder else []
    return {path: sorted(set(re.findall(r"https?://[^\s'\"]+", read(path) or ""))) for path in files}


def registries_conf() -> dict[str, str]:
    """Return the files that say where CRI-O finds registries, by path; where CRI-O does not run, none."""
    paths = sorted(path for pattern in REGISTRIES for path in glob.glob(pattern)) if processes("crio") else []
    return {path: read(path) or "" for path in paths}


def main(argv: Sequence[str]) -> None:
    """Print everything.

    Args:
        argv: one JSON object: the file `ca` of the API server ("" where the product does not say), the `units` whose
            drop-ins to look for, the folder `registries` of containerd's hosts files, `names` to look up.
    """
    options = json.loads(argv[0])
    units = unit_settings(options["units"])
    pids = {unit: unit_state["pid"] for unit, unit_state in units.items()}
    limited = {f"{p['name']} {p['pid']}": p["pid"] for p in processes() if p["name"] in CORE}
    report = {
        "units": units,
        "processes": {"pids": {**pids, **limited}, "seen": process_limits([*pids.values(), *limited.values()])},
        "api": api_answers(options["ca"]),
        "resolvers": [words[1] for words in resolv_conf("nameserver")],
        "search": [" ".join(words) for words in resolv_conf("search", "domain", "options")],
        "resolved": resolved(options["names"]),
        "kubelets_api": api_of_kubelet(),
        "limits": limits(),
        "servers": servers(options["registries"]),
        "registries_conf": registries_conf(),
        "cni": cni_files(),
        "bridged": {os.path.basename(os.path.dirname(at)): len(os.listdir(at)) for at in glob.glob(PORTS)},
        "rules": service_rules(),
        "images": images(),
        "kubelet": kubelet_config(),
        "drop_ins": drop_ins(options["units"]),
        "registries": sorted(map(os.path.basename, glob.glob(options["registries"] + "/*")))
        if options["registries"]
        else [],
    }
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
