"""The machines of a hardened cluster: their listeners, their files, their kubelets and etcd."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.spec.models import Waiver
from harness.validate.commands import kubectl, on_machine
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.probes import Probes
from harness.validate.topics import kubelet
from harness.validate.topics.hardening import admission, benchmark, machines
from harness.validate.topics.hardening.benchmark import unwaived
from harness.validate.topics.hardening.facts import profiles_of_kubelets, statuses_of_pods
from harness.validate.variables import AUDIT, PRIVATE, PROFILING, SECCOMP, SIGNED, TLS, asks


@pytest.mark.when(phase=asks(TLS))
def test_every_listener_refuses_what_is_old_or_weak(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(machines.weak_listeners(inspection.hardening.seen, inspection.expected), waivers),
        claim="API servers, controller managers, schedulers, kubelets and etcd accept strong TLS, and nothing else",
        look="--tls-min-version and --tls-cipher-suites of the program; tlsCipherSuites of the kubelet",
        do=on_machine(inspection.expected, "openssl s_client -connect ADDRESS:6443 -tls1_1 </dev/null"),
    )


@pytest.mark.when(phase=asks(PROFILING))
def test_nobody_gets_profiles(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    expected = inspection.expected
    asked = profiles_of_kubelets(inspection.api, expected)
    require(
        unwaived(machines.shown_profiles(inspection.hardening.seen, asked, expected), waivers),
        claim="no program of the control plane and no kubelet shows a profile, not even to an admin",
        look="--profiling of the program; enableProfiling in a scheduler's file; enableProfilingHandler of the kubelet",
        do="kubectl --kubeconfig kubeconfig get --raw /debug/pprof/",
    )


@pytest.mark.when(phase=asks(SIGNED))
def test_kubelets_serve_with_certificates_of_the_cluster(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(machines.unsigned_kubelets(inspection.hardening.seen, inspection.expected), waivers),
        claim="every kubelet serves with a certificate that the cluster signed for its address",
        look="serverTLSBootstrap of the kubelet; kubectl get certificatesigningrequests",
        do=on_machine(inspection.expected, "ls -l /var/lib/kubelet/pki"),
    )


@pytest.mark.when(phase=asks(SIGNED))
def test_kubelets_answer_no_strangers(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(machines.kubelets_for_strangers(inspection.hardening.seen, inspection.expected), waivers),
        claim="no kubelet answers without credentials, and none has a read-only port",
        look="authentication, authorization and readOnlyPort in /var/lib/kubelet/config.yaml",
        do=on_machine(inspection.expected, "curl -ik https://ADDRESS:10250/pods"),
    )


@pytest.mark.when(phase=asks(TLS))
def test_etcd_answers_no_strangers(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(machines.etcd_for_strangers(inspection.hardening.seen, inspection.expected), waivers),
        claim="etcd refuses clients and members without a certificate",
        look="--client-cert-auth and --peer-client-cert-auth of etcd",
        do=on_machine(inspection.expected, "curl -ik https://ADDRESS:2379/health"),
    )


@pytest.mark.when(phase=asks(PRIVATE))
def test_files_are_left_to_root_alone(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(machines.open_to_others(inspection.hardening.seen, inspection.expected), waivers),
        claim="files of the cluster are root's, with no more permissions than the benchmark allows",
        look="ls -l on the machine; private-files.yml takes the rights of others away",
        do=on_machine(inspection.expected, "stat FILE"),
    )


@pytest.mark.when(phase=asks(AUDIT))
def test_programs_have_the_flags_of_the_benchmark(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    require(
        unwaived(benchmark.loose_flags(inspection.facts, inspection.expected), waivers),
        claim="programs run with the flags that the CIS Kubernetes Benchmark asks for",
        look="/etc/kubernetes/manifests on the control plane",
        do=on_machine(inspection.expected, "tr '\\0' '\\n' < /proc/$(pidof PROGRAM)/cmdline"),
    )


@pytest.mark.when(phase=asks(SECCOMP))
def test_kubelets_have_the_settings_of_the_benchmark(inspection: Inspection, waivers: Sequence[Waiver]) -> None:
    settings, silent = kubelet.asked_kubelets(inspection.api, inspection.expected)
    require(
        unwaived(benchmark.loose_kubelets(settings, silent, inspection.expected), waivers),
        claim="running kubelets have the settings that the CIS Kubernetes Benchmark asks for",
        look="/var/lib/kubelet/config.yaml on the machine",
        do=kubectl(inspection.expected, "get --raw /api/v1/nodes/NODE/proxy/configz"),
    )


@pytest.mark.when(phase=asks(SECCOMP))
def test_pods_get_the_runtimes_seccomp_profile(
    probes: Probes, inspection: Inspection, waivers: Sequence[Waiver]
) -> None:
    require(
        unwaived(admission.unconfined(statuses_of_pods(probes), inspection.hardening.seen), waivers),
        claim="a pod that names no seccomp profile runs with the runtime's, on every node",
        look="seccompDefault in /var/lib/kubelet/config.yaml",
        do=kubectl(
            inspection.expected, "-n vmatrix-probe exec daemonset/probe -- grep Seccomp_filters /proc/self/status"
        ),
    )
