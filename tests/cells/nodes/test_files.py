"""Files, listeners and the next start of every machine are as safe as what runs."""

from __future__ import annotations

from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.commands import on_machine
from harness.validate.findings import Mismatch, eventually, real, require
from harness.validate.inspection import Inspection
from harness.validate.topics import boot, certificates, files, node_state, operating_system


def test_only_root_reads_keys_and_workers_have_none_of_the_control_plane(inspection: Inspection) -> None:
    require(
        files.open_files(inspection.files, inspection.expected),
        claim="keys and kubeconfigs are for root alone, nobody else changes files, and workers have no key of a CA",
        look="what wrote or copied the file: kubeadm's phases certs and kubeconfig, the deployment's tasks",
        do=on_machine(inspection.expected, "ls -lR /etc/kubernetes /var/lib/kubelet/pki"),
    )


def test_agents_were_restarted_after_their_files_changed(inspection: Inspection) -> None:
    require(
        files.outdated_processes(inspection.files, inspection.expected),
        claim="kubelet and the container runtime started after their files had changed, and run the installed program",
        look="the handlers in logs/deploy.log",
        do=on_machine(inspection.expected, "systemctl status kubelet; ls -l --time-style=full-iso FILE"),
    )


def test_machines_have_the_operating_system_of_the_cell(inspection: Inspection) -> None:
    require(
        files.wrong_systems(inspection.files, inspection.expected),
        claim="every machine runs the operating system of its disk image",
        look="image and os in matrix/images.yml; which golden image the machine's disk was cloned from",
        do=on_machine(inspection.expected, "cat /etc/os-release"),
    )


def test_only_the_ports_of_the_role_are_open(inspection: Inspection) -> None:
    require(
        operating_system.open_ports(inspection.files, inspection.expected),
        claim="other machines reach programs of the cluster only at the ports of the machine's role",
        look="the program's flags or configuration: bind-address, healthzBindAddress, listen-metrics-urls, bind",
        do=on_machine(inspection.expected, "ss -lntp"),
    )


def test_programs_can_write_where_they_must(inspection: Inspection) -> None:
    require(
        files.closed_folders(inspection.files, inspection.expected),
        claim="the folders that programs of the cluster write to can be written to, and have room",
        look="the mounts and the kernel's log of the machine",
        do=on_machine(inspection.expected, "findmnt --target FILE; df -h; df -i"),
    )


def test_nodes_boot_as_they_run(inspection: Inspection) -> None:
    require(
        boot.wrong_boot(inspection.boots, inspection.expected),
        claim="the next start of a node starts services, sets its name and what Kubernetes needs, and no swap",
        look="/etc/sysctl.d, /etc/modules-load.d, /etc/fstab, /etc/hostname on the machine; systemctl get-default",
        do=on_machine(inspection.expected, "systemd-analyze cat-config sysctl.d"),
    )


def test_the_next_boot_brings_nothing_that_is_not_there(inspection: Inspection) -> None:
    require(
        boot.strange_boot(inspection.boots, inspection.expected),
        claim="the next start of a machine brings what runs now, and forbids nothing that the cluster needs",
        look="systemctl list-unit-files; /etc/nftables.conf, /etc/fstab, /etc/modprobe.d, /etc/tmpfiles.d, cron, grub",
        do=on_machine(inspection.expected, "ls -ltr --time-style=full-iso /etc/systemd/system /etc"),
    )


def test_secrets_are_only_where_they_are_needed(inspection: Inspection) -> None:
    require(
        certificates.strayed_secrets(inspection.keys, inspection.facts, inspection.expected),
        claim="no user of a machine reads keys, kubeconfigs or etcd's data, and there are no copies of the cluster's",
        look="who made the copy: backups, editors, people",
        do=on_machine(inspection.expected, "ls -l FILE"),
    )


def test_programs_can_start_once_more(inspection: Inspection) -> None:
    require(
        node_state.broken_state(inspection.states, inspection.setups, inspection.kubelets, inspection.expected),
        claim="what kubelet, the container runtime and etcd read when they start is whole and agrees with what runs",
        look="who changed the file while the program ran",
        do=on_machine(inspection.expected, "ls -l FILE; systemctl cat UNIT"),
    )


def test_pods_that_are_gone_have_left_nothing(inspection: Inspection, timeouts: Timeouts) -> None:
    def judge() -> list[Mismatch]:
        for gathered in ("states", "setups"):
            inspection.__dict__.pop(gathered, None)
        states = inspection.states
        return node_state.leaks(states, inspection.setups, node_state.pods_on(inspection.api), inspection.expected)

    pods = node_state.pods_on(inspection.api)
    first = node_state.leaks(inspection.states, inspection.setups, pods, inspection.expected)
    deadline = Deadline.after(timeouts.probe_follow)
    require(
        eventually(judge, deadline=deadline, what="kubelet to tidy up") if real(first) else first,
        claim="nodes have nothing of pods that are gone: addresses, namespaces, mounts, control groups, shims",
        look="journalctl -u kubelet; the logs of the container runtime",
        do=on_machine(inspection.expected, "ls /var/lib/cni/networks/* /run/netns; ctr -n k8s.io containers ls"),
    )
