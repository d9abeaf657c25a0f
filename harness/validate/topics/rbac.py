"""RBAC: roles and bindings are those of the version and the product, and accounts have the rights that they need.

What kube-apiserver grants by itself is in matrix/policy, by minor: python -m ci.bootstrap_policy writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness import yaml_text
from harness.files import read_text
from harness.kube import Cluster
from harness.kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from harness.paths import MATRIX, packaged_dir
from harness.spec.project import matrix_dir
from harness.validate.expected import PROXY_MODES, ExpectedGuest, upstream_of
from harness.validate.facts.cluster import Json
from harness.validate.findings import Mismatch, differs, same_set, unjudged
from harness.validate.manifests import installed, key_of, listed, permissions, place_of, strange_objects, subjects_of

REVIEWS = "/apis/authorization.k8s.io/v1"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True)
class ApiRight:
    """To do something with objects of a resource (RESOURCE or RESOURCE/SUBRESOURCE): everywhere, or in a namespace."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''}{place}"

    @property
    def attributes(self) -> dict[str, str]:
        """Return it as reviews take it."""
        resource, _, sub = self.resource.partition("/")
        attributes = {"verb": self.verb, "group": self.group, "resource": resource}
        more = {"subresource": sub, "namespace": self.namespace, "name": self.name}
        return {**attributes, **{key: value for key, value in more.items() if value}}


def reviewed(api: Cluster, right: ApiRight, user: str = "", groups: Sequence[str] = ()) -> bool:
    """Return whether a user has a right by a SubjectAccessReview; without one, whether who asks has it."""
    spec: dict[str, Any] = {"resourceAttributes": right.attributes}
    spec |= {"user": user, "groups": list(groups)} if user else {}
    kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return bool(api.request("POST", f"{REVIEWS}/{kind.lower()}s", body=body)["status"]["allowed"])


ACCOUNTS = "system:serviceaccounts"
# Who must not do what no default role grants to everybody, and the groups that the API server puts them in
# (kubernetes.io, "Using RBAC Authorization": groups of ServiceAccounts; "Authenticating": anonymous requests).
WHO: dict[str, tuple[str, ...]] = {
    "system:anonymous": ("system:unauthenticated",),
    "vmatrix:nobody-in-particular": (AUTHENTICATED,),
    "system:serviceaccount:default:default": (AUTHENTICATED, ACCOUNTS, f"{ACCOUNTS}:default"),
    "system:serviceaccount:kube-system:default": (AUTHENTICATED, ACCOUNTS, f"{ACCOUNTS}:kube-system"),
}
SYSTEM, RBAC, CSR = "kube-system", "rbac.authorization.k8s.io", "certificates.k8s.io"
# What makes an admin of whoever may do it, at once or by one step more (kubernetes.io, "RBAC Good Practices").
FORBIDDEN = (
    ApiRight("list", "", "secrets"),
    ApiRight("list", "", "secrets", namespace=SYSTEM),
    ApiRight("create", "", "pods"),
    ApiRight("create", "", "pods", namespace=SYSTEM),
    ApiRight("create", "", "pods/exec", namespace=SYSTEM),
    ApiRight("update", "", "configmaps", namespace=SYSTEM),
    ApiRight("patch", "apps", "daemonsets", namespace=SYSTEM),
    ApiRight("create", "", "serviceaccounts/token", namespace=SYSTEM),
    ApiRight("impersonate", "", "users"),
    ApiRight("get", "", "nodes/proxy"),
    ApiRight("patch", "", "nodes"),
    ApiRight("update", CSR, "certificatesigningrequests/approval"),
    ApiRight("create", RBAC, CLUSTER_ROLE_BINDING.plural),
    ApiRight("bind", RBAC, CLUSTER_ROLE.plural),
    ApiRight("escalate", RBAC, CLUSTER_ROLE.plural),
)
ADMIN_ROLE = "cluster-admin"
MASTERS = "Group system:masters"
MANY = ("Group system:authenticated", "Group system:unauthenticated", "Group system:nodes", "User system:anonymous")


def excessive_rights(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what RBAC allows although it must not, and a refusal of the admin, which would make that prove nothing."""
    mismatches = differs("the admin", "every right", True, reviewed(api, ApiRight("*", "*", "*")))
    if mismatches:  # who may not ask about others learns nothing of them
        return mismatches
    for user, groups in WHO.items():
        for right in FORBIDDEN:
            if reviewed(api, right, user, groups):
                mismatches.append(Mismatch(user, f"no right to {right}", "allowed"))
    powerful = {ADMIN_ROLE, *(role["metadata"]["name"] for role in api.list(CLUSTER_ROLE).items if _allows_all(role))}
    return mismatches + wrong_admins(api.list(CLUSTER_ROLE_BINDING).items, expected, powerful)


def _allows_all(role: Json) -> bool:
    """Tell whether a role allows everything, whatever it is called."""
    rules = role.get("rules") or ()
    return any(all("*" in (rule.get(key) or ()) for key in ("verbs", "apiGroups", "resources")) for rule in rules)


def wrong_admins(
    bindings: list[Json], expected: ExpectedGuest, powerful: set[str] | frozenset[str] = frozenset({ADMIN_ROLE})
) -> list[Mismatch]:
    """Return who is bound to cluster-admin although the product does not say so, or stands for many.

    Args:
        powerful: roles that allow everything.
    """
    bound = {b["metadata"]["name"]: set(subjects_of(b)) for b in bindings if b["roleRef"]["name"] in powerful}
    every = {subject for subjects in bound.values() for subject in subjects}
    if MASTERS not in every:  # the API server's own, made at every start
        return [Mismatch("ClusterRoleBindings", f"{MASTERS} bound to {ADMIN_ROLE}", "no such binding")]
    cluster_admins = expected.leaves.cluster_admins
    mismatches = (
        []
        if cluster_admins is None
        else same_set("ClusterRoleBindings", f"{ADMIN_ROLE} for", cluster_admins, every & set(cluster_admins))
    )
    for name, subjects in sorted(bound.items()):
        strangers = sorted(
            subject
            for subject in subjects
            if (subject not in cluster_admins if cluster_admins is not None else _many(subject))
        )
        mismatches += (
            differs(
                f"ClusterRoleBinding {name}",
                f"{ADMIN_ROLE} for nobody else than",
                sorted(cluster_admins or ()),
                strangers,
            )
            if strangers
            else []
        )
    return mismatches


def _many(subject: str) -> bool:
    accounts = subject.startswith((f"Group {ACCOUNTS}", "Group system:bootstrappers"))
    return subject in MANY or accounts or (subject.startswith("ServiceAccount ") and subject.endswith("/default"))


APPS, DISCOVERY = "apps", "discovery.k8s.io"
TOKEN_GROUP = "system:bootstrappers:kubeadm:default-node-token"  # noqa: S105 - the name of a group
# The API server's own roles ("Using RBAC Authorization", core component and controller roles) and kubeadm's ("kubeadm
# init phase bootstrap-token", "kubeadm init phase upload-config"): of each account, what nothing works without.
COMPONENTS: Mapping[str, tuple[ApiRight, ...]] = {
    "system:kube-scheduler": (ApiRight("create", "", "pods/binding"), ApiRight("list", "", "nodes")),
    "system:kube-controller-manager": (
        ApiRight("create", "", "serviceaccounts/token", SYSTEM),
        ApiRight("list", "", "pods"),
    ),
}
CONTROLLERS: Mapping[str, ApiRight] = {
    "attachdetach-controller": ApiRight("patch", "", "nodes/status"),
    "certificate-controller": ApiRight("update", CSR, "certificatesigningrequests/status"),
    "cronjob-controller": ApiRight("create", "batch", "jobs"),
    "daemon-set-controller": ApiRight("create", "", "pods"),
    "deployment-controller": ApiRight("create", APPS, "replicasets"),
    "disruption-controller": ApiRight("update", "policy", "poddisruptionbudgets/status"),
    "endpointslice-controller": ApiRight("create", DISCOVERY, "endpointslices"),
    "endpointslicemirroring-controller": ApiRight("create", DISCOVERY, "endpointslices"),
    "generic-garbage-collector": ApiRight("delete", "", "pods"),
    "job-controller": ApiRight("create", "", "pods"),
    "namespace-controller": ApiRight("delete", "", "namespaces"),
    "node-controller": ApiRight("update", "", "nodes"),
    "persistent-volume-binder": ApiRight("update", "", "persistentvolumes"),
    "pod-garbage-collector": ApiRight("delete", "", "pods"),
    "pv-protection-controller": ApiRight("update", "", "persistentvolumes"),
    "pvc-protection-controller": ApiRight("update", "", "persistentvolumeclaims"),
    "replicaset-controller": ApiRight("create", "", "pods"),
    "root-ca-cert-publisher": ApiRight("create", "", "configmaps"),
    "service-account-controller": ApiRight("create", "", "serviceaccounts"),
    "statefulset-controller": ApiRight("create", "", "pods"),
    "token-cleaner": ApiRight("delete", "", "secrets", SYSTEM),
}
LOOKING = (ApiRight("list", "", "services"), ApiRight("list", DISCOVERY, "endpointslices"))
JOINING = (
    ApiRight("create", CSR, "certificatesigningrequests"),
    ApiRight("create", CSR, "certificatesigningrequests/nodeclient"),
    ApiRight("get", "", "configmaps", SYSTEM, "kubeadm-config"),
    ApiRight("get", "", "configmaps", SYSTEM, "kubelet-config"),
    ApiRight("get", "", "nodes"),
)
RENEWING = (
    ApiRight("create", CSR, "certificatesigningrequests/selfnodeclient"),
    ApiRight("get", "", "configmaps", SYSTEM, "kubeadm-config"),
)
READING = (ApiRight("get", "", "configmaps", "kube-public", "cluster-info"),)


def lost_rights(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what Kubernetes' own accounts, and machines, may not do although they have to."""
    if expected.leaves.kubeadm is None:
        why = "product.yml does not say that kubeadm made the cluster (kubeadm)"
        return [unjudged("the rights of Kubernetes' own accounts", why, whole=True)]
    return [
        Mismatch(where, f"the right to {right}", "refused")
        for where, (user, groups, rights) in _accounts(expected).items()
        for right in rights
        if not reviewed(api, right, user, groups)
    ]


def _accounts(expected: ExpectedGuest) -> dict[str, tuple[str, tuple[str, ...], tuple[ApiRight, ...]]]:
    """Return who is asked about: user, groups and rights, by the name that findings have."""
    accounts_by_name: dict[str, tuple[str, tuple[str, ...], tuple[ApiRight, ...]]]
    accounts_by_name = {user: (user, (AUTHENTICATED,), rights) for user, rights in COMPONENTS.items()}
    accounts = {**{name: (right,) for name, right in CONTROLLERS.items()}, "coredns": LOOKING}
    accounts |= {"kube-proxy": LOOKING} if expected.kube_proxy_mode in PROXY_MODES else {}
    for name, rights in accounts.items():
        user = f"system:serviceaccount:{SYSTEM}:{name}"
        accounts_by_name[user] = (
            user,
            (AUTHENTICATED, "system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}"),
            rights,
        )
    joining = "system:bootstrappers", TOKEN_GROUP, AUTHENTICATED
    accounts_by_name[TOKEN_GROUP] = "system:bootstrap:vmatrix", joining, JOINING
    accounts_by_name["system:nodes"] = f"system:node:{expected.nodes[-1]}", ("system:nodes", AUTHENTICATED), RENEWING
    accounts_by_name["system:anonymous"] = "system:anonymous", ("system:unauthenticated",), READING
    return accounts_by_name


POLICY = "policy"  # folder of the matrix
AGGREGATES = "rbac.authorization.k8s.io/aggregate-to-"  # how labels begin by which a role joins another
Permission = tuple[str, str]  # a verb, and what it is for: RESOURCE.GROUP, or a path of the API
OWN_NAMES = (
    "system:",
    "kubeadm:",
)  # how names begin that nobody else gives (kubernetes.io, "Using RBAC Authorization")
OWN_NAMESPACES = ("kube-public", "kube-node-lease")  # beside those with pods
# What makes an admin of whoever has it: any verb, or those named ("RBAC Good Practices").
DANGEROUS: Mapping[str, frozenset[str]] = {
    "*": frozenset(),
    "secrets": frozenset(),
    "pods": frozenset(("create", "update", "patch", "*")),
    "pods/exec": frozenset(),
    "pods/attach": frozenset(),
    "serviceaccounts/token": frozenset(),
    "nodes": frozenset(("update", "patch", "delete", "*")),
    "nodes/proxy": frozenset(),
    "users": frozenset(),
    "groups": frozenset(),
    "serviceaccounts": frozenset(("impersonate", "*")),
    f"certificatesigningrequests/approval.{CSR}": frozenset(),
    **{f"{kind.plural}.{RBAC}": frozenset() for kind in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)},
}


@dataclass(frozen=True)
class BootstrapRole:
    """A role of kube-apiserver. joins: roles that have its rights, too.  takes: those whose rights it has."""

    rights: frozenset[Permission]
    joins: frozenset[str]
    takes: frozenset[str]


@dataclass(frozen=True)
class BootstrapPolicy:
    """What kube-apiserver of a minor grants by itself: roles and bindings (role, subjects), by KIND NAMESPACE/NAME."""

    roles: Mapping[str, BootstrapRole]
    bindings: Mapping[str, tuple[str, frozenset[str]]]


def bootstrap_policy(minor: str) -> BootstrapPolicy | None:
    """Return the policy of a minor, None where nobody recorded it."""
    folders = (matrix_dir(), packaged_dir() / MATRIX)
    path = next((file for folder in folders if (file := folder / POLICY / f"{minor}.yml").is_file()), None)
    return None if path is None else _policy(path)


@cache
def _policy(path: Path) -> BootstrapPolicy:
    raw: Any = yaml_text.document(read_text(path), path)
    roles = {
        name: BootstrapRole(
            frozenset(permissions(role.get("rules", ()))),
            frozenset(role.get("joins", ())),
            frozenset(role.get("takes", ())),
        )
        for name, role in raw["roles"].items()
    }
    bindings = {name: (binding["role"], frozenset(binding["subjects"])) for name, binding in raw["bindings"].items()}
    return BootstrapPolicy(roles, bindings)


@dataclass(frozen=True)
class Rights:
    """Roles and bindings of a guest, by KIND NAMESPACE/NAME."""

    roles: Mapping[str, Json]
    bindings: Mapping[str, Json]


def rights_of(api: Cluster) -> Rights:
    """List roles and bindings once."""
    roles, bindings = (
        {place_of(key_of({"kind": kind.kind, **obj})): obj for kind in kinds for obj in listed(api, kind)}
        for kinds in ((CLUSTER_ROLE, ROLE), (CLUSTER_ROLE_BINDING, ROLE_BINDING))
    )
    return Rights(roles, bindings)


def strange_rights(api: Cluster, expected: ExpectedGuest) -> list[Mismatch]:
    """Return roles and bindings that are not those of the version and the product, and rights that others add."""
    rights, policy = rights_of(api), bootstrap_policy(expected.emulated_minor or expected.minor)
    known = installed(expected)
    if policy is None or expected.kubernetes != upstream_of(expected.kubernetes):
        why = f"nobody recorded what the API server of Kubernetes {expected.kubernetes} grants by itself"
        return [unjudged("roles and bindings of the API server", why, whole=True)]
    all_said = known is not None and not _gated(expected)
    former = _former_rights(expected)
    mismatches = [
        one
        for name, role in policy.roles.items()
        for one in _role(name, role, rights, policy, all_said=all_said, former=former.get(name, frozenset()))
    ]
    mismatches += [
        mismatch for name, binding in policy.bindings.items() for mismatch in _binding(name, binding, rights)
    ]
    if known is None:
        why = "product.yml does not say which the product adds (manifests)"
        return [*mismatches, unjudged("roles and bindings that others add", why)]
    ours = {place_of(key) for key in (*known, *_later_objects(expected))}
    mismatches += strange_objects(api, expected, rights=True)
    mismatches += _other_roles(rights, {*policy.roles, *ours}, policy, expected)
    return [*mismatches, *_other_bindings(rights, {*policy.bindings, *ours}, expected)]


def _later_objects(expected: ExpectedGuest) -> Iterator[Any]:
    """Yield the keys of what a later kubeadm made in a cluster that was taken back; an earlier one removes nothing."""
    if expected.emulated_minor:
        number = int(expected.minor.partition(".")[2])
        for minor in expected.earlier_minors or ():
            if int(minor.partition(".")[2]) > number:
                yield from installed(replace(expected, kubernetes=f"{minor}.0")) or ()


def _gated(expected: ExpectedGuest) -> bool:
    """Tell whether API servers serve what a version does not by default, with rights for it."""
    flags = expected.variables.get("cluster_apiserver_extra_args") or {}
    return bool({"feature-gates", "runtime-config"} & set(flags))


def _former_rights(expected: ExpectedGuest) -> dict[str, frozenset[Permission]]:
    """Return what a cluster's earlier minors granted, by role: API servers add what roles lack, and remove nothing."""
    major, number = expected.minor.split(".")
    minors = expected.earlier_minors
    if minors is None:
        minors = frozenset(f"{major}.{before}" for before in range(int(number)))
    if expected.emulated_minor:  # what no feature decides is granted by the version that emulates another
        minors |= {expected.minor}
    rights_by_role: dict[str, frozenset[Permission]] = {}
    for policy in (bootstrap_policy(minor) for minor in sorted(minors)):
        for name, role in policy.roles.items() if policy is not None else ():
            rights_by_role[name] = rights_by_role.get(name, frozenset()) | role.rights
    return rights_by_role


def _role(
    name: str,
    bootstrap_role: BootstrapRole,
    observed: Rights,
    policy: BootstrapPolicy,
    *,
    all_said: bool,
    former: frozenset[Permission] = frozenset(),
) -> Iterator[Mismatch]:
    """Yield what a role of the version has otherwise.

    Args:
        all_said: whether every right that may be added is known.
        former: what its earlier minors granted, which a cluster that was upgraded keeps.
    """
    there = observed.roles.get(name)
    if there is None:
        yield Mismatch(name, "to exist, as the API server makes it", "none")
        return
    rights = permissions(there.get("rules") or ())
    yield from same_set(name, "aggregation into", bootstrap_role.joins, _joined(there))
    yield from same_set(name, "aggregation of roles that join", bootstrap_role.takes, _taken(there))
    if bootstrap_role.takes:
        sources = {place: source for place, source in observed.roles.items() if bootstrap_role.takes & _joined(source)}
        for place, source in sorted(sources.items()):
            more = permissions(source.get("rules") or ())
            if place not in policy.roles and not all_said and (bad := sorted(filter(_dangerous, more & rights))):
                yield Mismatch(name, "no right that makes an admin", f"{_words(bad)}, by {place}")
        own = {right for source in sources.values() for right in permissions(source.get("rules") or ())}
        strange = rights - own
    else:
        missing, strange = sorted(bootstrap_role.rights - rights), rights - bootstrap_role.rights - former
        if missing:
            yield Mismatch(name, f"the right to {_words(missing)}", "no such right")
        strange = strange if all_said else {right for right in strange if _dangerous(right)}
    if strange:
        yield Mismatch(name, "no other right than the version's", _words(sorted(strange)))


def _joined(role: Json) -> set[str]:
    labels = (role["metadata"].get("labels") or {}).items()
    return {name.removeprefix(AGGREGATES) for name, value in labels if name.startswith(AGGREGATES) and value == "true"}


def _taken(role: Json) -> set[str]:
    """Return which roles a role takes rights of: the labels that it selects, as a text where they are no plain ones."""
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    plain = [selector.get("matchLabels") or {} for selector in selectors]
    if any(
        set(selector) - {"matchLabels"} or len(labels) != 1 for selector, labels in zip(selectors, plain, strict=True)
    ):
        return {str(selectors)}
    return {label.removeprefix(AGGREGATES) for labels in plain for label in labels}


def _dangerous(right: Permission) -> bool:
    verb, place = right
    resource = place.partition(" ")[0]
    verbs = DANGEROUS.get("*" if resource.startswith("*") else resource)
    return verbs is not None and (not verbs or verb in verbs)


def _words(rights: Sequence[Permission], limit: int = 12) -> str:
    """Return rights in words: verbs by what they are for."""
    verbs: dict[str, list[str]] = {}
    for verb, place in rights:
        verbs.setdefault(place, []).append(verb)
    texts = [f"{', '.join(sorted(of))} {place}" for place, of in sorted(verbs.items())]
    return "; ".join([*texts[:limit], *([f"{len(texts) - limit} more"] if len(texts) > limit else [])])


def _binding(name: str, binding: tuple[str, frozenset[str]], observed: Rights) -> Iterator[Mismatch]:
    there = observed.bindings.get(name)
    if there is None:
        yield Mismatch(name, "to exist, as the API server makes it", "none")
        return
    role, subjects = binding
    yield from differs(name, "the role", role, f"{there['roleRef']['kind']} {there['roleRef']['name']}")
    yield from same_set(name, "subjects", subjects, subjects_of(there))


def _other_roles(
    observed: Rights, known: set[str], policy: BootstrapPolicy, expected: ExpectedGuest
) -> Iterator[Mismatch]:
    """Yield roles of nobody whose rights join others', or that look like the system's."""
    taken = {joined for role in policy.roles.values() for joined in role.takes}
    for name, role in sorted(observed.roles.items()):
        if name in known:
            continue
        joins = sorted(_joined(role) & taken)
        rights = _words(sorted(permissions(role.get("rules") or ()))) or "do nothing"
        if joins:
            yield Mismatch(name, f"no role of others that joins {', '.join(joins)}", f"one that may {rights}")
        elif _looks_own(role, expected):
            yield Mismatch(
                name, "no other role with a name, or in a namespace, of the system", f"one that may {rights}"
            )


def _other_bindings(observed: Rights, known: set[str], expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Yield bindings of nobody for Kubernetes' own users, groups and accounts, or that look like the system's."""
    for name, binding in sorted(observed.bindings.items()):
        if name in known:
            continue
        every = sorted(subjects_of(binding))
        if _looks_own(binding, expected) or any(_of_the_system(subject, expected) for subject in every):
            requirement = (
                "no binding of others with a name, in a namespace, or for users, groups and accounts of the system"
            )
            role = f"{binding['roleRef']['kind']} {binding['roleRef']['name']}"
            yield Mismatch(name, requirement, f"{role} for {', '.join(every) or 'nobody'}")


def _looks_own(obj: Json, expected: ExpectedGuest) -> bool:
    meta = obj["metadata"]
    own = meta.get("namespace") in {*(expected.namespaces or ()), *OWN_NAMESPACES}
    return own or str(meta["name"]).startswith(OWN_NAMES)


def _of_the_system(subject: str, expected: ExpectedGuest) -> bool:
    kind, _, name = subject.partition(" ")
    if kind == "ServiceAccount":
        namespace, _, account = name.partition("/")
        return account == "default" or namespace in (expected.namespaces or ())
    return name.startswith(OWN_NAMES)
