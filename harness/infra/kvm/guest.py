"""The guest that a working KVM must run to its end: the code of guest.S, and the ROM that it is the content of.

A test assembles guest.S and compares. To renew CODE: as --64 -o g.o guest.S; ld -Ttext 0 --oformat binary -o g.bin g.o;
base64 -w 112 g.bin.
"""

from __future__ import annotations

import base64
import hashlib

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
