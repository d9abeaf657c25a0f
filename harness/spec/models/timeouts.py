"""matrix/timeouts.yml: how long anything is waited for."""

from __future__ import annotations

from harness.spec.base import Model, Seconds


class Timeouts(Model):
    """Seconds, by what is waited for; or, for an outage, how long something may be without an answer.

    A key with a default may be left out.
    """

    golden_image: Seconds
    golden_stall: Seconds
    clone: Seconds
    machine_address: Seconds
    machine_phase: Seconds
    unschedulable: Seconds
    ssh: Seconds
    cloud_init: Seconds
    ssh_login: Seconds = 20.0
    ssh_connect: Seconds = 5.0
    cloud_init_answer: Seconds = 60.0
    tunnel_open: Seconds = 20.0
    doctor_pods: Seconds = 90.0
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
    conformance_ready: Seconds = 60.0
    conformance_grace: Seconds = 20.0
    conformance_overrun: Seconds = 90.0
    machine_program: Seconds = 60.0
    machine_state: Seconds = 300.0
    machine_command: Seconds = 20.0
    machine_request: Seconds = 5.0
    machine_dns: Seconds = 2.0
    clock_margin: Seconds = 10.0
    availability_request: Seconds = 3.0
    probe_proxy: Seconds = 10.0
    metrics_age: Seconds = 120.0
    registry_request: Seconds = 10.0
    collect: Seconds
    teardown: Seconds
    role_binding: Seconds = 20.0
    api_connect: Seconds = 5.0
    api_read: Seconds = 30.0
    api_again: Seconds = 30.0
    admission: Seconds
    reservation: Seconds
    instance_up: Seconds = 240.0
    kind_create: Seconds = 1200.0
    kind_ready: Seconds = 300.0
    kind_kubevirt: Seconds = 900.0
    kind_pull: Seconds = 600.0
    kind_load: Seconds = 900.0
    artifact_build: Seconds = 3600.0
    artifact_modules: Seconds = 900.0
    artifact_toolchain: Seconds = 600.0
    artifact_push: Seconds = 300.0
    artifact_packages: Seconds = 900.0
    image_install: Seconds = 1800.0
    job_prepare: Seconds
    job_start: Seconds
    job_end: Seconds

    def scaled(self, factor: float) -> Timeouts:
        """Return the same timeouts, stretched."""
        return Timeouts(**{name: seconds * factor for name, seconds in self})
