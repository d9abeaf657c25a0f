"""VirtualMachines: the part of KubeVirt's virt-controller that makes and unmakes their instances."""
