"""What a run may hold at once, as its user caps it: to leave room for others, or to make an infra small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.schedule.demand import Demand


@dataclass(frozen=True)
class Limits:
    """Caps on all cells that a run holds at the same time; None caps nothing. Memory is in MiB, as pods request it."""

    memory_mib: int | None = None
    cpus: float | None = None
    machines: int | None = None
    cells: int | None = None

    def refusal(self, held: Sequence[Demand], wanted: Demand) -> str:
        """Return which cap a further cell would break, "" when none."""
        every = (*held, wanted)
        sums = (
            ("MiB of memory", self.memory_mib, sum(d.memory_mib for d in every)),
            ("CPUs", self.cpus, round(sum(d.cpus for d in every), 3)),
            ("machines", self.machines, sum(d.machines for d in every)),
            ("cells", self.cells, len(every)),
        )
        for unit, most, together in sums:
            if most is not None and together > most:
                return f"the run would hold {together:g} {unit}, its limit is {most:g}"
        return ""
