"""Rights that a fresh cluster does not grant, and rights that Kubernetes' own accounts have lost, are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Unjudged
from harness.validate.topics.rbac import (
    _binding,
    _dangerous,
    _role,
    bootstrap_policy,
    excessive_rights,
    lost_rights,
    rights_of,
    strange_rights,
)
from tests.unit.validate import foreign, guests, installed
from tests.unit.validate.guests import Json
from tests.unit.validate.installed import InstalledApi
from tests.unit.validate.kept import KeptApi, Objects, is_self


def bound(kind: str, name: str, namespace: str = "") -> KeptApi:
    """Return the API of a guest that binds somebody else to cluster-admin."""
    subject = {"kind": kind, "name": name, **({"namespace": namespace} if namespace else {})}

    def bind(objects: Objects) -> None:
        role = {"kind": "ClusterRole", "name": "cluster-admin"}
        objects["clusterrolebindings"].append({"metadata": {"name": "bad"}, "roleRef": role, "subjects": [subject]})

    return KeptApi(bind)


def test_a_fresh_cluster_passes_whatever_its_product_says() -> None:
    assert excessive_rights(KeptApi(), guests.expected()) == []
    assert excessive_rights(KeptApi(), foreign.expected(foreign.UNSAID)) == []


@pytest.mark.parametrize(
    "group", ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
)
def test_a_right_by_a_group_is_found(group: str) -> None:
    def allowed(spec: Json) -> bool:
        return is_self(spec) or group in spec["groups"]

    found = excessive_rights(KeptApi(allowed=allowed), guests.expected())
    assert "system:serviceaccount:kube-system:default: expected no right to list secrets; saw allowed" in map(
        str, found
    )


def test_an_admin_who_may_not_do_all_is_found() -> None:
    found = excessive_rights(KeptApi(allowed=lambda _: False), guests.expected())
    assert [one.where for one in found] == ["the admin"]


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [
        ("Group", "system:serviceaccounts", ""),
        ("Group", "system:authenticated", ""),
        ("User", "system:anonymous", ""),
        ("ServiceAccount", "default", "kube-system"),
    ],
)
@pytest.mark.parametrize("wanted", [guests.expected(), foreign.expected(foreign.UNSAID)], ids=["ours", "unsaid"])
def test_an_admin_who_stands_for_many_is_found(kind: str, name: str, namespace: str, wanted: ExpectedGuest) -> None:
    found = excessive_rights(bound(kind, name, namespace), wanted)
    assert [one.where for one in found] == ["ClusterRoleBinding bad"]
    assert name in found[0].seen


def test_an_admin_of_its_own_is_wrong_only_where_the_product_names_all() -> None:
    api = bound("ServiceAccount", "deployer", "tools")
    assert [one.seen for one in excessive_rights(api, guests.expected())] == ["['ServiceAccount tools/deployer']"]
    assert excessive_rights(api, foreign.expected(foreign.UNSAID)) == []


def test_a_cluster_that_shows_no_admins_proves_nothing() -> None:
    found = excessive_rights(KeptApi(lambda objects: objects["clusterrolebindings"].clear()), guests.expected())
    assert [one.seen for one in found] == ["no such binding"]


def test_a_role_with_all_rights_is_one_of_an_admin_whatever_it_is_called() -> None:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}

    def bind(objects: Objects) -> None:
        objects["clusterroles"] = [{"metadata": {"name": "innocent"}, "rules": [everything]}]
        role = {"kind": "ClusterRole", "name": "innocent"}
        subjects = [{"kind": "User", "name": "mallory"}]
        objects["clusterrolebindings"].append({"metadata": {"name": "bad"}, "roleRef": role, "subjects": subjects})

    assert [one.seen for one in excessive_rights(KeptApi(bind), guests.expected())] == ["['User mallory']"]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        (
            {"verb": "list", "group": "", "resource": "secrets", "namespace": "kube-system"},
            "list secrets in kube-system",
        ),
        ({"verb": "impersonate", "group": "", "resource": "users"}, "impersonate users"),
        ({"verb": "get", "group": "", "resource": "nodes", "subresource": "proxy"}, "get nodes/proxy"),
    ],
)
def test_a_right_that_makes_an_admin_is_found(attributes: Json, words: str) -> None:
    def allowed(spec: Json) -> bool:
        return is_self(spec) or (spec["user"] == "system:anonymous" and spec["resourceAttributes"] == attributes)

    (found,) = excessive_rights(KeptApi(allowed=allowed), guests.expected())
    assert str(found) == f"system:anonymous: expected no right to {words}; saw allowed"


def test_an_admin_that_the_product_names_is_missed() -> None:
    def unbind(objects: Objects) -> None:
        objects["clusterrolebindings"][:] = [b for b in objects["clusterrolebindings"] if "admins" not in str(b)]

    found = excessive_rights(KeptApi(unbind), guests.expected())
    assert [one.seen for one in found] == ["no Group kubeadm:cluster-admins"]


def test_a_fresh_cluster_passes() -> None:
    api = KeptApi(allowed=lambda _: True)
    assert lost_rights(api, guests.expected()) == []
    users = {spec["user"] for spec in api.reviews}
    assert {"system:kube-scheduler", "system:serviceaccount:kube-system:kube-proxy", "system:node:w-0"} <= users


@pytest.mark.parametrize(
    ("user", "resource", "words"),
    [
        ("system:kube-scheduler", "pods", "system:kube-scheduler: expected the right to create pods/binding"),
        (
            "system:serviceaccount:kube-system:endpointslice-controller",
            "endpointslices",
            "endpointslice-controller: expected the right to create endpointslices; saw refused",
        ),
        ("system:anonymous", "configmaps", "expected the right to get configmaps cluster-info in kube-public"),
        ("system:bootstrap:vmatrix", "nodes", "system:bootstrappers:kubeadm:default-node-token: expected the right to"),
        ("system:node:w-0", "certificatesigningrequests", "system:nodes: expected the right to create certificates"),
    ],
)
def test_a_lost_right_is_found(user: str, resource: str, words: str) -> None:
    def allowed(spec: Json) -> bool:
        return (spec["user"], spec["resourceAttributes"]["resource"]) != (user, resource)

    (found,) = lost_rights(KeptApi(allowed=allowed), guests.expected())
    assert words in str(found)


def test_a_cluster_without_kube_proxy_has_no_such_account() -> None:
    api = KeptApi(allowed=lambda _: True)
    assert lost_rights(api, replace(guests.expected(), kube_proxy_mode="none")) == []
    assert not any("kube-proxy" in spec["user"] for spec in api.reviews)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = lost_rights(KeptApi(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


ADDED = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}
POLICY = bootstrap_policy("1.36")
assert POLICY is not None
ROLES, BINDINGS = sorted(POLICY.roles), sorted(POLICY.bindings)
PLURALS = {
    "ClusterRole": "clusterroles",
    "Role": "roles",
    "ClusterRoleBinding": "clusterrolebindings",
    "RoleBinding": "rolebindings",
}


def place(objects: Objects, name: str) -> tuple[list[Json], Json]:
    """Return the list that an object is in, and the object."""
    kind, _, full = name.partition(" ")
    namespace, _, bare = full.rpartition("/")
    every = objects[PLURALS[kind]]
    return every, next(
        one for one in every if one["metadata"]["name"] == bare and one["metadata"].get("namespace", "") == namespace
    )


def strange(change: Callable[[Objects], None] = lambda _: None, wanted: ExpectedGuest | None = None) -> list[str]:
    """Return what is said of the recorded roles and bindings, changed."""
    return [str(one) for one in strange_rights(InstalledApi(change), wanted or installed.expected())]


def test_the_roles_and_bindings_of_a_fresh_cluster_pass() -> None:
    assert strange() == []
    found = strange_rights(InstalledApi(), foreign.expected(foreign.SAID))
    assert [type(one) for one in found] == [Unjudged]


BASE = rights_of(InstalledApi())


def judged(name: str, made: Json | None) -> list[str]:
    """Return what is said of one role or binding of the version that is as it was made, or gone."""
    assert POLICY is not None
    part = BASE.roles if name in POLICY.roles else BASE.bindings
    changed = {place: one for place, one in part.items() if place != name} | ({name: made} if made is not None else {})
    if name in POLICY.roles:
        found = _role(name, POLICY.roles[name], replace(BASE, roles=changed), POLICY, all_said=True)
    else:
        found = _binding(name, POLICY.bindings[name], replace(BASE, bindings=changed))
    return [str(one) for one in found]


def test_every_role_and_binding_of_the_version_that_is_gone_is_found() -> None:
    for name in (*ROLES, *BINDINGS):
        assert judged(name, None) == [f"{name}: expected to exist, as the API server makes it; saw none"]


def test_every_right_more_or_less_in_every_role_is_found() -> None:
    assert POLICY is not None
    for name, wanted in POLICY.roles.items():
        one = BASE.roles[name]
        rules = one.get("rules") or []
        more = judged(name, {**one, "rules": [*rules, {"apiGroups": ["x"], "resources": ["y"], "verbs": ["z"]}]})
        assert more == [f"{name}: expected no other right than the version's; saw z y.x"]
        if wanted.rights:
            (less,) = judged(name, {**one, "rules": []})
            assert less.endswith("; saw no such right")


def test_every_other_subject_or_role_of_every_binding_is_found() -> None:
    for name in BINDINGS:
        one = BASE.bindings[name]
        subjects = one.get("subjects") or []
        (more,) = judged(name, {**one, "subjects": [*subjects, {"kind": "Group", "name": "system:other"}]})
        assert more.startswith(name)
        assert "Group system:other" in more
        less = judged(name, {**one, "subjects": subjects[1:]})
        assert ["saw no " in line for line in less] == [True] * bool(subjects)
        (other,) = judged(name, {**one, "roleRef": {"kind": "ClusterRole", "name": "other"}})
        assert "saw 'ClusterRole other'" in other


def role(name: str, *, labels: Json | None = None, namespace: str = "", rules: list[Json] | None = None) -> Json:
    """Return a role that somebody makes."""
    meta = {"name": name, **({"labels": labels} if labels else {}), **({"namespace": namespace} if namespace else {})}
    return {"metadata": meta, "rules": [ADDED] if rules is None else rules}


@pytest.mark.parametrize("into", ["admin", "edit", "view"])
def test_a_right_by_aggregation_is_found_and_its_source_named(into: str) -> None:
    def add(objects: Objects) -> None:
        labels = {f"rbac.authorization.k8s.io/aggregate-to-{into}": "true"}
        objects["clusterroles"].append(role("reads", labels=labels))
        place(objects, f"ClusterRole {into}")[1]["rules"].append(ADDED)

    assert strange(add) == [
        f"ClusterRole reads: expected no role of others that joins {into}; saw one that may get, list secrets"
    ]
    (said, *_) = strange(add, foreign.expected(foreign.SAID))
    assert said == (
        f"ClusterRole {into}: expected no right that makes an admin; saw get, list secrets, by ClusterRole reads"
    )


def test_what_others_products_aggregate_is_theirs_while_it_makes_no_admin() -> None:
    def add(objects: Objects) -> None:
        rules = [{"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["list"]}]
        objects["clusterroles"].append(
            role("reads", labels={"rbac.authorization.k8s.io/aggregate-to-view": "true"}, rules=rules)
        )

    found = strange_rights(InstalledApi(add), foreign.expected(foreign.SAID))
    assert [type(one) for one in found] == [Unjudged]


@pytest.mark.parametrize(
    ("plural", "made"),
    [
        ("clusterroles", role("system:own")),
        ("clusterroles", role("kubeadm:own")),
        ("roles", role("own", namespace="kube-system")),
        ("roles", role("own", namespace="kube-public")),
        ("roles", role("system:own", namespace="default")),
    ],
)
def test_a_role_that_looks_like_the_systems_is_found(plural: str, made: Json) -> None:
    (said,) = strange(lambda objects: objects[plural].append(made))
    assert made["metadata"]["name"] in said
    assert "get, list secrets" in said


def binding(subject: Json, *, name: str = "own", namespace: str = "") -> Json:
    """Return a binding that somebody makes."""
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"metadata": meta, "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [subject]}


ALICE: Json = {"kind": "User", "name": "alice"}


@pytest.mark.parametrize(
    ("plural", "made"),
    [
        *(
            ("clusterrolebindings", binding({"kind": kind, "name": name}))
            for kind, name in (
                ("User", "system:anonymous"),
                ("Group", "system:unauthenticated"),
                ("Group", "system:authenticated"),
                ("Group", "system:masters"),
                ("Group", "system:nodes"),
                ("Group", "system:serviceaccounts"),
                ("Group", "system:serviceaccounts:default"),
                ("Group", "system:bootstrappers"),
                ("Group", "kubeadm:cluster-admins"),
                ("User", "system:kube-scheduler"),
            )
        ),
        *(
            ("clusterrolebindings", binding({"kind": "ServiceAccount", "name": name, "namespace": space}))
            for name, space in (("default", "shop"), ("default", "default"), ("coredns", "kube-system"))
        ),
        ("clusterrolebindings", binding(ALICE, name="system:own")),
        ("rolebindings", binding(ALICE, namespace="kube-system")),
        ("rolebindings", binding({"kind": "Group", "name": "system:authenticated"}, namespace="shop")),
    ],
    ids=str,
)
def test_a_binding_for_the_systems_own_is_found(plural: str, made: Json) -> None:
    (said,) = strange(lambda objects: objects[plural].append(made))
    assert "ClusterRole view for " in said


@pytest.mark.parametrize(
    ("plural", "made"),
    [
        ("clusterrolebindings", binding(ALICE)),
        ("rolebindings", binding({"kind": "ServiceAccount", "name": "builder", "namespace": "shop"}, namespace="shop")),
        ("clusterroles", role("own")),
        ("roles", role("own", namespace="shop")),
    ],
    ids=str,
)
def test_what_users_make_for_users_is_theirs(plural: str, made: Json) -> None:
    assert strange(lambda objects: objects[plural].append(made)) == []


@pytest.mark.parametrize("name", ["ClusterRole view", "ClusterRole system:node"])
def test_an_aggregation_rule_that_takes_more_is_found(name: str) -> None:
    def take(objects: Objects) -> None:
        place(objects, name)[1]["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"any": "one"}}]}

    assert any(line.startswith(name) and "any" in line for line in strange(take))


def test_a_role_that_no_longer_joins_is_found() -> None:
    def part(objects: Objects) -> None:
        place(objects, "ClusterRole system:aggregate-to-view")[1]["metadata"]["labels"] = {}

    said = strange(part)
    assert any("ClusterRole system:aggregate-to-view: expected aggregation into view" in line for line in said)


@pytest.mark.parametrize(
    ("right", "dangerous"),
    [
        (("get", "secrets"), True),
        (("*", "*"), True),
        (("get", "*.*"), True),
        (("create", "pods"), True),
        (("get", "pods"), False),
        (("create", "pods/exec"), True),
        (("create", "serviceaccounts/token"), True),
        (("impersonate", "serviceaccounts"), True),
        (("list", "serviceaccounts"), False),
        (("patch", "nodes"), True),
        (("get", "nodes/proxy"), True),
        (("bind", "clusterroles.rbac.authorization.k8s.io"), True),
        (("update", "certificatesigningrequests/approval.certificates.k8s.io"), True),
        (("list", "pods.metrics.k8s.io"), False),
        (("get", "/metrics"), False),
    ],
)
def test_which_rights_make_an_admin(right: tuple[str, str], dangerous: bool) -> None:
    assert _dangerous(right) is dangerous


@pytest.mark.parametrize("minor", ["1.34", "1.35", "1.36", "1.37"])
def test_every_minor_that_is_deployed_has_its_policy(minor: str) -> None:
    policy = bootstrap_policy(minor)
    assert policy is not None
    assert {"ClusterRole view", "ClusterRole system:node"} <= set(policy.roles)
    assert policy.bindings["ClusterRoleBinding cluster-admin"][1] == {"Group system:masters"}


@pytest.mark.parametrize("version", ["1.31.5+k3s1", "1.33.4-eks-113cf36", "1.31.5", "1.36.3+k3s1"])
def test_a_version_whose_policy_nobody_recorded_is_not_judged(version: str) -> None:
    wanted = replace(installed.expected(), kubernetes=version)
    assert [type(one) for one in strange_rights(InstalledApi(), wanted)] == [Unjudged]


def test_a_feature_that_is_switched_on_may_bring_rights_with_it() -> None:
    def more(objects: Objects) -> None:
        rules = place(objects, "ClusterRole system:kube-scheduler")[1]["rules"]
        rules.append({"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["list"]})

    gates = {"cluster_apiserver_extra_args": {"feature-gates": "GenericWorkload=true"}}
    assert strange(more, installed.expected(gates)) == []
    assert len(strange(more)) == 1


@pytest.mark.parametrize("name", ["expand-controller", "persistent-volume-binder"])
@pytest.mark.parametrize(
    ("earlier", "kept"), [(frozenset(), False), (frozenset({"1.35"}), True), (frozenset({"1.37"}), False), (None, True)]
)
def test_a_right_that_an_earlier_minor_granted_stays_after_an_upgrade(
    name: str, earlier: frozenset[str] | None, kept: bool
) -> None:
    def grant(objects: Objects, resource: str) -> None:
        _, one = place(objects, f"ClusterRole system:controller:{name}")
        one["rules"] = [*one["rules"], {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]

    cluster = replace(installed.expected(), earlier_minors=earlier)
    found = strange(lambda objects: grant(objects, "services"), cluster)  # of 1.35
    assert (found == []) is kept
    assert len(strange(lambda objects: grant(objects, "podtemplates"), cluster)) == 1
