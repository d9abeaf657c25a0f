"""Whether this host's KVM makes virtual machines, found out by making one: a device file alone says little."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

DEVICE = Path("/dev/kvm")
GET_API_VERSION = 0xAE00  # linux/kvm.h
CREATE_VM = 0xAE01
CREATE_VCPU = 0xAE41
STABLE_API = 12


def works(device: Path = DEVICE) -> bool:
    """Tell whether a virtual machine with one processor can be made."""
    handles: list[int] = []
    try:
        handles.append(os.open(device, os.O_RDWR | os.O_CLOEXEC))
        if fcntl.ioctl(handles[0], GET_API_VERSION) != STABLE_API:
            return False
        handles.append(fcntl.ioctl(handles[0], CREATE_VM, 0))
        handles.append(fcntl.ioctl(handles[1], CREATE_VCPU, 0))
    except OSError:
        return False
    finally:
        for handle in reversed(handles):
            os.close(handle)
    return True
