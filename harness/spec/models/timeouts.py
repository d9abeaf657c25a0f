"""matrix/timeouts.yml: how long anything is waited for."""

from __future__ import annotations

from harness.spec.base import Model, Seconds


class Timeouts(Model):
    """Seconds, by what is waited for; or, for an outage, how long something may be without an answer."""

    golden_image: Seconds
    golden_stall: Seconds
    clone: Seconds
    machine_address: Seconds
    machine_phase: Seconds
    unschedulable: Seconds
    ssh: Seconds
    cloud_init: Seconds
    phase_deploy: Seconds
    phase_later: Seconds
    settle: Seconds
    probe_pods: Seconds
    probe_follow: Seconds
    probe_remove: Seconds
    metrics: Seconds
    volume: Seconds
    workload_outage: Seconds
    api_outage: Seconds
    conformance: Seconds
    collect: Seconds
    teardown: Seconds
    admission: Seconds
    reservation: Seconds
    job_prepare: Seconds
    job_start: Seconds
    job_end: Seconds

    def scaled(self, factor: float) -> Timeouts:
        """Return the same timeouts, stretched."""
        return Timeouts(**{name: seconds * factor for name, seconds in self})
