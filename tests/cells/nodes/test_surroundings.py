"""What surrounds the programs of every machine is as the cell asks: names, the runtime, images, units."""

from __future__ import annotations

from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.validate.commands import on_machine
from harness.validate.conformance.registry import digests
from harness.validate.findings import require, together
from harness.validate.inspection import Inspection
from harness.validate.topics import api_server, operating_system, pod_network, programs, runtime


def test_machines_know_each_others_names(inspection: Inspection) -> None:
    require(
        operating_system.wrong_names(inspection.running, inspection.setups, inspection.expected),
        claim="every machine knows all machines by their names and addresses, and asks the same name servers",
        look="what wrote /etc/hosts and /etc/resolv.conf",
        do=on_machine(inspection.expected, "cat /etc/hosts /etc/resolv.conf"),
    )


def test_the_proxy_before_the_api_leads_to_every_control_plane(inspection: Inspection) -> None:
    require(
        together(
            api_server.wrong_backends(inspection.running, inspection.expected),
            api_server.silent_api(inspection.setups, inspection.expected),
        ),
        claim="the API answers at the address of each kubelet; the proxy there leads to exactly the control planes",
        look="the proxy's file; was it written after the last control plane had joined or left?",
        do=on_machine(inspection.expected, f"cat {inspection.expected.leaves.local_api.backends or 'FILE'}"),
    )


def test_services_have_no_settings_that_nobody_asked_for(inspection: Inspection) -> None:
    require(
        programs.amended_units(inspection.setups, inspection.expected),
        claim="no file amends the cluster's units beside the product's, and nothing limits kubelet and the runtime",
        look="what wrote the file; one under /run, or a limit set by hand, is gone after the next start of the machine",
        do=on_machine(inspection.expected, f"systemctl cat kubelet {inspection.expected.runtime_process}"),
    )


def test_the_container_runtime_is_configured_as_the_cell_asks(inspection: Inspection) -> None:
    require(
        runtime.wrong_runtime_settings(inspection.running, inspection.setups, inspection.expected),
        claim="the running container runtime has the product's settings and the cell's sandbox image",
        look="/etc/containerd/config.toml, or /etc/crio/crio.conf.d; the files for registries on the machine",
        do=on_machine(inspection.expected, "containerd config dump || crio status config"),
    )


def test_the_files_of_pod_networks_are_those_of_the_plugin(inspection: Inspection) -> None:
    require(
        pod_network.wrong_network_files(inspection.setups, inspection.facts, inspection.view, inspection.expected),
        claim="every node has one file of a pod network, the same one, with its own subnet and the tunnel's MTU",
        look="what wrote /etc/cni/net.d",
        do=on_machine(inspection.expected, "cat /etc/cni/net.d/*; ip link show cni0"),
    )


def test_images_on_machines_are_those_of_the_mirror(inspection: Inspection, mirror: Mirror, timeouts: Timeouts) -> None:
    named = runtime.from_mirror(inspection.setups, inspection.expected)
    there = digests(mirror.registry, named, timeouts.registry_request)
    require(
        runtime.other_images(inspection.setups, there, inspection.expected),
        claim="every image on a node that is named after the mirror has the content that the mirror has",
        look="what pulled, imported or tagged the image",
        do=on_machine(inspection.expected, "ctr -n k8s.io images ls"),
    )


def test_the_whole_configuration_of_the_runtime_is_known(inspection: Inspection) -> None:
    require(
        runtime.other_configuration(inspection.running, inspection.expected),
        claim="the container runtime has its version's defaults, but for what the product and the cell set",
        look="/etc/containerd/config.toml, or /etc/crio/crio.conf.d; files that these import",
        do=on_machine(inspection.expected, "containerd config dump || crio status config"),
    )
