"""matrix/timeouts.yml: how long anything is waited for."""

from __future__ import annotations

from pydantic import Field

from harness.spec.base import Model, Seconds


class Timeouts(Model):
    """Seconds, by what is waited for; or, for an outage, how long something may be without an answer.

    A key with a default may be left out.
    """

    golden_image: Seconds = Field(description="Import of one disk image into the infra cluster (seconds).")
    golden_stall: Seconds = Field(description="An import or a clone without any progress (seconds).")
    clone: Seconds = Field(description="One machine's disk, from the golden image (seconds).")
    machine_address: Seconds = Field(
        description="From VirtualMachine created to an address on its launcher pod (seconds)."
    )
    machine_phase: Seconds = Field(description="One phase of a machine's start, without a reported error (seconds).")
    unschedulable: Seconds = Field(description="A machine that waits for room (seconds).")
    ssh: Seconds = Field(description="From the address to a login (seconds).")
    cloud_init: Seconds = Field(description="From the login to the end of cloud-init (seconds).")
    ssh_login: Seconds = Field(default=20.0, description="One login, repeated until `ssh` is over (seconds).")
    ssh_connect: Seconds = Field(
        default=5.0, description="A direct connection and sshd's first line, repeated until `ssh` is over (seconds)."
    )
    cloud_init_answer: Seconds = Field(
        default=60.0,
        description="One question whether cloud-init has ended, repeated until `cloud_init` is over (seconds).",
    )
    tunnel_open: Seconds = Field(
        default=20.0, description="A connection to a machine through the API server and KubeVirt (seconds)."
    )
    doctor_pods: Seconds = Field(
        default=90.0,
        description="Until each of the two pods with which `vmatrix doctor` tries the network has run (seconds).",
    )
    product_sources: Seconds = Field(
        default=900.0, description="One fetch of the revision that product.yml names, with its submodules (seconds)."
    )
    product_install: Seconds = Field(
        default=1800.0,
        description="One installation of the packages, collections or roles that product.yml names (seconds).",
    )
    controllers: Seconds = Field(
        default=120.0,
        description="Until what a declared product installs is served and available (seconds).",
    )
    phase_deploy: Seconds = Field(description="One run of the product's phase `deploy` (seconds).")
    phase_later: Seconds = Field(description="One run of a later phase (seconds).")
    restart: Seconds = Field(
        default=600.0,
        description="From a restart of machines until all of them take logins and are Ready nodes again (seconds).",
    )
    settle: Seconds = Field(description="From the end of a phase until nodes and add-ons are ready (seconds).")
    probe_pods: Seconds = Field(description="Until the network checks' pods run (seconds).")
    probe_follow: Seconds = Field(description="Until all nodes have rules for new pods (seconds).")
    probe_remove: Seconds = Field(
        description="Until the pods of network checks or conformance specs are deleted (seconds)."
    )
    metrics: Seconds = Field(description="Until metrics-server has polled every node twice (seconds).")
    volume: Seconds = Field(description="Until two pods in turn have used a volume and it is deleted (seconds).")
    workload_outage: Seconds = Field(
        description="Outage of a workload of two pods while nodes are drained one by one (seconds)."
    )
    api_outage: Seconds = Field(description="Outage of the API at a node's own address during a phase (seconds).")
    conformance: Seconds = Field(description="Ginkgo's time-out (seconds).")
    upstream_specs: Seconds = Field(
        default=7200.0, description="Ginkgo's time-out for a whole set of upstream's specs (seconds)."
    )
    conformance_ready: Seconds = Field(default=60.0, description="Until nodes and system pods are ready (seconds).")
    conformance_grace: Seconds = Field(
        default=20.0, description="A spec's clean-up when ginkgo's time is over (seconds)."
    )
    conformance_overrun: Seconds = Field(default=90.0, description="From ginkgo's time-out to its end (seconds).")
    own_load: Seconds = Field(default=120.0, description="Loading one file of the project's own checks (seconds).")
    own_check: Seconds = Field(
        default=1800.0,
        description="One of the project's own checks; as long again for its fixtures, and for their ends (seconds).",
    )
    machine_program: Seconds = Field(
        default=60.0, description="One program that reads facts of a machine, over SSH (seconds)."
    )
    machine_state: Seconds = Field(
        default=300.0, description="Reading the whole state of a machine, every file of it (seconds)."
    )
    machine_command: Seconds = Field(
        default=20.0, description="One command within a program that reads facts (seconds)."
    )
    machine_request: Seconds = Field(
        default=5.0, description="One HTTP request within a program that reads facts (seconds)."
    )
    machine_dns: Seconds = Field(
        default=2.0, description="One answer of CoreDNS within a program that reads facts (seconds)."
    )
    clock_margin: Seconds = Field(default=10.0, description="Difference of the clocks of two machines (seconds).")
    availability_request: Seconds = Field(
        default=3.0, description="A request during a phase counts as failed without an answer for so long (seconds)."
    )
    probe_proxy: Seconds = Field(
        default=10.0,
        description="An answer through the API server's proxy, on top of what a probe takes to give up (seconds).",
    )
    metrics_age: Seconds = Field(default=120.0, description="Age of a measurement of metrics-server (seconds).")
    performance: Seconds = Field(
        default=240.0, description="One measurement of the suite performance: until its pods have run (seconds)."
    )
    registry_request: Seconds = Field(
        default=10.0, description="One answer of the image mirror, whether it has an image (seconds)."
    )
    collect: Seconds = Field(description="All of a cell's diagnostics (seconds).")
    teardown: Seconds = Field(description="From the first delete until the namespace is gone (seconds).")
    role_binding: Seconds = Field(
        default=20.0, description="Until a job's role is in effect in its cell's namespace (seconds)."
    )
    api_connect: Seconds = Field(default=5.0, description="A connection to the API, TLS included (seconds).")
    api_read: Seconds = Field(default=30.0, description="Silence while an answer of the API is awaited (seconds).")
    api_whole: Seconds = Field(
        default=40.0, description="One whole answer of the API, however often a part of it comes (seconds)."
    )
    api_again: Seconds = Field(
        default=30.0, description="How long requests are repeated while the infra cluster's API has trouble (seconds)."
    )
    admission: Seconds = Field(description="A cell that waits for room in the infra cluster (seconds).")
    reservation: Seconds = Field(
        description="Another run's reservation expires after so long without a sign of life (seconds)."
    )
    instance_up: Seconds = Field(default=240.0, description="Until all programs of an instance are ready (seconds).")
    kind_create: Seconds = Field(default=1200.0, description="`kind create cluster` (seconds).")
    kind_ready: Seconds = Field(default=300.0, description="Until the node of a kind cluster is ready (seconds).")
    kind_kubevirt: Seconds = Field(
        default=900.0, description="Until KubeVirt and CDI are available in a kind cluster (seconds)."
    )
    kind_pull: Seconds = Field(default=600.0, description="One pull of a node image (seconds).")
    kind_load: Seconds = Field(default=900.0, description="One load of a node image from an archive (seconds).")
    artifact_build: Seconds = Field(default=3600.0, description="One program (seconds).")
    artifact_modules: Seconds = Field(default=900.0, description="A Go module and its requirements (seconds).")
    artifact_toolchain: Seconds = Field(default=600.0, description="The Go toolchain, from a package index (seconds).")
    artifact_push: Seconds = Field(default=300.0, description="One image into the registry of this host (seconds).")
    artifact_packages: Seconds = Field(
        default=900.0, description="Debian packages of one image, from a mirror of Debian (seconds)."
    )
    image_install: Seconds = Field(
        default=1800.0,
        description="Debian's installation into a disk image, from a mirror of Debian (seconds).",
    )
    job_prepare: Seconds = Field(
        description="A GitLab job's environment, packages and artifacts, before its cell starts to wait (seconds)."
    )
    job_start: Seconds = Field(
        description="A GitLab job outside its scripts: pod, clone, upload of artifacts (seconds)."
    )
    job_end: Seconds = Field(description="Removing the embedded infrastructure at the end of a GitLab job (seconds).")

    def scaled(self, factor: float) -> Timeouts:
        """Return the same timeouts, stretched."""
        return Timeouts(**{name: seconds * factor for name, seconds in self})
