"""ClusterDeployment: the wish for one cluster, the only kind that people edit."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, ObjectModel, StatusModel, listed, mapped, part
from harness.operator.api.addons import ClusterAddon
from harness.operator.api.components import (
    ApiBalancer,
    ArtifactSource,
    Authentication,
    CertificateSettings,
    Components,
    ContainerRuntime,
    Hardening,
    KubernetesSettings,
    MaintenanceSettings,
)
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.endpoint import LOCAL, SERVICE_TYPE, VIRTUAL, ApiEndpoint
from harness.operator.api.etcd import ETCD_RULES, IS_EXTERNAL, IS_SHARED, SHARED_RULES, EtcdSettings, SecretName
from harness.operator.api.isolation import NetworkIsolation
from harness.operator.api.networks import ClusterNetwork
from harness.operator.api.resources import FreeForm, KubernetesVersion, ObjectName
from harness.operator.api.sets import CONTROL_PLANE, ETCD, WantedSet

BY_NAME = Cel(
    "!self.adopt || self.machineSets.all(s, has(s.machines.names))",
    "a cluster that is adopted has machines of its own, which no pool can choose",
    "name them in machines.names of every set",
    ".machineSets",
    creating=True,
    holds=lambda spec: (
        not spec.adopt or all(machine_set.machines.names is not None for machine_set in spec.machine_sets)
    ),
)
STACKED = Cel(
    f"!self.adopt || !({IS_SHARED} || {IS_EXTERNAL})",
    "a cluster with external etcd cannot be adopted",
    "manage it with the playbooks",
    ".adopt",
    creating=True,
    holds=lambda spec: (
        not spec.adopt
        or not (
            spec.etcd.cluster_ref is not None
            or any(machine_set.has(ETCD) and not machine_set.has(CONTROL_PLANE) for machine_set in spec.machine_sets)
        )
    ),
)
ADOPTION_RULES = (BY_NAME, STACKED)


Remedy = Literal["None", "Restart", "Replace"]


class HealthPolicy(ApiModel):
    """What is done about machines that are gone or hung."""

    remediation: Remedy = Field(default="None", description="None, Restart, or Replace where a restart does not help.")
    after_seconds: int = Field(  # as the node controller's tolerations: pods leave a node after five minutes, too
        default=300, ge=1, le=86400, description="Seconds that a node is not ready before anything is done."
    )
    max_unhealthy: int = Field(
        default=1, ge=1, le=200, description="Nothing is done while more machines of the cluster are not healthy."
    )


ImageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*$", max_length=512)]


class ProductSource(ApiModel):
    """Where the product file of playbooks is."""

    config_map: ObjectName = Field(description="ConfigMap in the same namespace, with the key product.yml.")


class ExecutorPlaybooks(ApiModel):
    """Which playbooks the executor runs."""

    image: ImageName | None = Field(
        default=None, description="Image with the playbooks; default: the one that the manager was given."
    )
    product: ProductSource | None = Field(
        default=None, description="Product file of playbooks of your own, which the image has; default: vmatrix's own."
    )


NAME_LENGTH = 30  # CLUSTER-SEQUENCE-OPERATION-ATTEMPT names Jobs, whose names have at most 63 characters
NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
CLUSTER_NAME = Cel(
    f"self.metadata.name.size() <= {NAME_LENGTH} && self.metadata.name.matches('{NAME_PATTERN}')",
    "the name is too long or has other letters than the names of its Jobs may have",
    f"use at most {NAME_LENGTH} lower-case letters, digits and '-', a letter first",
    ".metadata.name",
    holds=lambda cd: len(cd.metadata.name) <= NAME_LENGTH and re.fullmatch(NAME_PATTERN, cd.metadata.name) is not None,
)


def _own_secret(what: str) -> SecretName | None:
    made: SecretName | None = Field(default=None, description=f"Secret with tls.crt and tls.key of {what}.")
    return made


class IssuerRef(ApiModel):
    """An issuer of cert-manager, or of a kind that cert-manager hands requests to."""

    name: ObjectName = Field(description="Name of the issuer.")
    kind: Annotated[str, StringConstraints(pattern="^[A-Z][A-Za-z0-9]*$", max_length=63)] = Field(
        default="Issuer", description="Issuer, which is in the same namespace, ClusterIssuer, or another kind."
    )
    group: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)] = Field(
        default="cert-manager.io", description="API group of the kind."
    )


class ClusterAuthority(ApiModel):
    """CAs of the cluster. What no Secret is named for, the operator makes, or an issuer signs."""

    keys_on_machines: bool = Field(
        default=True,
        description="Whether control planes have the keys of CAs; false: the executor signs, from Secrets.",
    )
    ca_secret_ref: SecretName | None = _own_secret("the cluster's CA")
    etcd_secret_ref: SecretName | None = _own_secret("etcd's CA")
    proxy_secret_ref: SecretName | None = _own_secret("the front proxy's CA")
    service_account_secret_ref: SecretName | None = _own_secret("the keys for tokens; tls.crt has the public one")

    issuer_ref: IssuerRef | None = Field(
        default=None,
        description="Issuer that signs CAs for which no Secret is named; default: each signs itself.",
    )

    @property
    def named(self) -> bool:
        """Tell whether the object names any Secret, or an issuer."""
        return any(getattr(self, name) is not None for name in type(self).model_fields if name.endswith("_ref"))


OWN_AUTHORITY = Cel(
    "!has(self.authority) || !(self.adopt || has(self.playbooks.product)) || !("
    "has(self.authority.caSecretRef) || has(self.authority.etcdSecretRef) || "
    "has(self.authority.proxySecretRef) || has(self.authority.serviceAccountSecretRef) || "
    "has(self.authority.issuerRef))",
    "a cluster that is adopted, or that other playbooks make, has CAs of its own",
    "remove the Secrets and the issuer",
    ".authority",
    holds=lambda spec: not spec.authority.named or not (spec.adopt or spec.playbooks.product is not None),
)


KEYS_KNOWN = Cel(
    "!has(self.authority) || self.authority.keysOnMachines || !(self.adopt || has(self.playbooks.product))",
    "the operator has no keys of the CAs of a cluster that is adopted, or that other playbooks make",
    "remove it",
    ".authority.keysOnMachines",
    holds=lambda spec: spec.authority.keys_on_machines or not (spec.adopt or spec.playbooks.product is not None),
)
NOBODY_SIGNS = Cel(
    "!has(self.authority) || self.authority.keysOnMachines || !has(self.hardening)"
    " || !has(self.hardening.kubeletCertificatesSigned) || !self.hardening.kubeletCertificatesSigned",
    "without the key of the CA, nothing in the cluster signs what kubelets ask for",
    "remove it, or set authority.keysOnMachines to true",
    ".hardening.kubeletCertificatesSigned",
    holds=lambda spec: spec.authority.keys_on_machines or not spec.hardening.kubelet_certificates_signed,
)


class JobPolicy(ApiModel):
    """How executors are run, and how many are kept."""

    retries: int = Field(
        default=2, ge=0, le=10, description="How often an operation is tried again if the infrastructure failed."
    )
    deadline_seconds: int = Field(  # an upgrade of many machines, one at a time, is the longest operation
        default=3600, ge=60, le=86400, description="Seconds after which an executor is stopped."
    )
    keep_failed: int = Field(default=3, ge=0, le=20, description="How many failed executors are kept.")
    keep_succeeded: int = Field(default=1, ge=0, le=20, description="How many successful executors are kept.")


class DeletionPolicy(ApiModel):
    """What the deletion of the object does."""

    machines: Literal["Reset", "Leave"] = Field(
        default="Reset", description="Reset: machines are bare and idle afterwards; Leave: they stay as they are."
    )
    backups: Literal["Keep", "Delete"] = Field(
        default="Keep",
        description="Keep: EtcdBackups stay; Delete: they are deleted, too, but not their files in the claim.",
    )


class ClusterDeletionPolicy(DeletionPolicy):
    """What the deletion of a ClusterDeployment does."""

    etcd_keys: Literal["Keep", "Delete"] = Field(
        default="Keep",
        description="Keep: what the cluster has in the EtcdCluster of etcd.clusterRef stays there; Delete: it goes.",
    )


CRIO_FROM_MIRROR = Cel(
    "self.runtime.name != 'crio' || self.source.type == 'Mirror'",
    "CRI-O comes from a mirror alone",
    "set source.type to Mirror, or runtime.name to containerd",
    ".runtime.name",
    holds=lambda spec: spec.runtime.name != "crio" or spec.source.type == "Mirror",
)


ONE_ENDPOINT = Cel(
    f"self.loadBalancer.type == '{LOCAL}' || self.endpoint.type in ['{LOCAL}', '{SERVICE_TYPE}']",
    "endpoint and loadBalancer ask for different ways to the API",
    "remove loadBalancer",
    ".loadBalancer.type",
    holds=lambda spec: spec.load_balancer.type == LOCAL or spec.endpoint.type in (LOCAL, SERVICE_TYPE),
)
OWN_ADDRESS = Cel(
    f"self.endpoint.type != '{VIRTUAL}' || !has(self.playbooks.product)",
    "other playbooks keep no virtual address on control planes",
    "choose another type",
    ".endpoint.type",
    holds=lambda spec: spec.endpoint.type != VIRTUAL or spec.playbooks.product is None,
)


class ClusterDeploymentSpec(ApiModel):
    """The wanted cluster."""

    cel: ClassVar[tuple[Cel, ...]] = (
        *(*ETCD_RULES, *ADOPTION_RULES, OWN_AUTHORITY, CRIO_FROM_MIRROR),
        *(ONE_ENDPOINT, OWN_ADDRESS, KEYS_KNOWN, NOBODY_SIGNS, *SHARED_RULES),
    )
    version: KubernetesVersion = Field(description="Kubernetes version.")
    components: Components = part(Components, "Versions that differ from those of the release table.")
    adopt: bool = Field(
        default=False, description="Take over the cluster that its machines are, instead of deploying one."
    )
    paused: bool = Field(default=False, description="No operation begins while this is true.")
    approval: Literal["Automatic", "Manual"] = Field(
        default="Automatic", description="Manual: disruptive operations wait until a person approves."
    )
    network: ClusterNetwork = part(ClusterNetwork, "Addresses and names inside of the cluster.")
    isolation: NetworkIsolation = part(NetworkIsolation, "Who reaches the cluster's machines, and whom they reach.")
    runtime: ContainerRuntime = part(ContainerRuntime, "The container runtime.")
    etcd: EtcdSettings = part(
        EtcdSettings, "Settings of etcd; where it runs follows from the roles of the sets, or from clusterRef."
    )
    kubernetes: KubernetesSettings = part(KubernetesSettings, "Settings of Kubernetes' own components.")
    addons: tuple[ClusterAddon, ...] = listed(
        "Add-ons, of the playbooks or with manifests.", key="name", default=(), max_length=20
    )
    source: ArtifactSource = Field(description="Where machines get binaries and images from.")
    machine_sets: tuple[WantedSet, ...] = listed(
        "Sets of machines with the same roles.", key="name", min_length=1, max_length=20
    )
    endpoint: ApiEndpoint = part(ApiEndpoint, "The way to the cluster's API.")
    load_balancer: ApiBalancer = part(ApiBalancer, "What stands in front of the API servers.")
    authentication: Authentication = part(Authentication, "Who may log in with tokens of other issuers.")
    hardening: Hardening = part(Hardening, "What makes the cluster harder to break into.")
    certificates: CertificateSettings = part(
        CertificateSettings, "For how long certificates are valid, where they are, and what they name."
    )
    maintenance: MaintenanceSettings = part(
        MaintenanceSettings, "How gently nodes are emptied, and when a member of etcd is defragmented."
    )
    authority: ClusterAuthority = part(
        ClusterAuthority, "CAs of one's own, which the cluster is begun with, and where keys are."
    )
    health: HealthPolicy = part(HealthPolicy, "What is done about machines that are gone or hung.")
    access: Literal["Auto", "Direct", "PortForward"] = Field(
        default="Auto",
        description="Direct, PortForward, or Auto: PortForward for Machines with spec.through, else Direct.",
    )
    variables: FreeForm = mapped("Further variables of the playbooks, which no field stands for.")
    playbooks: ExecutorPlaybooks = part(ExecutorPlaybooks, "Which playbooks the executor runs.")
    jobs: JobPolicy = part(JobPolicy, "How executors are run, and how many are kept.")
    deletion: ClusterDeletionPolicy = part(ClusterDeletionPolicy, "What the deletion of the object does.")

    @property
    def way(self) -> ApiEndpoint:
        """Return the endpoint, also of an object that says it by `loadBalancer`."""
        old = self.endpoint.type == LOCAL and self.load_balancer.type == SERVICE_TYPE
        return self.endpoint.model_copy(update={"type": SERVICE_TYPE}) if old else self.endpoint


class ClusterDeploymentStatus(StatusModel):
    """What became of the wish."""

    observed_generation: int | None = Field(default=None, description="Generation that the status is about.")
    version: str | None = Field(default=None, description="Kubernetes version that was last deployed.")
    machines: str | None = Field(default=None, description="Ready machines of wanted machines, such as 2/2.")
    endpoint: str | None = Field(default=None, description="URL of the cluster's API.")
    conditions: tuple[Condition, ...] = conditions("How the cluster is; docs/operator/status.md explains each.")


class ClusterDeployment(ObjectModel):
    """The wish for one cluster: the operator makes it from Machines, changes it as the wish changes, and removes it."""

    cel: ClassVar[tuple[Cel, ...]] = (CLUSTER_NAME,)
    spec: ClusterDeploymentSpec = Field(description="The wanted cluster.")
    status: ClusterDeploymentStatus = Field(
        default_factory=ClusterDeploymentStatus, description="What became of the wish."
    )
