"""Kernel settings that all machines of this host share and that have to be raised before there are machines."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger(__name__)
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
# Every guest's root is the host's root, and the limit is per user. A control plane machine takes about 45 (measured:
# kube-apiserver 12, kube-controller-manager 11, kubelet 9, systemd 6, containerd 4), the embedded control plane 27.
INOTIFY_INSTANCES = 8192


def raise_inotify_limit(setting: Path = INOTIFY) -> None:
    """Raise the number of inotify instances per user, until the next reboot; a higher one stays as it is."""
    if int(setting.read_text(encoding="utf-8")) < INOTIFY_INSTANCES:
        setting.write_text(f"{INOTIFY_INSTANCES}\n", encoding="utf-8")
        log.info("raised %s to %d", setting, INOTIFY_INSTANCES)
