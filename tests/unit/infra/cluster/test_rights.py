"""deploy/'s roles are the list of rights, no more and no less; deploy/ fits together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.infra.cluster import rights
from harness.infra.cluster.rights import Right, binding, role, rules
from harness.kube.resources import CRD, EVENT, POD
from harness.paths import project_dir

Json = dict[str, Any]
Rule = tuple[str, str, str, str]  # API group, kind (and subresource), verb, object's name ("" for all)
DEPLOY = project_dir() / "deploy"
CELLS = DEPLOY / "rbac" / "namespace-per-cell"
ROLES = [
    (CELLS / "jobs.yml", rights.JOBS),
    (CELLS / "cell.yml", rights.CELL),
    (CELLS / "images.yml", rights.IMAGES),
    (CELLS / "snapshots.yml", rights.SNAPSHOTS),
    (CELLS / "schedule.yml", rights.SCHEDULE),
    (CELLS / "survey.yml", rights.SURVEY),
    (CELLS / "look.yml", rights.LOOK),
    (DEPLOY / "rbac" / "given-namespace" / "role.yml", rights.SHARED),
    (DEPLOY / "rbac" / "given-namespace" / "snapshots.yml", rights.SNAPSHOTS),
    (DEPLOY / "reaper" / "role.yml", rights.REAP),
]


def objects(path: Path) -> list[Json]:
    return [obj for obj in yaml.safe_load_all(path.read_text(encoding="utf-8")) if obj]


def allowed(role: Json) -> Iterator[Rule]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield group, resource, verb, name


def needed(list_: Iterable[Right]) -> Iterator[Rule]:
    for right in list_:
        kind = "/".join(part for part in (right.resource.plural, right.subresource) if part)
        for verb in right.verbs:
            for name in right.names or ("",):
                yield right.resource.group, kind, verb, name


@pytest.mark.parametrize(("path", "list_"), ROLES, ids=[role.stem for role, _ in ROLES])
def test_a_role_is_the_list_of_rights(path: Path, list_: tuple[Right, ...]) -> None:
    (role,) = (obj for obj in objects(path) if obj["kind"] in ("Role", "ClusterRole"))
    said, wanted = list(allowed(role)), list(needed(list_))
    assert sorted(said) == sorted(set(said)), "a rule is there twice"
    assert sorted(said) == sorted(wanted)


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.yml")), ids=lambda p: str(p.relative_to(DEPLOY)))
def test_no_role_has_a_wildcard(path: Path) -> None:
    for document in objects(path):
        for rule in document.get("rules", []):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


# Objects to choose instead of others, or that need Secrets and repositories of one's own.
OTHER_SAMPLES = {"named.yml", "kubevirt.yml", "addons.yml", "delivery.yml", "etcd.yml"}
OF_A_CHART = {"values.yml"}  # no objects, but settings for Helm


def below(path: Path, folder: Path) -> list[Path]:
    """Return the folders of a file that lie below another one."""
    return [parent for parent in path.parents if folder in parent.parents]


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("kustomization.yaml")), ids=lambda p: p.parent.name)
def test_a_kustomization_has_every_file_of_its_folder(path: Path) -> None:
    named = set(objects(path)[0]["resources"])
    own = {p for p in path.parent.rglob("*.yml") if not any((f / path.name).exists() for f in below(p, path.parent))}
    files = {p.relative_to(path.parent).as_posix() for p in own}
    assert files - OTHER_SAMPLES - OF_A_CHART == {name for name in named if name.endswith(".yml")}
    assert all((path.parent / name).exists() for name in named)


def test_every_binding_names_a_role_that_is_there() -> None:
    there = {(o["kind"], o["metadata"]["name"]) for p in DEPLOY.rglob("*.yml") for o in objects(p) if "metadata" in o}
    bindings = [o for p in DEPLOY.rglob("*.yml") for o in objects(p) if o.get("kind", "").endswith("RoleBinding")]
    assert bindings
    for each in bindings:
        assert (each["roleRef"]["kind"], each["roleRef"]["name"]) in there
    policies = [o for p in DEPLOY.rglob("*.yml") for o in objects(p) if o.get("kind", "").endswith("PolicyBinding")]
    assert {("ValidatingAdmissionPolicy", p["spec"]["policyName"]) for p in policies} <= there


def test_each_right_says_why() -> None:
    everything = (
        *rights.JOBS,
        *rights.SHARED,
        *rights.CELL,
        *rights.IMAGES,
        *rights.SNAPSHOTS,
        *rights.REAP,
        *rights.SURVEY,
        *rights.LOOK,
        *rights.TRIAL_NAMESPACE,
        *rights.TRIAL,
        *rights.TRIAL_SHARED,
    )
    assert all(right.why and right.verbs for right in everything)


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
