"""What was seen of one phase of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import HarnessBug, InfraError, VmatrixError
from harness.validate.facts.availability import Availability
from harness.validate.inspection import MachineState
from harness.validate.phases.observation import Observation
from harness.validate.phases.writes import Writer


@dataclass(frozen=True)
class LocalApi:
    """Where a node reaches the API on itself; `why` it does not, where there is no URL.  ca: the file of its CA."""

    url: str = ""
    ca: str = ""
    why: str = ""


@dataclass
class PhaseRecord:
    """What was seen of one phase; `trouble` is why something was not.

    before: the guest when the phase began.  availability: of the addresses requested during it, by name.
    client: the machine that sent the requests.  seconds: how long the phase took.
    single: whether the workload had only one node.  api: where the client reaches the API on itself.
    states: each machine's state before a restart, by name.  writer: writes all through a phase that cuts the power.
    """

    before: Observation | None = None
    states: Mapping[str, MachineState] = field(default_factory=dict)
    writer: Writer | None = None
    availability: Mapping[str, Availability] = field(default_factory=dict)
    client: str = ""
    seconds: float = 0.0
    single: bool = False
    trouble: VmatrixError | None = None
    api: LocalApi = field(default_factory=LocalApi)

    def of(self, name: str) -> Availability:
        """Return the availability of one address.

        Raises:
            VmatrixError: what went wrong; or no request was sent, which is the harness's fault.
        """
        if isinstance(self.trouble, InfraError):  # no requests to the end
            raise self.trouble
        self.need(self.availability)
        if name not in self.availability:
            raise HarnessBug(
                f"{name} got no request during the phase", hint="the scenario says that it keeps answering"
            )
        return self.availability[name]

    def guest_before(self) -> Observation:
        """Return the guest when the phase began.

        Raises:
            VmatrixError: what went wrong; or nobody looked, which is the harness's fault.
        """
        self.need(self.before)
        if self.before is None:
            raise HarnessBug(
                "the guest was not looked at before the phase", hint="the first phase has no guest before it"
            )
        return self.before

    def need(self, what: object) -> None:
        """Raise what went wrong (a VmatrixError) when that is why something is missing."""
        if self.trouble is not None and not what:
            raise self.trouble
