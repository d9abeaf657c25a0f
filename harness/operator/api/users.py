"""ClusterUser: a person or a program with a certificate of a cluster, and what it may do there."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, ObjectModel, StatusModel, listed, unchanged
from harness.operator.api.conditions import Condition, conditions
from harness.operator.api.etcd import Moment
from harness.operator.api.resources import ObjectName

# What begins with `system:` is Kubernetes' own: https://kubernetes.io/docs/reference/access-authn-authz/rbac
# API servers sign no request of the group system:masters by the signer for clients, whoever approves it
# (admission plugin CertificateSubjectRestriction).
OWN_NAMES = "system:"
UserName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@:+-]*$", max_length=128)]
GroupName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@:/+ -]*$", max_length=128)]
RoleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$", max_length=253)]
DAY = 86400


class UserBinding(ApiModel):
    """A role of the cluster that the user has."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "self.kind != 'Role' || (has(self.namespaces) && self.namespaces.size() > 0)",
            "a Role belongs to a namespace",
            "set namespaces, or use a ClusterRole",
            ".namespaces",
            holds=lambda binding: binding.kind != "Role" or len(binding.namespaces) > 0,
        ),
    )
    kind: Literal["ClusterRole", "Role"] = Field(default="ClusterRole", description="Kind of the role.")
    name: RoleName = Field(description="Name of the role, such as view, edit or cluster-admin.")
    namespaces: tuple[ObjectName, ...] = listed(
        "The only namespaces of the cluster that it is for; default: all of them.", default=(), max_length=50
    )


class ClusterUserSpec(ApiModel):
    """Who opens a cluster, and what it may do there."""

    cel: ClassVar[tuple[Cel, ...]] = (
        unchanged(".cluster", "make another ClusterUser"),
        Cel(
            f"!has(self.user) || !self.user.startsWith('{OWN_NAMES}')",
            f"names that begin with {OWN_NAMES} are Kubernetes' own",
            "choose another name",
            ".user",
            holds=lambda spec: spec.user is None or not spec.user.startswith(OWN_NAMES),
        ),
        Cel(
            f"self.groups.all(group, !group.startsWith('{OWN_NAMES}'))",
            f"groups that begin with {OWN_NAMES} are Kubernetes' own, and nobody could take system:masters back",
            "bind the ClusterRole cluster-admin for all rights",
            ".groups",
            holds=lambda spec: not any(group.startswith(OWN_NAMES) for group in spec.groups),
        ),
    )
    cluster: ObjectName = Field(description="ClusterDeployment of the same namespace; cannot change.")
    user: UserName | None = Field(default=None, description="Name in the cluster; default: that of the object.")
    groups: tuple[GroupName, ...] = listed("Groups in the cluster.", default=(), max_length=20)
    bindings: tuple[UserBinding, ...] = listed(
        "Roles of the cluster that the user has.", key="name", default=(), max_length=50
    )
    validity_seconds: int = (
        Field(  # ge: https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests
            default=7 * DAY, ge=600, le=365 * DAY, description="For how long each certificate is valid."
        )
    )


OTHER_SECRET = Cel(
    "self.metadata.name != 'kubeconfig'",
    "the Secret of that name has the kubeconfig of the cluster's endpoint",
    "choose another name",
    ".metadata.name",
    creating=True,
    holds=lambda user: user.metadata.name != "kubeconfig",
)


class ClusterUserStatus(StatusModel):
    """What the user has."""

    user: str | None = Field(default=None, description="Name in the cluster.")
    secret: ObjectName | None = Field(default=None, description="Secret with the kubeconfig, as `value`.")
    expires: Moment = Field(default=None, description="When the certificate expires.")
    conditions: tuple[Condition, ...] = conditions("Ready.")


class ClusterUser(ObjectModel):
    """A user of a cluster: the operator makes its kubeconfig, renews it, and binds its roles."""

    cel: ClassVar[tuple[Cel, ...]] = (OTHER_SECRET,)
    spec: ClusterUserSpec = Field(description="Who opens a cluster, and what it may do there.")
    status: ClusterUserStatus = Field(default_factory=ClusterUserStatus, description="What the user has.")
