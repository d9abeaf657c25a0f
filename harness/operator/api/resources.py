"""Kinds of the operator as paths of the API, names of its objects, and texts with a pattern and a size."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from harness.kube.resources import Resource

GROUP, VERSION = "cluster.vmatrix.dev", "v1alpha1"
CLUSTER_DEPLOYMENT = Resource(GROUP, VERSION, "clusterdeployments", "ClusterDeployment")
CLUSTER = Resource(GROUP, VERSION, "clusters", "Cluster")
MACHINE_SET = Resource(GROUP, VERSION, "machinesets", "MachineSet")
MACHINE = Resource(GROUP, VERSION, "machines", "Machine")
ETCD_CLUSTER = Resource(GROUP, VERSION, "etcdclusters", "EtcdCluster")
DECLARED = (CLUSTER_DEPLOYMENT, ETCD_CLUSTER)  # what people declare clusters by; each has a Cluster of its name
ETCD_PEER = Resource(GROUP, VERSION, "etcdpeers", "EtcdPeer")
ETCD_RESTORE = Resource(GROUP, VERSION, "etcdrestores", "EtcdRestore")
ETCD_BACKUP = Resource(GROUP, VERSION, "etcdbackups", "EtcdBackup")
CLUSTER_USER = Resource(GROUP, VERSION, "clusterusers", "ClusterUser")
CLUSTER_NETWORK_POOL = Resource(GROUP, VERSION, "clusternetworkpools", "ClusterNetworkPool", namespaced=False)
DELIVERY_GROUP = "delivery.vmatrix.dev"
DELIVERY = Resource(DELIVERY_GROUP, VERSION, "deliveries", "Delivery")
DELIVERY_LABEL, REVISION_LABEL = f"{DELIVERY_GROUP}/delivery", f"{DELIVERY_GROUP}/revision"
# On what an application consists of, whose namespace may be another than its Delivery's.
DELIVERY_NAMESPACE_LABEL, APPLICATION_LABEL = f"{DELIVERY_GROUP}/namespace", f"{DELIVERY_GROUP}/application"
REVISION_ANNOTATION = f"{DELIVERY_GROUP}/revision"
APPLICATION_FINALIZER = f"{DELIVERY_GROUP}/application"
# Of a Delivery: look at the repository now, whatever the value is, and try a build that failed once more.
RECONCILE_ANNOTATION = f"{DELIVERY_GROUP}/reconcile"
# Who pushed what a git server told of, and behind a blank the value of RECONCILE_ANNOTATION that this is about.
PUSHED_BY_ANNOTATION = f"{DELIVERY_GROUP}/pushed-by"
# Of a Delivery, written by the webhooks: who changed its spec last.
AUTHOR_ANNOTATION = f"{DELIVERY_GROUP}/requested-by"
CLUSTER_LABEL, OPERATION_LABEL = f"{GROUP}/cluster", f"{GROUP}/operation"
UID_LABEL = f"{GROUP}/uid"  # of a ClusterDeployment or an EtcdCluster, on its Cluster and its MachineSets
KIND_LABEL = f"{GROUP}/kind"  # of the Cluster of an EtcdCluster: that kind
BEFORE_LABEL = f"{GROUP}/before"  # of an EtcdBackup that the operator made: digest of what it was made before
SCHEDULED_LABEL = f"{GROUP}/scheduled"  # of an EtcdBackup that a schedule made: for which time, in UTC
RETRY_ANNOTATION = f"{GROUP}/retry"
# Of a ClusterDeployment: names of sets that it does not have any more, and whose machines are to leave the cluster.
REMOVE_SETS_ANNOTATION = f"{GROUP}/remove-sets"
APPROVE_ANNOTATION, CANCEL_ANNOTATION = f"{GROUP}/approve", f"{GROUP}/cancel"  # each names an operation's sequence
# Of a ClusterDeployment, written by the webhooks: who changed its spec last, and who gave the approval.
REQUESTED_BY_ANNOTATION, APPROVED_BY_ANNOTATION = f"{GROUP}/requested-by", f"{GROUP}/approved-by"
REPLACE_ANNOTATION = f"{GROUP}/replace"  # of a Machine that is to leave its cluster; the value says why
DELETE_ANNOTATION = f"{GROUP}/delete-me"  # of a Machine that goes first when its set is to have fewer
USER_FINALIZER = f"{GROUP}/user"  # of a ClusterUser that has bindings in its cluster
RESET_FINALIZER = f"{GROUP}/reset"
AUTHORITY_OF = f"{GROUP}/authority-of"  # annotation of a Secret that outlives its object: the UID of that
LEAVING = f"{GROUP}/leaving"  # annotation of a Machine whose claim is about to be given up: why
GIVEN_UP = f"{GROUP}/given-up"  # annotation of a Job whose executor is not to begin any more


ShortName = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=20)]
Hostname = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]
SecretKey = Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
KubernetesVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$", max_length=32)]
ComponentVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)*([-+][0-9A-Za-z.]+)?$", max_length=32)]
LoginUser = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,31}$", max_length=32)]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
Line = Annotated[str, StringConstraints(max_length=1024)]
Arguments = Annotated[
    dict[str, Annotated[str, StringConstraints(pattern=r"^[^\n\r]*$", max_length=1024)]], Field(max_length=100)
]
FreeForm = dict[str, JsonValue]
