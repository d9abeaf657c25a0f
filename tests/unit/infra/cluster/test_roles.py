"""Rights as roles: every verb once, under its kind."""

from __future__ import annotations

from harness.infra.cluster.rights import Right
from harness.infra.cluster.roles import binding, role, rules
from harness.kube.resources import CRD, EVENT, POD


def test_verbs_of_a_kind_are_one_rule() -> None:
    found = rules(
        [
            Right(POD, ("list", "get"), ""),
            Right(EVENT, ("create",), ""),
            Right(POD, ("get", "watch"), ""),
            Right(POD, ("get",), "", "log"),
            Right(CRD, ("get",), "", names=("a", "b")),
        ]
    )
    assert found == [
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "resourceNames": ["a", "b"],
            "verbs": ["get"],
        },
    ]


def test_a_role_without_a_namespace_is_one_of_the_cluster() -> None:
    near = role("r", [], "ns", {"a": "b"})
    assert (near["kind"], near["metadata"]) == ("Role", {"name": "r", "labels": {"a": "b"}, "namespace": "ns"})
    wide = role("r", [], None, {})
    assert (wide["kind"], wide["metadata"].get("namespace")) == ("ClusterRole", None)


def test_a_binding_is_of_its_roles_kind_and_names_accounts_of_one_namespace() -> None:
    near, wide = binding("b", "r", ["x", "y"], "home", "ns", {}), binding("b", "r", ["x"], "home", None, {})
    assert (near["kind"], near["roleRef"]["kind"], near["metadata"]["namespace"]) == ("RoleBinding", "Role", "ns")
    assert (wide["kind"], wide["roleRef"]["kind"]) == ("ClusterRoleBinding", "ClusterRole")
    assert [(one["name"], one["namespace"]) for one in near["subjects"]] == [("x", "home"), ("y", "home")]
