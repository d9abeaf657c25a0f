"""The embedded KubeVirt: one process that plays KubeVirt and CDI for a real control plane, with machines on this host.

`python -m harness.embedded` starts it (`__main__`: command line, `process`: what starts in which order, and how it
ends). All packages share `context`; `install` creates the definitions (`crds`), and the roles and operands (`operands`)
that the real operators would keep.
| package | what it plays |
|---|---|
| `admission` | the webhooks of virt-api and cdi-apiserver: defaults, and refusals in their words |
| `vm` | virt-controller's part for VirtualMachines: run strategies, status |
| `vmi` | virt-controller's and virt-handler's part for instances: launcher pods, phases, the machine behind each |
| `cdi` | CDI: DataVolumes, claims, imports over HTTP, clones; and the provisioner of the storage class |
| `subresources` | the aggregated API: start, stop, restart, pause, port-forward, console |
| `node` | the host as a Node: kubelet, registration, addresses of pods, logs, garbage collection |
| `machines` | real machines from raw disks: systemd-nspawn, networks, control groups |
| `namespaces` | the end of namespaces, in the place of the controller manager |
| `faults` | what a real KubeVirt or CDI shows when it, its node or its storage fails, on request |
"""

from __future__ import annotations

STRETCH = "EMBEDDED_STRETCH"  # environment variable: factor for what it waits for at its start and at a machine's
