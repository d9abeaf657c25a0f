"""Files, listeners and the next start of every machine are as safe as what runs."""

from __future__ import annotations

from harness.validate.commands import on_machine
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics import files, operating_system


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
        operating_system.wrong_boot(inspection.files, inspection.expected),
        claim="the next start of a node starts services, sets its name and what Kubernetes needs, and no swap",
        look="/etc/sysctl.d, /etc/modules-load.d, /etc/fstab, /etc/hostname on the machine; systemctl get-default",
        do=on_machine(inspection.expected, "systemd-analyze cat-config sysctl.d"),
    )
