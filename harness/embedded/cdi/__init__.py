"""CDI's part of the embedded infrastructure: volumes, imports over HTTP, blank disks and clones.

Claims get volumes from the provisioner; DataVolumes get claims; claims that ask for data get pods, bound by the real
scheduler; the pods' work is done by threads of this process. A source that is not done here (upload, registry, ...)
leaves its DataVolume Pending, with an event that says so.
"""

from __future__ import annotations

from harness.embedded.cdi.datavolumes import DataSources, DataVolumes
from harness.embedded.cdi.importer import Importer
from harness.embedded.cdi.population import Population
from harness.embedded.cdi.provisioner import Provisioner, StorageProfiles, sweep
from harness.embedded.cdi.size_detection import SizeDetection
from harness.embedded.cdi.transfers import Transfers
from harness.embedded.context import Context


def start(context: Context) -> None:
    """Sweep what a killed process left, and hand this part's controllers to the context, which runs them.

    Raises:
        Unreachable: the API does not answer.
    """
    sweep(context.cluster, context.state, context.disks)
    transfers = Transfers()
    provisioner = Provisioner(context)
    sizes = SizeDetection(context)
    for controller in (
        provisioner.claims,
        provisioner.volumes,
        Population(context).controller,
        StorageProfiles(context).controller,
        Importer(context, transfers).controller,
        sizes.controller,
        DataVolumes(context, transfers, sizes).controller,
        DataSources(context).controller,
    ):
        context.run(controller)
