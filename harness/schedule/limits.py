"""What a run may hold at once, as its user caps it: to leave room for others, or to make an infra small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        caps: tuple[tuple[str, float | None, Callable[[Demand], float]], ...] = (
            ("MiB of memory", self.memory_mib, lambda demand: demand.memory_mib),
            ("CPUs", self.cpus, lambda demand: demand.cpus),
            ("machines", self.machines, lambda demand: demand.machines),
            ("cells", self.cells, lambda demand: 1),
        )
        for unit, most, amount in caps:
            if most is not None and (together := round(sum(map(amount, every)), 3)) > most:
                return f"the run would hold {together:g} {unit}, its limit is {most:g}"
        return ""
