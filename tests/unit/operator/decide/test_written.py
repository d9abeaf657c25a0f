"""Files of ClusterDeployments and Machines: what is read, and what is refused at which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.operator.decide.written import documents_of, judged, names_of

CD = """\
apiVersion: cluster.vmatrix.dev/v1alpha1
kind: ClusterDeployment
metadata: {name: guest}
spec:
  version: "1.36.3"
  source: {mirror: "http://192.0.2.1:8080", registry: "192.0.2.1:5000"}
  machineSets:
    - {name: cp, roles: [control-plane, worker], machines: {pool: {}}}
"""
MACHINE = """\
apiVersion: cluster.vmatrix.dev/v1alpha1
kind: Machine
metadata: {name: m-0}
spec: {address: 192.0.2.10, user: root, keyRef: {name: keys}}
"""
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\n"


def refused(folder: Path, text: str) -> str:
    """Return how a file is refused, without its folder."""
    file = folder / "guest.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        judged(documents_of(file))
    return caught.value.summary.replace(f"{folder}/", "")


def test_a_file_may_hold_objects_of_other_groups(tmp_path: Path) -> None:
    file = tmp_path / "guest.yml"
    file.write_text("---\n".join(("", SECRET, CD, MACHINE, "# nothing\n")), encoding="utf-8")
    deployments, machines = judged(documents_of(file))
    assert [one.metadata.name for one in deployments] == ["guest"]
    assert [one.metadata.name for one in machines] == ["m-0"]


def test_objects_without_a_namespace_get_one(tmp_path: Path) -> None:
    file = tmp_path / "guest.yml"
    file.write_text(f"{CD}---\n{CD.replace('guest}', 'other, namespace: own}')}", encoding="utf-8")
    assert names_of(documents_of(file, "team")) == {"guest": "team", "other": "own"}
    deployments, _ = judged(documents_of(file, "team"))
    assert [one.metadata.namespace for one in deployments] == ["team", "own"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            CD.replace("1.36.3", "1.36.9"),
            "guest.yml:5: spec.version: Kubernetes 1.36.9 is no release that is known: use ",
        ),
        (CD.replace("worker", "werker"), 'guest.yml:8: spec.machineSets[0].roles[1]: Unsupported value: "werker": '),
        (CD.replace("  version:", "  versoin:"), "guest.yml:5: spec.versoin: unknown field: remove it, or correct"),
        (CD.replace("mirror: ", "mirorr: "), "guest.yml:6: spec.source.mirorr: unknown field"),
        (SECRET + "---\n" + CD.replace("1.36.3", "1.36.9"), "guest.yml:9: spec.version: "),
        (CD + "---\n" + MACHINE.replace("user: ", "usr: "), "guest.yml:13: spec.usr: unknown key; did you mean user?"),
        (
            CD + "---\n" + MACHINE.replace("192.0.2.10", "host"),
            "guest.yml:13: spec.address: the address is no IP address",
        ),
        (
            CD.replace("v1alpha1", "v2"),
            "guest.yml:1: apiVersion: unknown version; expected cluster.vmatrix.dev/v1alpha1",
        ),
        (CD.replace("Deployment", "Deploiment"), "guest.yml:2: kind: unknown kind 'ClusterDeploiment'; did you mean"),
        ("kind: ClusterDeployment\n", "guest.yml:1: no apiVersion; expected cluster.vmatrix.dev/v1alpha1"),
        ("- 1\n", "guest.yml:1: expected an object with apiVersion and kind"),
        (CD.replace("metadata: {name: guest}\n", ""), "guest.yml:1: metadata: expected a mapping with the key name"),
        (
            CD.replace("metadata: {name: guest}\n", "metadata: {}\n"),
            "guest.yml:3: metadata.name: Required value: set it",
        ),
        (CD + "---\na: b: c\n", "guest.yml:10: malformed YAML: a colon where no key can stand"),
        (CD + "  version: x\n", "guest.yml:9: spec.version: duplicate key; the first is on line 5"),
        (SECRET, "guest.yml has no ClusterDeployment"),
        ("", "guest.yml has no ClusterDeployment"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_its_field(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path, CD.replace("1.36.3", "1.36.9") + "---\n" + MACHINE.replace("root", "Root"))
    assert said.startswith("2 errors in guest.yml")
    assert "guest.yml:5: spec.version" in said
    assert "guest.yml:13: spec.user" in said


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        documents_of(tmp_path / "none.yml")


def test_some_rules_hold_only_for_a_cluster_that_is_new(tmp_path: Path) -> None:
    two = CD.replace("name: cp,", "name: cp, replicas: 2,")
    assert "two control planes would be two etcd members" in refused(tmp_path, two)
    assert judged(documents_of(tmp_path / "guest.yml"), creating=False)[0]


def _listed(kind: str, *objects: str) -> str:
    """Return objects as `kubectl get -o yaml` prints several."""
    items = "".join("- " + text.rstrip("\n").replace("\n", "\n  ") + "\n" for text in objects)
    return f"apiVersion: v1\nitems:\n{items}kind: {kind}\nmetadata: {{resourceVersion: ''}}\n"


@pytest.mark.parametrize(
    "text",
    [
        _listed("List", CD, MACHINE),
        _listed("List", SECRET, CD, SECRET, MACHINE),
        f"{_listed('ClusterDeploymentList', CD)}---\n{_listed('MachineList', MACHINE)}",
        f"{SECRET}---\n{_listed('List', CD)}---\n{SECRET}---\n{MACHINE}",
        _listed("List", _listed("List", CD), MACHINE),
        f"{_listed('List')}---\n{CD}---\n{MACHINE}",
    ],
)
def test_objects_in_lists_are_those_of_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "guest.yml"
    file.write_text(text, encoding="utf-8")
    deployments, machines = judged(documents_of(file))
    assert [one.metadata.name for one in deployments] == ["guest"]
    assert [one.metadata.name for one in machines] == ["m-0"]


def test_a_mistake_in_a_list_has_its_line(tmp_path: Path) -> None:
    said = refused(tmp_path, _listed("List", SECRET, CD.replace('"1.36.3"', '"1.36"')))
    assert "guest.yml:10: spec.version: " in said
