"""The kinds that vmatrix reads or writes, as paths of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.kube.failures import Json


@dataclass(frozen=True)
class Resource:
    """One kind: where it is served and whether it lives in a namespace."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return what stands in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def manifest(self, name: str, namespace: str, *, labels: Mapping[str, str], **content: Any) -> dict[str, Any]:
        """Return an object of the kind."""
        meta = {"name": name, "labels": dict(labels), **({"namespace": namespace} if self.namespaced else {})}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta, **content}

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of a collection (no name; all namespaces without a namespace) or an object."""
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


ADMISSION, RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
POD = Resource("", "v1", "pods", "Pod")
SECRET = Resource("", "v1", "secrets", "Secret")
SERVICE = Resource("", "v1", "services", "Service")
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTA = Resource("", "v1", "resourcequotas", "ResourceQuota")
EVENT = Resource("", "v1", "events", "Event")
PVC = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PV = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
POD_DISRUPTION_BUDGET = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
CSR = Resource("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False)
CSI_NODE = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
STORAGE_CLASS = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment")
JOB = Resource("batch", "v1", "jobs", "Job")
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"  # of the pods of a Job
REPLICA_SET = Resource("apps", "v1", "replicasets", "ReplicaSet")
DAEMON_SET = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISION = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
API_SERVICE = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
CRD = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
VALIDATING_WEBHOOK = Resource(
    ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
MUTATING_WEBHOOK = Resource(
    ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
SUBJECT_ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
ROLE = Resource(RBAC, "v1", "roles", "Role")
ROLE_BINDING = Resource(RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
VM = Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
VMI = Resource("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
PORT_FORWARD = Resource("subresources.kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
KUBEVIRT = Resource("kubevirt.io", "v1", "kubevirts", "KubeVirt")
DATA_VOLUME = Resource("cdi.kubevirt.io", "v1beta1", "datavolumes", "DataVolume")
DATA_SOURCE = Resource("cdi.kubevirt.io", "v1beta1", "datasources", "DataSource")
STORAGE_PROFILE = Resource("cdi.kubevirt.io", "v1beta1", "storageprofiles", "StorageProfile", namespaced=False)
CDI_CONFIG = Resource("cdi.kubevirt.io", "v1beta1", "cdiconfigs", "CDIConfig", namespaced=False)
CDI = Resource("cdi.kubevirt.io", "v1beta1", "cdis", "CDI", namespaced=False)
VOLUME_SNAPSHOT = Resource("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot")
INGRESS = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESS_CLASS = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False)
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
# As far as their groups and names go; which version an API serves is found out.
GATEWAY = Resource("gateway.networking.k8s.io", "v1", "gateways", "Gateway")
TLS_ROUTE = Resource("gateway.networking.k8s.io", "v1", "tlsroutes", "TLSRoute")
CERTIFICATE_REQUEST = Resource("cert-manager.io", "v1", "certificaterequests", "CertificateRequest")
SERVICE_CIDR = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", namespaced=False)
CALICO_POOL = Resource("crd.projectcalico.org", "v1", "ippools", "IPPool", namespaced=False)
CALICO_FELIX = Resource("crd.projectcalico.org", "v1", "felixconfigurations", "FelixConfiguration", namespaced=False)


def pod_security(user: int) -> Json:
    """Return the pod's part: all of its processes are one user, with a group of the same number."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Json:
    """Return the part of each container; its root is read-only, too."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
