"""A manager as its own process whose logins to machines are played: `python -m tests.bench.many_manager OPTIONS`."""

from __future__ import annotations

from harness.cli import main
from harness.operator.context import OperatorContext
from harness.operator.controllers import machine
from harness.operator.controllers.machine import Probe
from tests.embedded.operator.logins import PlayedLogins


def played(_: OperatorContext) -> Probe:
    """Return logins that find a bare machine at once."""
    return PlayedLogins()


if __name__ == "__main__":
    setattr(machine, "ssh_probe", played)  # noqa: B010 - the name is another module's
    main()
