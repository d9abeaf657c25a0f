"""The embedded KubeVirt: one process that plays KubeVirt and CDI for a real control plane, with machines on this host.

`python -m harness.embedded` starts it (`__main__`: command line, `process`: what starts in which order, and how it
ends). What all rooms share: `context`, `events`, `objects`; `install` makes the definitions (`crds`), roles (`roles`)
and operands (`operands`) that the real operators would keep; `ensure`, `access` and `https` are its tools.

| room | what it plays |
|---|---|
| `admission` | the webhooks of virt-api and cdi-apiserver: defaults, and refusals in their words |
| `vm` | virt-controller's part for VirtualMachines: run strategies, status |
| `vmi` | virt-controller's and virt-handler's part for instances: launcher pods, phases, the machine behind each |
| `cdi` | CDI: DataVolumes, claims, imports over HTTP, clones; and the provisioner of the storage class |
| `subresources` | the aggregated API: start, stop, restart, pause, port-forward, console |
| `node` | the host as a Node: kubelet, heartbeat, addresses of pods, logs |
| `machines` | real machines from raw disks: systemd-nspawn, networks, control groups |
| `faults` | what a real KubeVirt or CDI shows when it, its node or its storage fails, on request |
"""
