"""Rights that a fresh cluster does not grant, and rights that Kubernetes' own accounts have lost, are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Unjudged
from harness.validate.topics.rbac import excessive_rights, lost_rights
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Json
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
