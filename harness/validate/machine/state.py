"""Prints the whole state of a machine: files, mounts, network, firewall, units, processes, control groups, sysctls.

It runs as root with nothing but Python and the usual commands, takes one JSON object ({"files": false}: all but them;
{"starts": true}: also when services began) or none, and prints one. What changes on any running machine is left out,
each with its reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path

TREES = ("/boot", "/etc", "/home", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/var")  # noqa: S108 - looked at, not written
LEFT_OUT = re.compile(
    "|".join(
        (
            r"/__pycache__(/|$)",  # written by any Python program
            r"/\.ansible(/|$)",  # Ansible's own scratch folder
            r"^/(run|var)/log/(?!pods|containers)",  # logs tell what happened, also that it was undone
            # of systemd's own folder, what people and programs leave there counts: units, drop-ins, masks, networks;
            # transient units are among the units
            r"^/run/systemd/(?!(system|system\.control|network|user|[a-z]+\.conf\.d)(/|$))",
            r"^/run/udev/(?!rules\.d(/|$))",
            r"^/run/(user|dbus|sudo|sshd|credentials|utmp|initctl|cloud-init|blkid|mount)(/|$)",
            r"^/var/lib/(systemd|dbus|cloud|logrotate|private|polkit-1)(/|$)",  # clocks and seeds of the system's own
            r"^/(var/)?tmp/systemd-private-",
            r"^/var/(cache|backups)(/|$)",
            r"^/etc/\.(pwd|updated)",
        )
    )
)
LIST_IPSETS, IPSET_NAME = 6 << 8 | 7, 2  # netlink's list of ipsets, and the attribute that names one
NETLINK_SECONDS = 30  # against hanging: the kernel answers at once
VOLATILE_UNIT = re.compile(
    r"^(session-|user@|user-|run-user|run-|dev-|sys-|systemd-tmpfiles|apt-|fstrim|man-db|dpkg-db)"
)
PASSING = re.compile(r"(\(sd-pam\)|agetty|dbus-daemon|python3|sftp-server|sh|bash|ssh.*|sudo|systemd.*)$")
KERNEL_SETTINGS = Path("/proc/sys/net")  # the rest belongs to the kernel, which machines may share with their host
COUNTING = re.compile(r"nf_conntrack_count|/neigh/|/(conf|neigh)/(veth|cni|flannel)")


def output(*argv: str) -> list[str]:
    """Return the lines that a command prints."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


def fingerprint(path: Path) -> str:
    """Return the kind, permissions, owner and content of a path; not its times."""
    status = path.lstat()
    kind = stat.filemode(status.st_mode)
    owner = f"{status.st_uid}:{status.st_gid}"
    if stat.S_ISLNK(status.st_mode):
        return f"{kind} {owner} -> {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        return f"{kind} {owner} {status.st_size} {digest(path)}"
    return f"{kind} {owner}"


def digest(path: Path) -> str:
    """Return a short checksum of a file's content; a network namespace, which looks like a file, has none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError:
        return "unreadable"


def files() -> dict[str, str]:
    """Return every file and folder of the trees, except those left out."""
    fingerprints: dict[str, str] = {}
    pending = [Path(tree) for tree in TREES]
    while pending:
        folder = pending.pop()
        for path in folder.iterdir():
            if LEFT_OUT.search(str(path)):
                continue
            try:
                fingerprints[str(path)] = fingerprint(path)
            except FileNotFoundError:
                continue
            if path.is_dir() and not path.is_symlink():
                pending.append(path)
    return fingerprints


def mounts() -> dict[str, str]:
    """Return every mount point with its kind of file system."""
    lines = (line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines())
    kinds = {words[4]: words[words.index("-") + 1] for words in lines}
    return {where: kind for where, kind in kinds.items() if not where.startswith("/run/user/")}


def links() -> dict[str, str]:
    """Return every network interface with its kind, and what is attached to what."""
    interfaces = json.loads("\n".join(output("ip", "-json", "-details", "link")))
    return {
        each["ifname"]: f"{each.get('linkinfo', {}).get('info_kind', '')} {each.get('master', '')} mtu {each['mtu']}"
        for each in interfaces
    }


def as_keys(lines: list[str]) -> dict[str, str]:
    """Return lines as keys without values."""
    return {line.strip(): "" for line in lines if line.strip()}


def nftables() -> list[str]:
    """Return all rules as nft lists them; only the chains where an old nft crashes on a newer one's sets."""
    listing = ("nft", "--stateless", "list", "ruleset")
    done = subprocess.run(listing, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout.splitlines()
    return [f"{' '.join(listing)} ended with status {done.returncode}", *output("nft", "list", "chains")]


def ipsets() -> set[str]:
    """Return the names of ipsets, by netlink: machines need not have `ipset`. A kernel without them has none."""
    attributes = struct.pack("=HHB3x", 5, 1, 6)  # the oldest protocol that kernels speak (ip_set.h)
    request = (
        struct.pack("=IHHII", 28, LIST_IPSETS, 0x301, 0, 0) + struct.pack("!BBH", socket.AF_INET, 0, 0) + attributes
    )
    names: set[str] = set()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as link:
        link.settimeout(NETLINK_SECONDS)
        link.send(request)
        while True:
            received = link.recv(1 << 18)
            while received:
                length, kind = struct.unpack_from("=IH", received)
                content, received = received[20:length], received[(length + 3) & ~3 :]
                if kind != LIST_IPSETS:  # the last message, or an error
                    return names
                while content:
                    size, attribute = struct.unpack_from("=HH", content)
                    if attribute == IPSET_NAME:
                        names.add(content[4:size].rstrip(b"\0").decode())
                    content = content[(size + 3) & ~3 :]


def firewall() -> dict[str, str]:
    """Return the rules of nftables (iptables-nft's are among them) and of the older tables, and ipsets."""
    rules = {f"{number}: {line}": "" for number, line in enumerate(nftables())}
    rules |= {f"ipset {name}": "" for name in ipsets()}
    for family in ("ip", "ip6"):
        names = Path(f"/proc/net/{family}_tables_names")
        for table in names.read_text(encoding="utf-8").split() if names.exists() else ():
            saved = output(f"{family}tables-legacy-save", "-t", table)
            rules |= {f"{family} {table} {line}": "" for line in saved if line.startswith("-")}
    return rules


def units() -> dict[str, str]:
    """Return every unit and unit file with its state."""
    listed = output("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager")
    states = {words[0]: " ".join(words[1:3]) for words in map(str.split, listed) if not VOLATILE_UNIT.match(words[0])}
    for line in output("systemctl", "list-unit-files", "--plain", "--no-legend", "--no-pager"):
        name, state = line.split()[:2]
        states[f"file {name}"] = state
    return {name: state for name, state in states.items() if not name.endswith((".device", ".scope"))}


def starts() -> dict[str, str]:
    """Return when the main process of each running service began, in microseconds since the boot."""
    names = ("Id", "SubState", "ExecMainStartTimestampMonotonic")
    blocks = "\n".join(output("systemctl", "show", "*.service", f"--property={','.join(names)}")).split("\n\n")
    services = (dict(line.partition("=")[::2] for line in block.splitlines()) for block in blocks)
    return {service[names[0]]: service[names[2]] for service in services if service.get(names[1]) == "running"}


def processes() -> dict[str, str]:
    """Return the command of every process that is not the system's, the login's or this one's."""
    commands = {}
    for pid in (path for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            command = (pid / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue
        if command[0] and not PASSING.match(Path(command[0].split(" ")[0].rstrip(":")).name):
            commands[" ".join(command)] = ""
    return commands


def control_groups() -> dict[str, str]:
    """Return every control group, except those of units and sessions."""
    root = Path("/sys/fs/cgroup")
    below = (path.relative_to(root) for path in root.glob("**/") if not path.is_symlink())
    return {str(path): "" for path in below if not re.search(r"\.(service|scope|slice|mount|socket|swap)", str(path))}


def kernel_settings() -> dict[str, str]:
    """Return the kernel's network settings."""
    settings = {}
    for path in KERNEL_SETTINGS.rglob("*"):
        if path.is_file() and not COUNTING.search(str(path)):
            try:
                settings[str(path)] = path.read_text(encoding="utf-8", errors="replace").strip()
            except OSError:
                continue
    return settings


def look(*, with_files: bool = True, with_starts: bool = False) -> dict[str, dict[str, str]]:
    """Return the whole state of this machine, by kind; without files, which take the longest, if they do not count."""
    return {
        **({"file": files()} if with_files else {}),
        **({"start": starts()} if with_starts else {}),
        "mount": mounts(),
        "link": links(),
        "route": as_keys([line for table in ("main", "all") for line in output("ip", "route", "show", "table", table)]),
        "routing rule": as_keys(output("ip", "rule")),
        "firewall rule": firewall(),
        "unit": units(),
        "process": processes(),
        "control group": control_groups(),
        "kernel setting": kernel_settings(),
        "hostname": {Path("/proc/sys/kernel/hostname").read_text(encoding="utf-8").strip(): ""},
    }


if __name__ == "__main__":
    given = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    json.dump(look(with_files=given.get("files", True), with_starts=given.get("starts", False)), sys.stdout)
