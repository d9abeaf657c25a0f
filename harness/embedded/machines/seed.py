"""Seed a machine's root file system before it boots: cloud-init's NoCloud seed and what a container needs.

Every path is resolved inside the root: a link in an image must not lead a writer that is root out of it.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import InfraError

SEED = Path("var/lib/cloud/seed/nocloud")
UNITS = Path("etc/systemd/system")
NETWORK_CONFIG = "config: disabled\n"
# These wait for hardware or a network manager that a container does not have, or do what is done from outside.
MASKED_UNITS = (
    "systemd-networkd-wait-online.service",
    "NetworkManager-wait-online.service",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-resolved.service",
    "networking.service",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-udev-settle.service",
    "systemd-growfs-root.service",
    "console-getty.service",
    "snapd.service",
    "snapd.seeded.service",
    "snapd.socket",
)
# On cgroup v1 nspawn leaves every controller but systemd's own read-only. The machine opens them itself, at every boot.
OPEN_CGROUPS_UNIT = "open-control-groups.service"
OPEN_CGROUPS = """[Unit]
Description=Make the control groups writable
DefaultDependencies=no
Before=sysinit.target
ConditionPathIsReadWrite=!/sys/fs/cgroup/memory

[Service]
Type=oneshot
ExecStart=/bin/sh -ec 'for tree in /sys/fs/cgroup/*/; do mount -o remount,bind,rw "$tree"; done'
"""


def place(root: Path, path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file inside a mounted root file system, in the place of whatever was there.

    Raises:
        InfraError: a link in the image leads out of the root.
    """
    target = _inside(root, path)
    target.unlink(missing_ok=True)
    target.write_text(text, encoding="utf-8")
    target.chmod(mode)


def _inside(root: Path, path: Path) -> Path:
    folder = (root / path.parent).resolve()
    if not folder.is_relative_to(root.resolve()):
        raise InfraError(f"the image's /{path.parent} is a link that leads out of its root file system")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / path.name


def _link(root: Path, unit: str, target: str) -> None:
    link = _inside(root, UNITS / unit)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def write(
    root: Path, *, instance_id: str, hostname: str, user_data: str, resolver: str, open_cgroups: bool = False
) -> None:
    """Prepare a root file system for its first boot as a machine.

    Args:
        instance_id: cloud-init's; a new one makes cloud-init run its once-per-instance parts.
        resolver: address for /etc/resolv.conf. Nothing needs to answer there, but it must not be a loopback address:
            CoreDNS forwards to it and takes a loopback for a loop.
        open_cgroups: the host is on cgroup v1.
    """
    meta = f"instance-id: {instance_id}\nlocal-hostname: {hostname}\n"
    place(root, SEED / "user-data", user_data, 0o600)
    place(root, SEED / "meta-data", meta)
    # The address is set from outside, before the machine starts.
    place(root, SEED / "network-config", NETWORK_CONFIG)
    place(root, Path("etc/machine-id"), "")
    place(root, Path("etc/hostname"), f"{hostname}\n")
    place(root, Path("etc/resolv.conf"), f"nameserver {resolver}\n")
    # Found by the seed above; said here as well, because the search for other data sources would take time.
    place(root, Path("etc/cloud/cloud.cfg.d/95-seed.cfg"), "datasource_list: [NoCloud, None]\n")
    for unit in MASKED_UNITS:
        _link(root, unit, "/dev/null")
    if open_cgroups:
        place(root, UNITS / OPEN_CGROUPS_UNIT, OPEN_CGROUPS)
        _link(root, f"sysinit.target.wants/{OPEN_CGROUPS_UNIT}", f"../{OPEN_CGROUPS_UNIT}")
