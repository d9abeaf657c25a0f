"""KubeVirt's aggregated API: what is done to machines that run, and the ways into them.

Served are `start`, `stop`, `restart` and `portforward` of VirtualMachines, and `console`, `portforward`, `pause`,
`unpause`, `softreboot`, `reset` and `guestosinfo` of VirtualMachineInstances, in the versions v1 and v1alpha3. Not
served: screens, volumes, migrations and snapshots.
"""

from harness.embedded.subresources.server import serve

__all__ = ["serve"]
