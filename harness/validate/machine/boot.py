"""Prints what the next start of a guest's machine does: units, rules for packets, mounts, modules, commands, variables.

topics/boot.py reads the output. Of variables only the names leave the machine.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from harness.validate.machine.library import age, read, said

# Files that programs read at the start of a machine and hardly later.
BOOT_FILES = (
    *("/etc/fstab", "/etc/crypttab", "/etc/modules", "/etc/rc.local", "/etc/environment"),
    *("/etc/default/*", "/etc/sysconfig/*", "/etc/environment.d/*", "/etc/security/limits.d/*", "/etc/ld.so.preload"),
    *("/etc/sysctl.conf", "/etc/sysctl.d/*", "/etc/modules-load.d/*", "/etc/modprobe.d/*", "/etc/tmpfiles.d/*"),
    *("/etc/systemd/*.conf", "/etc/systemd/*.conf.d/*", "/etc/systemd/system/*", "/etc/systemd/system/*.d/*"),
    *("/etc/systemd/system/*.wants/*", "/etc/systemd/system/*.requires/*"),
    *("/etc/systemd/system-generators/*", "/etc/systemd/system-environment-generators/*"),
    *("/etc/systemd/system-preset/*", "/etc/systemd/network/*", "/etc/systemd/user.conf", "/etc/init.d/*"),
    *("/usr/local/lib/systemd/system/*", "/usr/local/lib/systemd/system-generators/*", "/etc/rc?.d/*"),
    *("/etc/network/interfaces", "/etc/network/interfaces.d/*", "/etc/network/if-*.d/*", "/etc/netplan/*"),
    *("/etc/NetworkManager/*", "/etc/NetworkManager/*/*", "/etc/dhcp/*", "/etc/dhcp/*/*", "/etc/dhcpcd.conf"),
    *("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*", "/var/lib/cloud/scripts/*/*", "/etc/udev/rules.d/*"),
    *("/etc/default/grub.d/*", "/etc/kernel/*", "/boot/grub*/*.cfg", "/boot/loader/entries/*", "/boot/efi/EFI/*/*.cfg"),
    *(
        "/etc/nftables.conf",
        "/etc/nftables/*",
        "/etc/iptables/*",
        "/etc/ufw/*",
        "/etc/firewalld/*",
        "/etc/firewalld/*/*",
    ),
    *("/etc/selinux/config", "/etc/apparmor.d/*", "/etc/crontab", "/etc/cron.d/*", "/var/spool/cron/*"),
    *("/var/spool/cron/crontabs/*", "/etc/systemd/resolved.conf"),
)
MASKED_SWAP = "/etc/systemd/system/swap.target"
UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
TARGET = "default.target"  # which is told by itself
WANTS = ("/etc/systemd/system/*.wants/*", "/etc/systemd/system/*.requires/*", "/run/systemd/system/*.wants/*")
CLOUD = ("/var/lib/cloud/instance/boot-finished", "/run/cloud-init/result.json")  # when it has ended
# Services that load rules for packets, with the files that they load.
FIREWALLS = {
    "nftables.service": ("/etc/nftables.conf", "/etc/sysconfig/nftables.conf", "/etc/nftables/*"),
    "netfilter-persistent.service": ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
    "iptables.service": ("/etc/sysconfig/iptables", "/etc/iptables/iptables.rules"),
    "ip6tables.service": ("/etc/sysconfig/ip6tables", "/etc/iptables/ip6tables.rules"),
    "ufw.service": ("/etc/ufw/ufw.conf",),
    "firewalld.service": (),
    "ferm.service": ("/etc/ferm/ferm.conf",),
    "shorewall.service": (),
}
FORBIDS = re.compile(
    r"\b(policy\s+(drop|reject))\b|(^|\s)(drop|reject)(\s|;|$)|^:\w+ (DROP|REJECT)|-j (DROP|REJECT)|^ENABLED=yes"
)
RUNS = re.compile(r"^@reboot\s+(.+)$")
COMMAND_LINES: tuple[str, ...] = (
    "/etc/default/grub",
    "/etc/default/grub.d/*",
    "/etc/kernel/cmdline",
    "/boot/loader/entries/*",
)
COMMAND_LINES += ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
WORDS_OF = re.compile(r"^\s*(?:GRUB_CMDLINE_LINUX\w*=|options\s+|linux\w*\s+\S+\s+)(.*)$")
BLOCKS = re.compile(r"^\s*(?:blacklist\s+(\S+)|install\s+(\S+)\s+\S*/(?:false|true)\b|alias\s+(\S+)\s+off\b)")
MODPROBE = (
    "/etc/modprobe.d/*.conf",
    "/run/modprobe.d/*.conf",
    "/usr/lib/modprobe.d/*.conf",
    "/usr/local/lib/modprobe.d/*",
)
CRONTABS = ("/etc/crontab", "/etc/cron.d/*", "/var/spool/cron/*", "/var/spool/cron/crontabs/*")


def lines_in(*patterns: str) -> Iterator[tuple[str, str]]:
    """Yield path and line of text files, without comments and empty lines."""
    for path in sorted({path for pattern in patterns for path in glob.glob(pattern)}):
        for line in (read(path) or "").splitlines():
            if line.strip() and line.strip()[0] not in "#;":
                yield path, line.strip()


def booted() -> float:
    """Return when the machine had started, in seconds since the epoch: cloud-init's work included."""
    ended = [os.stat(path).st_mtime for path in CLOUD if os.path.exists(path)]
    return max([time.time() - age(1), *ended])


def changed_files() -> dict[str, float]:
    """Return by how many seconds files that a boot reads are newer than this one."""
    since, seconds_by_path = booted(), {}
    for path in {match for pattern in BOOT_FILES for match in glob.glob(pattern)}:
        newer = os.lstat(path).st_mtime - since
        if newer > 0 and not os.path.isdir(path) and os.path.basename(path) != TARGET:
            seconds_by_path[path] = newer
    return seconds_by_path


def enabled() -> dict[str, str]:
    """Return the units that are started at boot, each with a unit that wants it."""
    links = sorted({path for pattern in WANTS for path in glob.glob(pattern) if "@." not in path})  # no templates
    return {os.path.basename(path): os.path.basename(os.path.dirname(path)).rpartition(".")[0] for path in links}


STARTED_BY = ("WantedBy", "RequiredBy", "TriggeredBy", "BoundBy", "UpheldBy", "BusName")
# Whether a unit runs, whether it was ever started since the boot, and what starts it.
STATE = "Id,Names,ActiveState,LoadState,UnitFileState,InactiveExitTimestampMonotonic,ConditionTimestampMonotonic"


def shown(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what systemd tells of units, by each of their names."""
    properties = ",".join((STATE, *STARTED_BY))
    text = said(["systemctl", "show", "--no-pager", "-p", properties, "--", *names]) or "" if names else ""
    rows = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.split("\n\n")]
    return {name: row for row in rows for name in {row.get("Id", ""), *row.get("Names", "").split()}}


def never_started(wanted_by: dict[str, str], units: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return units that the next boot starts and this one did not, with what wants them and is there already."""
    wanting = {}
    for unit, by in wanted_by.items():
        unit_state = units.get(unit, {})
        never = all(
            unit_state.get(key, "0") == "0" for key in ("InactiveExitTimestampMonotonic", "ConditionTimestampMonotonic")
        )
        idle = unit_state.get("LoadState") == "loaded" and unit_state.get("ActiveState") == "inactive" and never
        if idle and units.get(by, {}).get("ActiveState") == "active":
            wanting[unit] = by
    return wanting


def running_services() -> list[str]:
    """Return the names of the services that run."""
    listed = said(["systemctl", "list-units", "--type=service", "--state=running", "--plain", "--no-legend"]) or ""
    return [line.split()[0] for line in listed.splitlines() if line.strip()]


def not_enabled(names: Sequence[str], units: dict[str, dict[str, str]]) -> list[str]:
    """Return those of the running services that nothing starts at the next boot."""
    rows = ((name, units.get(name, {})) for name in names)
    return sorted(
        name for name, state in rows if state.get("UnitFileState") == "disabled" and not any(map(state.get, STARTED_BY))
    )


def firewalls(wanted_by: dict[str, str], units: dict[str, dict[str, str]]) -> list[list[Any]]:
    """Return [service, file, line, whether it runs] of what loads rules at boot that forbid something."""
    rules = []
    for name, patterns in FIREWALLS.items():
        if name in wanted_by:
            lines = [[path, line] for path, line in lines_in(*patterns) if FORBIDS.search(line)]
            active = units.get(name, {}).get("ActiveState") == "active"
            rules += [[name, *line, active] for line in lines or ([] if patterns else [["", ""]])]
    return rules


def blocked_modules() -> list[list[str]]:
    """Return [module, file] of kernel modules that nothing loads by itself, or at all."""
    matches = ((path, BLOCKS.match(line)) for path, line in lines_in(*MODPROBE))
    return [[next(filter(None, match.groups())), path] for path, match in matches if match]


def kernel_words() -> dict[str, list[str]]:
    """Return the words of the kernel's next command line by file, without those that it has now."""
    now, words_by_file = set((read("/proc/cmdline") or "").split()), dict[str, set[str]]()
    for path, line in lines_in(*COMMAND_LINES):
        match = WORDS_OF.match(line)
        text = match.group(1) if match else line if path.endswith("/cmdline") else ""
        try:
            words = " ".join(shlex.split(text)).split()
        except ValueError:
            words = text.split()
        words_by_file.setdefault(path, set()).update(set(words) - now)
    return {path: sorted(words) for path, words in words_by_file.items() if words}


def variables() -> dict[str, list[str]]:
    """Return the names of variables that every unit or login is given, by where they come from."""
    names_by_source: dict[str, set[str]] = {}
    for line in (said(["systemctl", "show-environment"]) or "").splitlines():
        names_by_source.setdefault("systemd's environment", set()).add(line.partition("=")[0])
    for path, line in lines_in("/etc/environment", "/etc/environment.d/*.conf"):
        names_by_source.setdefault(path, set()).add(line.removeprefix("export ").partition("=")[0].strip())
    for path, line in lines_in("/etc/systemd/system.conf", "/etc/systemd/system.conf.d/*.conf"):
        key, _, value = line.partition("=")
        if key.strip() in ("DefaultEnvironment", "ManagerEnvironment"):
            names = {word.partition("=")[0] for word in shlex.split(value)}
            names_by_source.setdefault(path, set()).update(names)
    if os.path.exists("/etc/ld.so.preload") and (read("/etc/ld.so.preload") or "").strip():
        names_by_source["/etc/ld.so.preload"] = {"LD_PRELOAD"}
    return {where: sorted(names) for where, names in names_by_source.items()}


def commands() -> list[list[str]]:
    """Return [file, command] of what runs once at boot: cron's @reboot, rc.local."""
    jobs = [[path, match.group(1)] for path, line in lines_in(*CRONTABS) if (match := RUNS.match(line))]
    paths = [path for path in ("/etc/rc.local", "/etc/rc.d/rc.local") if os.access(path, os.X_OK)]
    return jobs + [[path, line] for path, line in lines_in(*paths) if line != "exit 0"]


def mounts() -> list[list[Any]]:
    """Return [place, options, whether it is mounted now] of each line of /etc/fstab but those for swap."""
    lines = ([*line.split(), "defaults"][:4] for _, line in lines_in("/etc/fstab"))
    return [[place, words.split(","), os.path.ismount(place)] for _, place, kind, words in lines if kind != "swap"]


def removals() -> list[list[str]]:
    """Return [file, place] of what systemd-tmpfiles removes at boot, or once it is old enough (tmpfiles.d(5))."""
    folders = ("/etc/tmpfiles.d/*.conf", "/run/tmpfiles.d/*.conf", "/usr/lib/tmpfiles.d/*.conf")
    rows = []
    for path, line in lines_in(*folders):
        words = [*line.split(), *["-"] * 6][:6]
        if words[0][0] in "rRD" or (words[0][0] in "dvqQeC" and words[5] != "-"):
            rows.append([path, words[1]])
    return rows


def settings() -> dict[str, list[str]]:
    """Return [value, file] of each kernel setting that a boot sets (sysctl.d(5): the last one counts)."""
    values, path = {}, ""
    for line in (said(["systemd-analyze", "cat-config", "sysctl.d"]) or "").splitlines():
        if line.startswith("# /"):
            path = line[2:].strip()
        elif not line.lstrip().startswith(("#", ";")) and "=" in line:
            key, _, value = line.strip().lstrip("-").partition("=")
            values[key.strip().replace("/", ".")] = [value.strip(), path]
    return values


def swaps() -> list[str]:
    """Return what swap space is used at boot."""
    if os.path.realpath(MASKED_SWAP) == "/dev/null":
        return []
    rows = [line.split() for _, line in lines_in("/etc/fstab")]
    units = [os.path.basename(path) for path in glob.glob("/etc/systemd/system/*.wants/*.swap")]
    return units + [words[0] for words in rows if len(words) > 3 and words[2] == "swap" and "noauto" not in words[3]]


def target() -> str:
    """Return the target that a boot leads to: the first link of that name counts (systemd.unit(5))."""
    links = [f"{folder}/{TARGET}" for folder in UNIT_FOLDERS if os.path.lexists(f"{folder}/{TARGET}")]
    return os.path.basename(os.readlink(links[0])) if links and os.path.islink(links[0]) else ""


def mode_of_selinux() -> list[str]:
    """Return SELinux's mode after the next boot and now; "" where there is none."""
    words = dict(line.split("=", 1) for _, line in lines_in("/etc/selinux/config") if "=" in line)
    now = {"0": "permissive", "1": "enforcing"}.get((read("/sys/fs/selinux/enforce") or "").strip(), "")
    return [words.get("SELINUX", "").strip(), now]


def main(argv: Sequence[str]) -> None:
    """Print everything; argv is ignored."""
    wanted_by, services = enabled(), running_services()
    units = shown(sorted({*wanted_by, *wanted_by.values(), *services}))
    names = (
        "/etc/modules-load.d/*.conf",
        "/run/modules-load.d/*.conf",
        "/usr/lib/modules-load.d/*.conf",
        "/etc/modules",
    )
    report = {
        "settings": settings(),
        "modules": sorted({line for _, line in lines_in(*names)}),
        "swaps": swaps(),
        "target": target(),
        "hostname": (read("/etc/hostname") or "").strip(),
        "never_started": never_started(wanted_by, units),
        "not_enabled": not_enabled(services, units),
        "changed": changed_files(),
        "firewalls": firewalls(wanted_by, units),
        "blocked_modules": blocked_modules(),
        "kernel_words": kernel_words(),
        "variables": variables(),
        "commands": commands(),
        "mounts": mounts(),
        "removals": removals(),
        "selinux": mode_of_selinux(),
    }
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
