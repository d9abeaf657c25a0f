"""The rights of the operator, controller by controller: the one list, as data.

deploy/operator has them as roles, and a test reads in a real API server's audit log that every one is used and none is
missing. What a controller watches, it lists and watches (`registry`); everything else is here.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.infra.cluster.rights import Right
from harness.kube.resources import (
    CERTIFICATE_REQUEST,
    CONFIG_MAP,
    CRD,
    DATA_VOLUME,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    GATEWAY,
    INGRESS,
    INGRESS_CLASS,
    JOB,
    LEASE,
    MUTATING_WEBHOOK,
    NETWORK_POLICY,
    NODE,
    POD,
    PORT_FORWARD,
    PVC,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    SUBJECT_ACCESS_REVIEW,
    TLS_ROUTE,
    VALIDATING_WEBHOOK,
    VM,
    VMI,
)
from harness.operator.api.crds import KINDS
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_NETWORK_POOL,
    CLUSTER_USER,
    DECLARED,
    DELIVERY,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    ETCD_PEER,
    ETCD_RESTORE,
    MACHINE,
    MACHINE_SET,
)
from harness.operator.controllers.remediation import SWITCH
from harness.operator.registry import Part
from harness.operator.webhooks.configurations import SECRET_NAME
from harness.operator.webhooks.deliveries import VERB as DELIVER
from harness.operator.webhooks.deployments import VERB

WATCH = ("list", "watch")
STATUS, FINALIZERS = "status", "finalizers"
_TUNNEL = Right(PORT_FORWARD, ("get",), "machines that are instances are reached through the API", "portforward")

# Of every manager, in its own namespace.
MANAGER = (
    Right(LEASE, ("create", "get", "update"), "of several managers one works"),
    Right(POD, ("get",), "executors have the image of the manager's own pod"),
)
# Of every manager, everywhere.
_OURS = tuple(f"{kind.resource.plural}.{kind.resource.group}" for kind in KINDS)
DEFINITIONS = (
    Right(CRD, ("get",), "a manager does not work with definitions older than itself", names=_OURS),
    Right(INGRESS_CLASS, ("list",), "whether an Ingress can pass TLS through"),
    Right(GATEWAY, ("get",), "whether a Gateway, which may be in another namespace, passes TLS through"),
    Right(NODE, ("list",), "the images of Nodes tell whether the network enforces policies"),
    Right(STORAGE_CLASS, ("get",), "a claim for backups may wait for its first pod, or for ever"),
    Right(SUBJECT_ACCESS_REVIEW, ("create",), "a namespace says whose Deliveries may deploy into it"),
)
# Of managers that serve webhooks: in their own namespace, in those that they look at, and everywhere.
WEBHOOKS_OWN = (
    Right(SECRET, ("create",), "managers share the webhooks' certificates"),
    Right(SECRET, ("get", "update"), "managers share the webhooks' certificates", names=(SECRET_NAME,)),
)
WEBHOOKS = (
    Right(CLUSTER, ("get",), "what is deployed decides what may be wished, and which Machines are in use"),
    Right(MACHINE, ("list",), "a cluster's networks must not have the addresses of its machines"),
    Right(CLUSTER_DEPLOYMENT, ("list",), "an EtcdCluster that one of them names is not deleted"),
    *(
        Right(kind, ("get",), "a ClusterDeployment and an EtcdCluster of one name have one Cluster")
        for kind in DECLARED
    ),
)


def webhooks_everywhere(configuration: str) -> tuple[Right, ...]:
    """Return what a manager that serves webhooks may do in the whole cluster, with configurations of a name."""
    told = "API servers are told which authority signs the certificate"
    return (
        Right(SUBJECT_ACCESS_REVIEW, ("create",), "who takes Machines, or delivers, must be allowed to"),
        *(
            Right(kind, ("get", "update"), told, names=(configuration,))
            for kind in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK)
        ),
    )


# Of people whose ClusterDeployments may take Machines.
USE = (Right(MACHINE, (VERB,), "a ClusterDeployment takes Machines for its author"),)
# Of people whose Deliveries may go into guest clusters; elsewhere, rights on Deployments and Secrets count.
INTO_GUESTS = (Right(CLUSTER, (DELIVER,), "a Delivery deploys into a guest cluster for its author"),)
# Of controllers that write events.
EVENTS = (Right(EVENT, ("create", "get", "patch"), "events say what was done, and how often"),)
# Of the executors: what the role of each allows, of its own objects only (`execute.objects`).
EXECUTOR = (
    Right(SECRET, ("get", "update"), "what playbooks keep of a cluster", inside=True),
    Right(CONFIG_MAP, ("get", "update"), "the log is kept", inside=True),
    Right(JOB, ("patch",), "its play and task are told", inside=True),
    Right(PORT_FORWARD, ("get",), "machines are reached through the API", "portforward", inside=True),
)
# What an application consists of: the ConfigMap names all of its objects.
APPLICATION = (DEPLOYMENT, SERVICE, INGRESS, CONFIG_MAP)
OWN: Mapping[str, tuple[Right, ...]] = {
    "clusterdeployment": (
        Right(CLUSTER, ("create", "delete", "get", "update"), "one with each ClusterDeployment, until the reset"),
        Right(MACHINE_SET, ("create", "delete", "get", "update"), "one for each set"),
        Right(MACHINE_SET, ("patch",), "edits by hand that are put back", STATUS),
        Right(CLUSTER_DEPLOYMENT, ("update",), "conditions", STATUS),
        Right(CONFIG_MAP, ("get",), "product files of playbooks"),
        Right(CLUSTER_DEPLOYMENT, ("get", "patch"), "a finalizer until the reset, and sets that are scaled"),
        Right(MACHINE, (VERB,), "a set that is scaled takes them", inside=True),
        Right(CLUSTER_DEPLOYMENT, ("update",), "it owns what it makes", FINALIZERS, inside=True),
        Right(ETCD_CLUSTER, ("get",), "a Cluster is deleted when nobody of its name is there"),
    ),
    "etcdcluster": (
        Right(CLUSTER, ("create", "delete", "get", "update"), "one with each EtcdCluster, until the reset"),
        Right(MACHINE_SET, ("create", "delete", "get", "update"), "one for the members"),
        Right(MACHINE_SET, ("patch",), "edits by hand that are put back", STATUS),
        Right(ETCD_CLUSTER, ("update",), "conditions", STATUS),
        Right(ETCD_CLUSTER, ("get", "patch"), "a finalizer until the reset, and a set that is scaled"),
        Right(MACHINE, (VERB,), "a set that is scaled takes them", inside=True),
        Right(ETCD_CLUSTER, ("update",), "it owns what it makes", FINALIZERS, inside=True),
        Right(CLUSTER_DEPLOYMENT, ("get",), "a Cluster is deleted when nobody of its name is there"),
    ),
    "machineset": (
        Right(MACHINE, ("get", "patch"), "claims"),
        Right(MACHINE, ("create", "delete"), "Machines of sets that have them made"),
        Right(MACHINE_SET, ("patch",), "counts and conditions", STATUS),
        Right(MACHINE_SET, ("update",), "it owns Machines that are made for it", FINALIZERS, inside=True),
    ),
    "claims": (
        *(Right(kind, ("get",), "a claim is given up when its cluster is gone") for kind in DECLARED),
        Right(CLUSTER, ("get",), "a claim is given up when its cluster is gone"),
        Right(POD, ("list",), "no executor may run then"),
        Right(MACHINE, ("patch",), "claims are given up"),
        Right(MACHINE, ("delete",), "made Machines go when nobody needs them"),
    ),
    "machine": (
        Right(SECRET, ("get",), "a machine's key opens it"),
        Right(MACHINE, ("get", "patch"), "a finalizer while a cluster is on it"),
        Right(MACHINE, ("patch",), "what it is", STATUS),
        _TUNNEL,
    ),
    "infrastructure": (
        Right(MACHINE, ("patch",), "what the infrastructure says", STATUS),
        Right(MACHINE, ("update",), "it owns what it is made of", FINALIZERS, inside=True),
        Right(DATA_VOLUME, ("create", "get", "patch"), "images and disks of Machines that are made"),
        Right(SECRET, ("create", "get"), "a key for each cluster, and what cloud-init is told"),
        *(Right(kind, ("update",), "it owns the key", FINALIZERS, inside=True) for kind in DECLARED),
        Right(VM, ("create", "get"), "Machines that are made"),
        Right(NETWORK_POLICY, ("get",), "no machine starts before its cluster's policy selects it"),
        Right(VMI, ("get",), "nothing is called lost by a local copy alone"),
        Right(PVC, ("get",), "a machine with another disk is another machine"),
        Right(POD, ("list",), "launchers have the addresses of machines, and importers' last words"),
        Right(EVENT, ("list",), "why a disk is not made"),
    ),
    "nodehealth": (
        Right(SECRET, ("get",), "a cluster's kubeconfig opens its API"),
        Right(MACHINE, ("patch",), "its Node", STATUS),
        _TUNNEL,
    ),
    "inspection": (
        Right(SECRET, ("get",), "a machine's key opens it"),
        Right(MACHINE, ("patch",), "its certificates, and files that were changed", STATUS),
        Right(MACHINE, ("get",), "it is read again where somebody else wrote first"),
        Right(ETCD_PEER, ("create", "delete", "get"), "one for each member of an EtcdCluster"),
        Right(ETCD_PEER, ("patch",), "what the member says of itself", STATUS),
        Right(MACHINE, ("update",), "it owns its EtcdPeer", FINALIZERS, inside=True),
        _TUNNEL,
    ),
    "remediation": (
        Right(MACHINE, ("patch",), "one that is gone or hung is to be replaced"),
        Right(MACHINE, ("patch",), "how healthy it is, and what was done", STATUS),
        Right(VMI, ("get",), "a restart ends the instance that was hung, and no other"),
        Right(SWITCH, ("update",), "a machine that is hung is restarted", "restart"),
    ),
    "endpoint": (
        Right(SERVICE, ("create", "delete", "get", "patch"), "CLUSTER-api"),
        Right(ENDPOINT_SLICE, ("create", "delete", "get", "patch"), "the control planes behind it"),
        Right(INGRESS, ("create", "delete", "get", "patch"), "CLUSTER-api"),
        Right(TLS_ROUTE, ("create", "delete", "get", "patch"), "CLUSTER-api"),
        Right(SECRET, ("create", "delete", "get", "patch"), "CLUSTER-user-kubeconfig"),
        Right(CLUSTER, ("patch",), "where the API is", STATUS),
        Right(CLUSTER_DEPLOYMENT, ("update",), "it owns what it makes", FINALIZERS, inside=True),
    ),
    "authority": (
        Right(SECRET, ("create", "get", "patch"), "CAs that clusters are begun with"),
        Right(CERTIFICATE_REQUEST, ("create", "delete", "get"), "an issuer of cert-manager signs CAs"),
        Right(CLUSTER, ("patch",), "what they are, and until when", STATUS),
        *(Right(kind, ("update",), "it owns what it makes", FINALIZERS, inside=True) for kind in DECLARED),
    ),
    "etcdclients": (
        Right(SECRET, ("create", "get", "patch"), "a CA of etcd signs a certificate for each cluster that uses it"),
        Right(CLUSTER, ("patch",), "what it has of an EtcdCluster", STATUS),
        Right(CLUSTER_DEPLOYMENT, ("update",), "it owns its certificate", FINALIZERS, inside=True),
    ),
    "networks": (
        Right(CLUSTER_NETWORK_POOL, ("update",), "what each cluster has of it", STATUS),
        Right(CLUSTER_DEPLOYMENT, ("get",), "what a cluster has is given up when it is gone"),
        Right(CLUSTER, ("patch",), "its networks", STATUS),
    ),
    "isolation": (
        Right(NETWORK_POLICY, ("create", "delete", "get", "update"), "CLUSTER-isolation"),
        Right(POD, ("list",), "launchers of given machines say by which name they are selected"),
        Right(CLUSTER, ("patch",), "what the policy selects, and whether it is enforced", STATUS),
        Right(CLUSTER_DEPLOYMENT, ("update",), "it owns the policy", FINALIZERS, inside=True),
    ),
    "users": (
        Right(SECRET, ("create", "get", "patch"), "a cluster's kubeconfig opens its API, and each user has one"),
        Right(CLUSTER_USER, ("patch",), "a finalizer while it has bindings in its cluster"),
        Right(CLUSTER_USER, ("update",), "what it has, and until when", STATUS),
        Right(CLUSTER_USER, ("update",), "it owns its kubeconfig", FINALIZERS, inside=True),
        _TUNNEL,
    ),
    "addons": (
        Right(SECRET, ("get",), "a cluster's kubeconfig opens its API"),
        Right(CONFIG_MAP, ("get",), "manifests of add-ons"),
        Right(CLUSTER, ("patch",), "what became of each add-on", STATUS),
        _TUNNEL,
    ),
    "clusterinstall": (
        Right(CLUSTER, ("update",), "plan and operation", STATUS),
        Right(CLUSTER, ("update",), "it owns what an operation needs", FINALIZERS, inside=True),
        Right(MACHINE, ("get",), "an operation's machines are looked at once more"),
        Right(POD, ("list",), "no pod of an earlier Job of the name may live"),
        Right(SERVICE_ACCOUNT, ("create", "get"), "executors have an account"),
        Right(ROLE, ("create", "get", "patch"), "it names the present Job"),
        Right(ROLE_BINDING, ("create", "get"), "executors have that role"),
        Right(SECRET, ("create", "get"), "what playbooks keep of a cluster"),
        Right(CONFIG_MAP, ("create", "delete", "get"), "inputs and log of an operation"),
        Right(JOB, ("create", "get"), "operations are Jobs"),
        *EXECUTOR,
    ),
    "executions": (
        Right(CLUSTER, ("update",), "history and what is applied", STATUS),
        Right(JOB, ("delete", "get", "patch"), "Jobs that are not kept, or given up"),
        Right(POD, ("list",), "how an executor ended"),
        Right(EVENT, ("list",), "why one is not started"),
        Right(CONFIG_MAP, ("delete", "get"), "logs, and inputs that are not kept"),
        Right(SECRET, ("create", "delete", "get", "patch"), "CLUSTER-kubeconfig"),
    ),
    "backups": (
        Right(
            ETCD_BACKUP,
            ("create", "delete", "patch"),
            "the operator's own; others go with their cluster",
        ),
        Right(ETCD_BACKUP, ("update",), "what became of them", STATUS),
        Right(CLUSTER, ("update",), "which times of a schedule are done", STATUS),
        *(Right(kind, ("update",), "it may own backups", FINALIZERS, inside=True) for kind in DECLARED),
    ),
    "restores": (Right(ETCD_RESTORE, ("update",), "what became of them", STATUS),),
    "builds": (
        Right(DELIVERY, ("update",), "which revision is built, and what became of it", STATUS),
        Right(DELIVERY, ("update",), "it owns its builds", FINALIZERS, inside=True),
        Right(SECRET, ("get",), "what opens a repository; others are mounted by Jobs, and have to be there"),
        Right(JOB, ("create", "delete", "get"), "builds are Jobs"),
        Right(CONFIG_MAP, ("create", "delete", "get", "patch"), "inputs and logs of builds"),
        Right(POD, ("get",), "what a build says is kept", "log"),
    ),
    "rollouts": (
        Right(DELIVERY, ("update",), "which revision runs, and whether it is ready", STATUS),
        Right(DELIVERY, ("patch",), "a finalizer where the application lies elsewhere"),
        Right(DELIVERY, ("update",), "it owns its application", FINALIZERS, inside=True),
        *(Right(kind, ("delete", "get", "patch"), "applications") for kind in APPLICATION),
        *(Right(kind, ("create",), "applications are applied", inside=True) for kind in APPLICATION),
        Right(POD, ("list",), "why a revision is not ready"),
        Right(SECRET, ("get",), "a guest's kubeconfig, what nodes pull with, and the key of signatures"),
        _TUNNEL,
    ),
    "gitwebhooks": (
        Right(DELIVERY, ("get", "patch"), "a git server tells of commits"),
        Right(SECRET, ("get",), "what it signs that with"),
    ),
}


def rights_of(part: Part) -> tuple[Right, ...]:
    """Return everything that a controller may do in the namespaces that it looks at."""
    watched = (Right(kind, WATCH, f"{part.name} watches it") for kind in part.watches)
    return (*watched, *OWN[part.name], *(EVENTS if EVENT in part.writes else ()))
