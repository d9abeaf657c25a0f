"""Next boot: what a machine's next start brings is what runs now, and nothing that the cluster cannot stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch, differs, on_every, unjudged
from harness.validate.kernel import KERNEL, PORTS, RESERVED, KernelRule, applies, kernel_settings

# Targets that start no services, or end at once (systemd.special(7)).
NO_SERVICES = {
    *("rescue.target", "emergency.target", "sysinit.target", "basic.target"),
    *("reboot.target", "poweroff.target", "halt.target", "kexec.target", "shutdown.target"),
}
# Modules without which pods, Services or tunnels do not work.
MODULES = frozenset(
    (
        *("overlay", "br_netfilter", "bridge", "veth", "vxlan", "nf_conntrack", "nf_nat", "nf_tables", "nft_chain_nat"),
        *(
            "nft_compat",
            "ip_tables",
            "ip6_tables",
            "iptable_nat",
            "iptable_filter",
            "x_tables",
            "xt_comment",
            "xt_mark",
        ),
        *("xt_conntrack", "xt_MASQUERADE", "xt_addrtype", "xt_statistic", "ip_set", "ip_vs", "ip_vs_rr", "ip_vs_wrr"),
        *("ip_vs_sh", "ext4", "xfs", "virtio_net", "virtio_blk", "loop", "tun", "inet_diag", "tcp_diag", "udp_diag"),
    )
)
# Words of the kernel's command line with which a machine comes up without what a node needs.
FORBIDDEN_WORDS = re.compile(
    r"^(systemd\.unit=|systemd\.mask=|single$|emergency$|rescue$|[1-5]$|init=|rd\.break|cgroup_disable=|cgroup_no_v1="
    r"|systemd\.unified_cgroup_hierarchy=|systemd\.legacy_systemd_cgroup_controller|ipv6\.disable|module_blacklist="
    r"|modprobe\.blacklist=|mem=|maxcpus=|nr_cpus=|nosmp$|isolcpus=|swapaccount=0|noexec|net\.ifnames=|biosdevname="
    r"|selinux=|enforcing=|apparmor=|security=|lsm=|lockdown=|hugepages=|panic=|sysctl\.)"
)
# Variables that change where programs connect to, what they load, or how Go's programs run.
FORBIDDEN_VARIABLES = re.compile(
    r"^(?i:(https?|no|all|ftp)_proxy)$|^LD_|^GO[A-Z]+$|^SSL_CERT_|^KUBE|^ETCD|^CONTAINERD|^CONTAINER_|^CRIO|^PYTHON"
    r"|^RES_OPTIONS$|^LOCALDOMAIN$|^NOTIFY_SOCKET$|^TMPDIR$|^MALLOC_"
)
# Commands that take away what a node needs.
HARMFUL = re.compile(
    r"\b(iptables|ip6tables|nft|ufw|firewall-cmd|ipset|swapon|sysctl|setenforce|rmmod|kubeadm\s+reset|killall|pkill"
    r"|modprobe\s+-r|systemctl\s+(stop|disable|mask|isolate|set-default)|ip\s+(-\d\s+)?(link|route|rule|addr)\S*\s"
    r"|mount|umount|rm\s+-\w*r\w*|ifdown|hostnamectl|hostname\s+\S|chattr|prlimit|ulimit)"
)
# Where the cluster keeps what must outlast a boot.
KEPT_IN = (
    *(
        "/etc/kubernetes",
        "/etc/cni",
        "/etc/containerd",
        "/etc/crio",
        "/etc/api-endpoint",
        "/etc/systemd/system",
        "/opt/cni",
    ),
    *(
        "/var/lib/kubelet",
        "/var/lib/etcd",
        "/var/lib/containerd",
        "/var/lib/containers",
        "/var/lib/cni",
        "/usr/local/bin",
    ),
    *("/usr/local/lib", "/var/log/pods", "/var/log/containers", "/etc/ssl/etcd"),
)


@dataclass(frozen=True)
class NextBoot:
    """What the next start of a machine does.

    settings: value and file of each kernel setting.  modules: those loaded.  swaps: swap space that is used.
    target: the target.  hostname: of /etc/hostname ("" where there is none).
    never_started: units that it starts and the last one did not, with a unit that wants them.  not_enabled: services
    that run now, and that it does not start.
    changed: by how many seconds files that a boot reads are newer than the last one.
    firewalls: service, file, line that forbids, whether it runs now.  blocked_modules: module, file.
    kernel_words: of the kernel's command line by file, without those it has now.
    variables: names by place.  commands: file, command.  mounts: place, options, whether it is mounted now.
    removals: file, place that is removed.  selinux: the mode then and now.
    """

    settings: Mapping[str, tuple[str, str]]
    modules: tuple[str, ...]
    swaps: tuple[str, ...]
    target: str
    hostname: str
    never_started: Mapping[str, str]
    not_enabled: tuple[str, ...]
    changed: Mapping[str, float]
    firewalls: tuple[tuple[str, str, str, bool], ...]
    blocked_modules: tuple[tuple[str, str], ...]
    kernel_words: Mapping[str, tuple[str, ...]]
    variables: Mapping[str, tuple[str, ...]]
    commands: tuple[tuple[str, str], ...]
    mounts: tuple[tuple[str, tuple[str, ...], bool], ...]
    removals: tuple[tuple[str, str], ...]
    selinux: tuple[str, str]


def next_boot_of(raw: Mapping[str, Any]) -> NextBoot:
    """Read what machine/boot.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    return NextBoot(
        settings={key: (value, path) for key, (value, path) in raw["settings"].items()},
        modules=tuple(raw["modules"]),
        swaps=tuple(raw["swaps"]),
        target=raw["target"],
        hostname=raw["hostname"],
        never_started=raw["never_started"],
        not_enabled=tuple(raw["not_enabled"]),
        changed=raw["changed"],
        firewalls=tuple((service, path, line, active) for service, path, line, active in raw["firewalls"]),
        blocked_modules=tuple((module, path) for module, path in raw["blocked_modules"]),
        kernel_words={path: tuple(words) for path, words in raw["kernel_words"].items()},
        variables={where: tuple(names) for where, names in raw["variables"].items()},
        commands=tuple((path, command) for path, command in raw["commands"]),
        mounts=tuple((place, tuple(options), now) for place, options, now in raw["mounts"]),
        removals=tuple((path, place) for path, place in raw["removals"]),
        selinux=(raw["selinux"][0], raw["selinux"][1]),
    )


Boots = Mapping[str, NextBoot]


def wrong_boot(boots: Boots, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what the next start of a node would set otherwise than it is needed."""
    modules = expected.leaves.boot_modules

    def judge(name: str, boot: NextBoot) -> Iterator[Mismatch]:
        yield from differs(f"{name} /etc/fstab", "swap", (), boot.swaps)
        if boot.target in NO_SERVICES:
            yield Mismatch(f"{name} systemd", "a default target with services", f"default target {boot.target}")
        yield from _wrong_settings(name, boot, expected)
        if modules is None:
            return
        if boot.hostname:  # a machine without one asks its network
            yield from differs(f"{name} /etc/hostname", "the machine's name", name, boot.hostname)
        for setting, value in kernel_settings(expected).items():
            yield from differs(f"{name} sysctl.d", setting, value, boot.settings.get(setting, ("", ""))[0])
        for module in modules:
            yield from differs(f"{name} modules-load.d", f"names {module}", True, module in boot.modules)

    mismatches = on_every(expected.nodes, boots, judge)
    why = "product.yml does not say which modules (boot_modules)"
    return (
        mismatches
        if modules is not None
        else [*mismatches, unjudged("kernel settings and modules after a reboot", why)]
    )


def _wrong_settings(name: str, boot: NextBoot, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Judge the kernel settings that files set: also those that need not be set."""
    needed = kernel_settings(expected)
    for key, (value, path) in boot.settings.items():
        plain = key.replace(".all.", ".*.").replace(".default.", ".*.")
        for rule in KERNEL:
            if (
                key in needed
                or not applies(rule, expected)
                or plain != rule.setting
                or _left_to_kubelet(rule, expected)
            ):
                continue
            if rule.kind == PORTS and RESERVED in boot.settings:
                continue
            if requirement := rule.wrong(value):
                yield Mismatch(f"{name} {path or 'sysctl.d'}", f"{key} {requirement} ({rule.why})", repr(value))


def _left_to_kubelet(rule: KernelRule, expected: ExpectedGuest) -> bool:
    """Tell whether kubelet sets a value itself, whatever the boot has set."""
    return rule.why.startswith("kubelet sets it") and not expected.kubelet_config.get("protectKernelDefaults")


def strange_boot(boots: Boots, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what the next start of a machine brings that is not there now, or that forbids what the cluster needs."""
    files = expected.leaves.boot_files

    def judge(name: str, boot: NextBoot) -> Iterator[Mismatch]:
        yield from _forbidding(name, boot, owned=files is not None)
        yield from _surprising(name, boot, owned=files is not None)
        yield from _losing(name, boot)
        if files is None:
            return
        for unit, by in sorted(boot.never_started.items()):
            requirement = "to be started now as well, or not to be enabled"
            yield Mismatch(
                f"{name} {unit}", requirement, f"{by} starts it at the next boot, and it has not run since this one"
            )
        for unit in boot.not_enabled:
            yield Mismatch(f"{name} {unit}", "to be started at the next boot as well", "it runs now and is disabled")
        for path, seconds in sorted(boot.changed.items()):
            if not any(fnmatchcase(path, pattern) for pattern in files):
                requirement = "as it was when the machine started: the product does not write it (boot_files)"
                yield Mismatch(f"{name} {path}", requirement, f"it was written {seconds:.0f} s after the start")

    mismatches = on_every(expected.machines, boots, judge)
    why = "product.yml does not say which files a boot reads are its own (boot_files)"
    return (
        mismatches
        if files is not None
        else [*mismatches, unjudged("files and units that only the next boot reads", why)]
    )


def _forbidding(name: str, boot: NextBoot, *, owned: bool) -> Iterator[Mismatch]:
    """Judge what forbids at boot what a cluster needs.

    Args:
        owned: whether the product says all that it leaves for a boot, so that nothing else may be there.
    """
    for service, path, line, active in boot.firewalls:
        if owned or not active:
            rules = f"{path}: {line}" if line else "it is enabled"
            yield Mismatch(f"{name} {service}", "no rules at the next boot that drop packets", rules)
    for module, path in boot.blocked_modules:
        if module.replace("-", "_") in MODULES:
            yield Mismatch(f"{name} {path}", f"module {module} to be loaded when it is needed", "it is forbidden")
    for path, words in boot.kernel_words.items():
        for word in filter(FORBIDDEN_WORDS.match, words):
            yield Mismatch(f"{name} {path}", "the kernel's command line as it is now", f"the next one has {word}")
    mode, now = boot.selinux
    if mode == "enforcing" and now == "permissive":
        yield Mismatch(f"{name} /etc/selinux/config", f"SELINUX={now}, as now", f"SELINUX={mode}")


def _surprising(name: str, boot: NextBoot, *, owned: bool) -> Iterator[Mismatch]:
    """Judge variables and commands of a boot; see `_forbidding`."""
    for where, names in boot.variables.items():
        for variable in filter(FORBIDDEN_VARIABLES.match, names):
            if owned or variable.startswith("LD_"):
                yield Mismatch(f"{name} {where}", f"no variable {variable} for every program", "it is set")
    for path, command in boot.commands:
        if owned or HARMFUL.search(command):
            yield Mismatch(f"{name} {path}", "no command at boot that the cluster does not need", command)


def _losing(name: str, boot: NextBoot) -> Iterator[Mismatch]:
    """Judge what hides, closes or removes at boot what the cluster keeps on disk."""
    for place, options, now in boot.mounts:
        if "noauto" in options:
            continue
        if not now and _touches(place, KEPT_IN):
            yield Mismatch(f"{name} /etc/fstab", f"nothing to be mounted at {place}, as now", "an entry")
        if "ro" in options and (place == "/" or _touches(place, KEPT_IN)):
            yield Mismatch(f"{name} /etc/fstab", f"{place} to be mounted for writing", ",".join(options))
    for path, place in boot.removals:
        if _touches(place.rstrip("*/"), KEPT_IN):
            yield Mismatch(f"{name} {path}", "nothing of the cluster's to be removed at boot", place)


def _touches(place: str, folders: Sequence[str]) -> bool:
    """Tell whether a place is in one of the folders, or one of them in it."""
    return place != "/" and any(
        folder == place or folder.startswith(f"{place}/") or place.startswith(f"{folder}/") for folder in folders
    )
