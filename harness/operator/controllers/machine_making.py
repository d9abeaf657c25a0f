"""Makes a Machine: at each look what is still missing of its objects; and says how far it is, or what is in the way."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.errors import InfraRetriable
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import controller_of, dig
from harness.kube.resources import DATA_VOLUME, SECRET, VM, Resource
from harness.machines.keys import public_line
from harness.machines.kubevirt.disks import FOR_A_CONSUMER
from harness.machines.kubevirt.stages import Halt, Stage, of_disk, of_image, of_start, said
from harness.machines.kubevirt.starting import Start
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.made import KubevirtMachine
from harness.operator.controllers.machine_objects import DOMAIN, image_object, image_of, image_owner, machine_objects
from harness.operator.controllers.made_machines import key_name, key_object
from harness.operator.controllers.probe import ProbeTrouble
from harness.operator.controllers.probe_key import key_of_secret


class MachineMaking:
    """Makes Machines in one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def look(self, found: Json, deployment: Json | None, vm: Json | None, vmi: Json | None) -> Halt | None:
        """Make what is missing of a Machine; return how far it is, None once its instance may run.

        Args:
            found: the Machine.  deployment: that it is made for.  vm, vmi: what is known to be there of it.
        """
        model = DeclaredMachine.model_validate(found)
        made = model.spec.kubevirt
        if made is None:
            return None
        try:
            return self._made(found, model, made, deployment) if vm is None else self._coming(model, made, vm, vmi)
        except ApiFailure as refused:
            if refused.passing or refused.conflict:
                raise
            return Halt(Stage.QUOTA_EXCEEDED if refused.by_quota else Stage.REFUSED, said(refused))

    def _made(self, found: Json, model: DeclaredMachine, made: KubevirtMachine, deployment: Json | None) -> Halt | None:
        """Make the objects that are missing, each when it can be."""
        namespace, name = model.metadata.namespace, model.metadata.name
        reference = model.spec.key_ref
        key = key_of_secret(self._key(reference.name, namespace, deployment), reference)
        if isinstance(key, ProbeTrouble):
            return Halt(Stage.KEY_MISSING, key.message)
        domain = str(dig(deployment, "spec", "network", "dnsDomain") or DOMAIN)
        disk, secret, vm = machine_objects(found, model, made, public_line(key, reference.name), domain)
        if self._cluster.get(DATA_VOLUME, name, namespace) is None and (halt := self._image(found, model, made)):
            return halt
        for kind, body in ((DATA_VOLUME, disk), (SECRET, secret), (VM, vm)):
            if halt := self._create(kind, body, model.metadata.uid):
                return halt
        return Halt(Stage.MAKING_DISK, f"disk {name}: new")

    def _key(self, name: str, namespace: str, deployment: Json | None) -> Json | None:
        """Return the Secret of a machine's key, which is made once for all machines that are made for a cluster.

        Raises:
            InfraRetriable: it is left of an earlier cluster of the name, and not deleted yet.
        """
        own = deployment is not None and name == key_name(deployment["metadata"]["name"])
        if deployment is None or not own:
            return self._cluster.get(SECRET, name, namespace)
        found = self._cluster.get(SECRET, name, namespace) or self._cluster.ensure(SECRET, key_object(deployment))
        if (owner := controller_of(found)) is not None and owner["uid"] != deployment["metadata"]["uid"]:
            raise InfraRetriable(f"Secret {name} is left of an earlier cluster of the name", hint="it is deleted soon")
        return found

    def _image(self, found: Json, model: DeclaredMachine, made: KubevirtMachine) -> Halt | None:
        """Have the image that the disk is cloned from; return how far it is, None when it is there."""
        image, namespace = image_of(made, model.spec.user), model.metadata.namespace
        there = self._cluster.get(DATA_VOLUME, image.name, namespace)
        volume = there or self._cluster.ensure(DATA_VOLUME, image_object(found, made, image))
        owners, own = volume["metadata"].get("ownerReferences") or [], image_owner(found)
        if all(one["uid"] != own["uid"] for one in owners):
            meta = {"ownerReferences": [*owners, own], "resourceVersion": volume["metadata"]["resourceVersion"]}
            volume = self._cluster.merge(DATA_VOLUME, image.name, {"metadata": meta}, namespace)
        halt = of_image(self._cluster, volume, datetime.now(UTC))
        if halt is not None and halt.reason is Stage.IMAGE_IMPORT_FAILED:
            again = f"then: kubectl delete -n {namespace} datavolume {image.name}"
            return Halt(halt.reason, f"{halt.message}; {again}")
        return halt

    def _create(self, kind: Resource, body: Json, owner: str) -> Halt | None:
        """Create an object; return what is wrong with one of its name that is there and not this Machine's."""
        if self._cluster.create_if_absent(kind, body):
            return None
        meta = body["metadata"]
        there = self._cluster.get(kind, meta["name"], meta["namespace"])
        if there is None or (controller_of(there) or {}).get("uid") == owner:
            return None
        what = f"{kind.kind} {meta['name']} is there, and not of this Machine"
        return Halt(Stage.NAME_TAKEN, f"{what}; delete it, or delete the Machine: its set makes one of another name")

    def _coming(self, model: DeclaredMachine, made: KubevirtMachine, vm: Json, vmi: Json | None) -> Halt | None:
        """Return how far a Machine is that has all of its objects, None once its instance runs."""
        if dig(vmi, "status", "phase") == "Running":
            return None
        namespace, name = model.metadata.namespace, model.metadata.name
        if (controller_of(vm) or {}).get("uid") != model.metadata.uid:
            return Halt(
                Stage.NAME_TAKEN, f"VirtualMachine {name} is there, and not of this Machine; delete one of both"
            )
        volume = self._cluster.get(DATA_VOLUME, name, namespace)
        if volume is not None and dig(volume, "status", "phase") not in FOR_A_CONSUMER:
            halt = of_disk(self._cluster, volume, datetime.now(UTC))
            if halt is not None:
                return halt
        return of_start(Start(self._cluster, namespace, name, made.memory_mib, vm.get("status") or {}, vmi))
