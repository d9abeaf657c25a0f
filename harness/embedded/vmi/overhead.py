"""What a launcher pod asks of the scheduler beyond its guest's memory: KubeVirt's estimate, and its CPU share."""

from __future__ import annotations

import math

from harness.kube.client import Json
from harness.kube.objects import dig, quantity

MIB = 1024 * 1024
# KubeVirt 1.9, GetMemoryOverhead: monitor 25, launcher 100, virtlogd 25, virtqemud 40, qemu 30, IO threads 8 (MiB).
FIXED_MIB = 228
VCPU_MIB = 8
GRAPHICS_MIB = 32
PAGE_TABLE_SHARE = 512
CPU_ALLOCATION_RATIO = 10


def vcpus(spec: Json) -> int:
    """Return an instance's virtual CPUs: sockets x cores x threads, else what its resources say, else 1."""
    cpu = dig(spec, "domain", "cpu") or {}
    shape = [int(cpu.get(part) or 0) for part in ("sockets", "cores", "threads")]
    if any(shape):
        return math.prod(part or 1 for part in shape)
    for kind in ("limits", "requests"):
        asked = dig(spec, "domain", "resources", kind, "cpu")
        if asked:
            return max(1, math.ceil(quantity(asked)))
    return 1


def guest_memory(spec: Json) -> int:
    """Return an instance's memory in bytes."""
    for path in (("memory", "guest"), ("resources", "requests", "memory"), ("resources", "limits", "memory")):
        asked = dig(spec, "domain", *path)
        if asked:
            return int(quantity(asked))
    return 0


def requested_memory(spec: Json) -> int:
    """Return the bytes that a launcher asks for its guest: what the instance requests, else all of its memory."""
    asked = dig(spec, "domain", "resources", "requests", "memory")
    return int(quantity(asked)) if asked else guest_memory(spec)


def memory_overhead(spec: Json) -> int:
    """Return the bytes that KubeVirt asks for the launcher's processes; none where the instance leaves them out."""
    if dig(spec, "domain", "resources", "overcommitGuestOverhead"):
        return 0
    requested = dig(spec, "domain", "resources", "requests", "memory")
    page_tables = int(quantity(requested)) // PAGE_TABLE_SHARE if requested else 0
    graphics = 0 if dig(spec, "domain", "devices", "autoattachGraphicsDevice") is False else GRAPHICS_MIB
    return page_tables + (FIXED_MIB + VCPU_MIB * vcpus(spec) + graphics) * MIB


def in_mib(amount: int) -> str:
    """Write bytes as a quantity: in Mi when they are whole, else as a number."""
    return f"{amount // MIB}Mi" if amount % MIB == 0 else str(amount)


def cpu_request(spec: Json) -> str:
    """Return the CPU share that a launcher asks for."""
    return f"{1000 * vcpus(spec) // CPU_ALLOCATION_RATIO}m"
