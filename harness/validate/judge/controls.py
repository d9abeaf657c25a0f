"""What checks of hardening find, by the controls of the CIS Kubernetes Benchmark; a project may waive some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.spec.controls import Waiver, controls
from harness.validate.findings import Mismatch, unjudged


@dataclass(frozen=True)
class ControlMismatch(Mismatch):
    """Something that is not as controls want it. numbers: theirs."""

    numbers: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line."""
        return f"CIS {', '.join(self.numbers)}: {super().__str__()}"


def against(numbers: str, found: Iterable[Mismatch]) -> Iterator[Mismatch]:
    """Say which controls mismatches are against, by their numbers with blanks between."""
    for one in found:
        yield ControlMismatch(one.where, one.expected, one.seen, one.lasting, tuple(numbers.split()))


def unwaived(found: Iterable[Mismatch], waivers: Sequence[Waiver]) -> list[Mismatch]:
    """Return what is found; what is only against waived controls is not judged, for the waiver's reason."""
    reasons = {waiver.control: waiver.reason for waiver in waivers}
    kept: list[Mismatch] = []
    for one in found:
        numbers = one.numbers if isinstance(one, ControlMismatch) else ()
        waived = [number for number in numbers if number in reasons]
        if numbers and len(waived) == len(numbers):
            kept += [unjudged(f"CIS {n} ({controls()[n].title})", f"waived: {reasons[n]}") for n in waived]
        else:
            kept.append(one)
    return kept
