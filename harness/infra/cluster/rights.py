"""The rights that vmatrix needs of an infra cluster: the one list, as data.

`vmatrix doctor` asks the API for each of them, deploy/ has them as roles, and a test reads in a real API server's audit
log that every one is used and none is missing. Who asks for more first writes it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from harness.kube import Resource
from harness.kube import resources as on
from harness.kube.failures import Json
from harness.kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, PORT_FORWARD, RBAC, ROLE, ROLE_BINDING
from harness.model import LABEL_DOMAIN

CELL_ROLE = "vmatrix-cell"
# Kinds that exist in rules only: what a caller may act for, and that the policies of deploy/ are about it.
PROJECT = Resource(LABEL_DOMAIN, "v1", "projects", "Project", namespaced=False)
JOB = Resource(LABEL_DOMAIN, "v1", "jobs", "Job", namespaced=False)
REAPER = Resource(LABEL_DOMAIN, "v1", "reapers", "Reaper", namespaced=False)


@dataclass(frozen=True)
class Right:
    """Verbs on a kind, or on one of its subresources, and what they are for.

    names: of the only objects that they are needed on; all without any.
    within: the namespaces in which it is needed, of a right that is not about the cells' own.
    required: whether nothing works without it.
    inside: asked while a request is admitted, by the API server, CDI or a policy; no request of ours names it.
    """

    resource: Resource
    verbs: tuple[str, ...]
    why: str
    subresource: str = ""
    names: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    required: bool = True
    inside: bool = False

    @property
    def plural(self) -> str:
        """Return the resource as kubectl's --resource takes it."""
        name = f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural
        return f"{name}/{self.subresource}" if self.subresource else name


# Everywhere, for jobs whose cells get a namespace each.
NAMESPACES = (Right(on.NAMESPACE, ("create", "delete", "get", "list"), "each cell has its own namespace"),)
JOBS = (
    *NAMESPACES,
    Right(on.ROLE_BINDING, ("create",), "a job gives itself rights in the namespaces that it creates"),
    Right(on.CLUSTER_ROLE, ("bind",), "it may give itself only that role", names=(CELL_ROLE,), inside=True),
    Right(JOB, ("run",), "the policy for jobs applies to whoever may do this", inside=True),
)
# Everywhere, to tell whether there is room; without it the infra cluster's scheduler finds out.
SURVEY = (
    Right(on.NODE, ("list",), "free capacity is the sum over nodes", required=False),
    Right(on.POD, ("list",), "requests of pods reduce it", required=False),
    Right(on.KUBEVIRT, ("list",), "KubeVirt's settings say how much machines request", required=False),
)
_DISKS = Right(on.DATA_VOLUME, ("create", "delete", "get", "list"), "disks are imported and cloned")
_MACHINES = (
    Right(on.SECRET, ("create",), "cloud-init user data is a secret that only KubeVirt reads"),
    _DISKS,
    Right(on.VM, ("create", "delete", "get", "list"), "machines are virtual machines"),
    Right(on.VMI, ("get", "list"), "machine states are read from instances"),
    Right(on.POD, ("list",), "machine addresses are read from launcher pods"),
    Right(on.POD, ("get",), "machine consoles are logs of launcher pods", subresource="log"),
    Right(PORT_FORWARD, ("get",), "connections to machines use the API", subresource="portforward", required=False),
    Right(on.PVC, ("list",), "remaining disks are reported"),
    Right(on.EVENT, ("list",), "events explain failures"),
)
# In each namespace of a cell.
CELL = (
    Right(on.RESOURCE_QUOTA, ("create",), "a quota limits each cell"),
    Right(on.NETWORK_POLICY, ("create",), "a network policy isolates each cell"),
    *_MACHINES,
)
# In the namespace of the golden images.
IMAGES = (
    Right(on.DATA_VOLUME, ("create", "get"), "every disk image is imported once"),
    Right(on.DATA_VOLUME, ("create",), "disks are cloned from the golden images", subresource="source", inside=True),
    Right(on.PVC, ("list",), "the storage class of a golden image decides how it is cloned"),
    Right(on.EVENT, ("list",), "events explain failed imports"),
)
# In the namespace of the golden images, where the storage class clones from snapshots; without it, claims are cloned.
SNAPSHOTS = (
    Right(on.VOLUME_SNAPSHOT, ("create", "get"), "machines are cloned from a snapshot of their image", required=False),
    Right(on.DATA_SOURCE, ("create",), "a DataSource refers to the snapshot", required=False),
)
# In the namespace of the reservations.
SCHEDULE = (Right(on.LEASE, ("create", "get", "update"), "runs that share the cluster reserve what they need"),)
# In a namespace that exists and that all cells share: everything above that is not about namespaces. To clone within
# a namespace needs no right to the source (CDI, CanUserClonePVC).
SHARED = (
    *_MACHINES,
    *SCHEDULE,
    Right(on.RESOURCE_QUOTA, ("list",), "the quota of the namespace is its capacity"),
    Right(on.NETWORK_POLICY, ("create", "delete", "list"), "a network policy isolates each cell"),
)
# Everywhere, for `vmatrix reap --expired`.
REAP = (
    Right(on.NAMESPACE, ("delete", "get", "list"), "namespaces of expired cells are deleted"),
    Right(on.VM, ("delete", "list"), "machines are deleted before their disks"),
    Right(on.VMI, ("list",), "a machine is gone when its instance is"),
    Right(on.DATA_VOLUME, ("delete", "list"), "disks are deleted before their namespace"),
    Right(on.PVC, ("list",), "what keeps a namespace is reported"),
    Right(on.POD, ("list",), "what keeps a namespace is reported"),
    Right(REAPER, ("run",), "the policy for reapers applies to whoever may do this", inside=True),
)
# For the dry run of `vmatrix doctor` with two pods. No role of deploy/ has it: whoever creates pods in a namespace can
# read its secrets, and in a privileged one owns the node. The cluster's owner has it.
_WHY_TRIAL = "the doctor tries the network with two pods"
TRIAL_NAMESPACE = (Right(on.NAMESPACE, ("create", "delete"), "the doctor's pods are in a separate namespace"),)
TRIAL = (
    Right(on.POD, ("create", "list"), _WHY_TRIAL, required=False),
    Right(on.NETWORK_POLICY, ("create",), _WHY_TRIAL, required=False),
)
# The same in a namespace that cells share, which stays.
TRIAL_SHARED = (
    Right(on.POD, ("create", "delete", "list"), _WHY_TRIAL, required=False),
    Right(on.NETWORK_POLICY, ("create", "delete"), _WHY_TRIAL, required=False),
)
# For `vmatrix doctor` alone; what may not be looked at is said and left out.
_CONFIG_MAPS = ("kubeadm-config", "kube-flannel-cfg", "cilium-config")
_THEIR_NAMESPACES = ("kube-system", "kube-flannel")
_WHY_CONFIG_MAPS = "the cluster's networks are read from its network plugin"
LOOK = tuple(
    replace(right, required=False)
    for right in (
        Right(on.STORAGE_CLASS, ("list",), "the default storage class is looked up"),
        Right(on.STORAGE_PROFILE, ("get",), "the storage profile is looked up"),
        Right(on.CDI, ("list",), "whether CDI works is looked up"),
        Right(on.CONFIG_MAP, ("get",), _WHY_CONFIG_MAPS, names=_CONFIG_MAPS, within=_THEIR_NAMESPACES),
        Right(on.SERVICE, ("get",), "the service network is looked up", names=("kubernetes",), within=("default",)),
        Right(on.SERVICE_CIDR, ("list",), "service networks are looked up"),
        Right(on.CALICO_POOL, ("list",), "Calico's pod networks are looked up"),
        Right(on.CALICO_FELIX, ("get",), "the port of Calico's VXLAN is looked up", names=("default",)),
    )
)


Labels = Mapping[str, str]


def rules(rights: Iterable[Right]) -> list[Json]:
    """Return the rules that allow rights: one for each kind and subresource, sorted, with no verb twice."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for right in rights:
        about = "/".join(part for part in (right.resource.plural, right.subresource) if part)
        verbs.setdefault((right.resource.group, about, right.names), set()).update(right.verbs)
    return [
        {
            "apiGroups": [group],
            "resources": [about],
            **({"resourceNames": list(names)} if names else {}),
            "verbs": sorted(allowed),
        }
        for (group, about, names), allowed in sorted(verbs.items())
    ]


def role(name: str, rights: Iterable[Right], namespace: str | None, labels: Labels) -> Json:
    """Return a Role in a namespace, or a ClusterRole without one."""
    kind = ROLE if namespace else CLUSTER_ROLE
    return kind.manifest(name, namespace or "", labels=labels, rules=rules(rights))


def binding(
    name: str, role_name: str, accounts: Iterable[str], home: str, namespace: str | None, labels: Labels
) -> Json:
    """Return the binding of a role to service accounts of the namespace `home`, of the role's own kind.

    Args:
        namespace: the role's; None for a ClusterRole.
    """
    kind, of = (ROLE_BINDING, ROLE) if namespace else (CLUSTER_ROLE_BINDING, CLUSTER_ROLE)
    to = {"apiGroup": RBAC, "kind": of.kind, "name": role_name}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": home} for account in accounts]
    return kind.manifest(name, namespace or "", labels=labels, roleRef=to, subjects=subjects)
