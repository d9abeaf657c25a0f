"""A virtual machine monitor that can do just enough to run the guest, in a process of its own: `python -m` this module.

It prints one line per letter that the guest says, then how it ended: `done`, or what went wrong. It is a process of its
own because a processor that never comes back can only be ended with its process. Needs the standard library alone.

Numbers and structures from linux/kvm.h; what the calls mean from the kernel's Documentation/virt/kvm/api.rst.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import hashlib
import mmap
import os
import resource
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

SAYS, ENDS = 0xE9, 0xF4  # the ports that it writes to: the letter of a stage, and at its end anything
DONE = "done"
STAGES = {
    "R": "real mode",
    "P": "protected mode",
    "L": "long mode with paging",
    "H": "running in the upper half of the address space",
    "M": "model-specific registers",
    "F": "a page fault",
    "U": "user mode with interrupts and system calls",
    "T": "the timer of the local APIC",
    "S": "200 million instructions",
}
MEMORY = 4 << 20
ROM_SIZE = 0x10000
RESET = bytes.fromhex("ea000000f0")  # jmp f000:0000
CODE = base64.b64decode("""
+vwxwI7YjsCO0LwAcLBS5ukuZg8BFqgDDyDADAEPIsBm6igADwAIAGa4EACO2I7AjtC8AHAAALBQ5um/AIAAALkAQAAAMcDzq75YAw8AvwCAAAC5
FAAAAPOlxwUAAAEABxABAMcF+A8BAAcwAQDHBQAQAQAHIAEAxwUYEAEAB2ABAMcF8D8BAAcgAQDHBQAgAQCHAAAAxwUIIAEAhwAgAMcFECABAAdA
AQDHBbhvAQCbAOD+xwXgUAEAEwMYAMcF5FABAACOD4DHBehQAQD/////xwUAVAEAOQMYAMcFBFQBAACOD4DHBQhUAQD/////xwUAWAEAgwIYAMcF
BFgBAADuD4DHBQhYAQD/////xwUEkAAAAHAAgMcFCJAAAP////8PIOCDyCAPIuC4AAABAA8i2LmAAADADzINAQkAAA8wDyDADQAAAYAPIsDqUwEP
ABgAsEzm6UjHwGABD4D/4EjHxABwAIAPARVAAgAADwEdQwIAADHAjtiOwGa4IACO0Ga4QAAPANgPIOANgAYAAA8i4EjHwJ8BD4BqGFBIy7BI5um5
AQEAwLoAAAAAuDQSAAAPMLkCAQDAuv////+4AKAAgA8wDwH4uQEBAMAPMj0AoACAD4UwAQAAZf8EJQAAAAC5EAAAAA8xicPzkA8xOcMPhBMBAAAx
wA+isE3m6Ui7iHdmVUQzIhFIiRwlCABAAEg5HCUIABAAD4XrAAAAsEbm6bmBAADAuhgAKAC4AAAAAA8wuYIAAMC6/////7iKAg+ADzC5hAAAwLoA
AAAAuAAHAAAPMLlkAg8AQbsCAAAASA8HZozIJAM8Aw+FmQAAALwAYAAAzYCD+1oPhYkAAAAPBbtaAAAASM9Ix8QAcACAsFXm6bD/5iHmobsAAOD+
ZccEJQAAAAAAAAAAx4PwAAAA/wEAAMeD4AMAAAsAAADHgyADAABAAAIAx4OAAwAAQEIPAPv0+mWDPCUAAAAACnLyx4MgAwAAAAABALBU5um5gPD6
ArsAABAASAMDSIkD/8l19rBT5unm9LAh5unm9PTr/VAPINBIPQgAQAB168cEJQBAAQAHABAADwE8JQAAQABYSIPECEjPZf8EJQAAAABTuwAA4P7H
g7AAAAAAAAAAW0jPDx9AAAAAAAAAAAAA//8AAACbzwD//wAAAJPPAP//AAAAm68A//8AAACTzwD//wAAAPvPAP//AAAA888A//8AAAD7rwBnAACQ
AIkAgP////8AAAAATwBYAw8ATwAAgACA//////8PAFABgP////8=
""")


def rom() -> bytes:
    """Return the firmware of which the code is a part: 64 KiB, with the reset vector 16 bytes before its end."""
    body = CODE.ljust(ROM_SIZE - 16, b"\xff") + RESET
    return body.ljust(ROM_SIZE, b"\xff")


def digest() -> str:
    """Return what tells this guest from another version of it."""
    return hashlib.sha256(rom()).hexdigest()[:16]


GET_API_VERSION, CREATE_VM, GET_VCPU_MMAP_SIZE = 0xAE00, 0xAE01, 0xAE04
CREATE_VCPU, SET_TSS_ADDR, CREATE_IRQCHIP, RUN = 0xAE41, 0xAE47, 0xAE60, 0xAE80
SET_USER_MEMORY_REGION, SET_IDENTITY_MAP_ADDR = 0x4020AE46, 0x4008AE48
GET_SUPPORTED_CPUID, SET_CPUID2 = 0xC008AE05, 0x4008AE90
STABLE_API = 12
CPUID_ENTRIES, CPUID_SIZE = 256, 40
EXIT_IO, EXIT_SHUTDOWN, EXIT_FAIL_ENTRY, EXIT_INTERNAL_ERROR = 2, 8, 9, 17
EXITS = {
    EXIT_SHUTDOWN: "the processor shut down, as after a fault that its guest cannot handle",
    EXIT_FAIL_ENTRY: "the hardware refused the guest's state",
    EXIT_INTERNAL_ERROR: "KVM met an instruction or a state that it cannot handle",
}
OUT = 1
TSS, IDENTITY_MAP = 0x1000000, 0x1010000  # pages that Intel's KVM keeps for itself, where the guest has nothing
PROCESSOR_SECONDS = 10  # of CPU time: hardware takes 0.2, emulation instruction by instruction takes minutes


class TrialMachine:
    """One virtual machine with one processor, whose firmware is the guest."""

    def __init__(self, device: Path) -> None:
        self._kvm = os.open(device, os.O_RDWR | os.O_CLOEXEC)
        if (version := fcntl.ioctl(self._kvm, GET_API_VERSION)) != STABLE_API:
            raise OSError(f"its API has version {version}, not {STABLE_API}")
        self._vm = fcntl.ioctl(self._kvm, CREATE_VM, 0)
        fcntl.ioctl(self._vm, SET_TSS_ADDR, TSS)
        fcntl.ioctl(self._vm, SET_IDENTITY_MAP_ADDR, struct.pack("Q", IDENTITY_MAP))
        fcntl.ioctl(self._vm, CREATE_IRQCHIP)
        self._memory, self._rom = mmap.mmap(-1, MEMORY), mmap.mmap(-1, len(rom()))
        self._rom[:] = rom()
        self._place()
        self._processor = fcntl.ioctl(self._vm, CREATE_VCPU, 0)
        self._identify()
        self._run = mmap.mmap(self._processor, fcntl.ioctl(self._kvm, GET_VCPU_MMAP_SIZE))

    def _place(self) -> None:
        """Put memory and firmware where a PC has them: below 640 KiB and above 1 MiB; below 1 MiB and below 4 GiB."""
        memory, rom, size = _address(self._memory), _address(self._rom), len(self._rom)
        low, high = 0xA0000, 0x100000
        regions = (
            (0, low, memory),
            (high, MEMORY - high, memory + high),
            (high - size, size, rom),
            ((1 << 32) - size, size, rom),
        )
        for slot, (begins, length, at) in enumerate(regions):
            fcntl.ioctl(self._vm, SET_USER_MEMORY_REGION, struct.pack("IIQQQ", slot, 0, begins, length, at))

    def _identify(self) -> None:
        """Let the processor be what KVM says that it can be; without that it has no long mode."""
        features = bytearray(8 + CPUID_SIZE * CPUID_ENTRIES)
        struct.pack_into("I", features, 0, CPUID_ENTRIES)
        fcntl.ioctl(self._kvm, GET_SUPPORTED_CPUID, features)
        fcntl.ioctl(self._processor, SET_CPUID2, features)

    def run(self) -> Iterator[str]:
        """Yield each letter that the guest says, then how it ended."""
        while True:
            fcntl.ioctl(self._processor, RUN)
            (reason,) = struct.unpack_from("I", self._run, 8)
            if reason != EXIT_IO:
                yield EXITS.get(reason, f"KVM stopped for reason {reason}")
                return
            direction, _, port, _, offset = struct.unpack_from("BBHIQ", self._run, 32)
            if direction == OUT and port == SAYS:
                yield chr(self._run[offset])
            elif direction == OUT and port == ENDS:
                yield DONE
                return


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def main(device: Path) -> None:
    """Run the guest, for so long at most, and print what happened."""
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        for line in TrialMachine(device).run():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except OSError as error:
        sys.stdout.write(f"KVM refused: {error}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
