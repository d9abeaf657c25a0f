"""How each fact of docs/guests.md shows itself in a machine: a command that prints the fact's value."""

from __future__ import annotations

from tests.contract.limits import lasting

ANSWER = lasting(10)  # seconds for a machine's network to say something
YES_OR_NO = "if {}; then echo true; else echo false; fi"


def _asked(condition: str) -> str:
    return YES_OR_NO.format(condition)


CAPABLE = "int([w for w in open('/proc/self/status').read().split('\\n') if w[:6] == 'CapEff'][0].split()[1], 16)"
PROOFS = {
    "own_kernel": _asked("systemd-detect-virt --quiet --container") + " | sed 's/true/no/; s/false/true/; s/no/false/'",
    "kernel_modules": _asked("sudo modprobe -q br_netfilter"),
    "proc_modules": _asked("test -e /proc/modules"),
    # the value that is there is written again: whoever may not, is in a network namespace that is not the kernel's
    "own_sysctls": _asked("sysctl -n net.core.rmem_max | sudo tee /proc/sys/net/core/rmem_max >/dev/null 2>&1"),
    "own_clock": _asked("test -e /dev/rtc0"),
    "own_size": _asked("test $(awk '/^MemTotal/ {print $2}' /proc/meminfo) -lt 1048576"),  # KiB; machines have half
    "own_disks": _asked("test -b $(findmnt --noheadings --output SOURCE /)"),
    "loop_devices": _asked("test -e /dev/loop-control"),
    "fuse": _asked("test -e /dev/fuse"),
    "udev": _asked("systemctl is-active --quiet systemd-udevd"),
    "raise_limits": f'sudo python3 -c "print(str(bool({CAPABLE} >> 24 & 1)).lower())"',  # CAP_SYS_RESOURCE
    "open_files": "sudo systemd-run --wait --pipe --quiet -p LimitNOFILE=infinity sh -c 'ulimit -n'",
    "cgroup_version": "stat -fc %T /sys/fs/cgroup | sed 's/cgroup2fs/2/; s/tmpfs/1/'",
    "swap": _asked("test $(wc -l < /proc/swaps) -gt 1"),
    "dns": _asked(f"timeout {ANSWER:g} getent hosts kubernetes.default.svc.cluster.local >/dev/null"),
    "internet": _asked(f"timeout {ANSWER:g} bash -c '</dev/tcp/1.1.1.1/443' 2>/dev/null"),
}
AT_LEAST = frozenset({"open_files"})  # on virtual machines
BY_CELL = frozenset({"internet"})  # on virtual machines, where a cell's NetworkPolicy and the infra cluster decide
