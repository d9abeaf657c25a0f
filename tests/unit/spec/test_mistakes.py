"""Each kind of mistake is said at its line, with what is wrong and what would be right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from harness.errors import BadInput
from harness.spec.lines import Location, dotted, parse
from harness.spec.models import FILES
from harness.spec.settings import Settings, load_settings
from tests.unit.spec.conftest import edit, mistakes

# file, what stands there, what is put in its place, path, message
KINDS = {
    "an unknown key: the nearest at that place": (
        *("topologies.yml", "disk: 10Gi}", "disk: 10Gi, memroy: 1Gi}"),
        "topologies.one.machines[0].memroy: unknown key; did you mean memory?",
    ),
    "an unknown key: no hint from elsewhere": (
        *("topologies.yml", "disk: 10Gi}", "disk: 10Gi, suites: 1}"),
        "topologies.one.machines[0].suites: unknown key; known: name, count, groups, cpus, memory, disk",
    ),
    "a missing key": ("scenarios.yml", ", then: it runs", "", "scenarios.fresh.phases[0].then: missing; this key is"),
    "a text without quotes": (
        *("images.yml", 'version: "24.04"', "version: 24.04"),
        "images[1].version: expected a string, got 24.04; put it in quotes",
    ),
    "a text that cannot be": (
        *("topologies.yml", "memory: 2Gi", "memory: 2GB"),
        "topologies.one.machines[0].memory: expected a whole number of Mi or Gi, such as 2Gi, got '2GB'",
    ),
    "a key that cannot be": (
        *("topologies.yml", "  one:", "  One_:"),
        "topologies.One_: expected lower-case letters, digits, '-' and '.', a letter or digit at both ends, got 'One_'",
    ),
    "a number that cannot be": (
        *("timeouts.yml", "golden_image: 600", "golden_image: -1"),
        "timeouts.golden_image: Input should be greater than 0, got -1",
    ),
    "no number": ("timeouts.yml", "clone: 300", "clone: .inf", "timeouts.clone: Input should be a finite number"),
    "a word in place of a number": (
        *("topologies.yml", "count: 1", "count: '1'"),
        "topologies.one.machines[0].count: expected a whole number, got '1'",
    ),
    "a list in place of a mapping": (
        *("product.yml", "{playbook: cluster.yml}", "[cluster.yml]"),
        "product.phases.deploy: expected a mapping with the keys apply, until, read, commit, guest, deleted, i",
    ),
    "a word in place of a list": (
        *("tiers.yml", "suites: [nodes, network]", "suites: nodes"),
        "tiers.all.suites: expected a list, got 'nodes'",
    ),
    "an empty list": (
        "tiers.yml",
        "suites: [nodes, network]",
        "suites: []",
        "tiers.all.suites: expected at least 1",
    ),
    "nothing where a text should be": (
        "axes.yml",
        "label: Version",
        "label:",
        "axes[0].label: expected a string, got nothing",
    ),
    "no date": (
        *("quarantine.yml", "2026-12-31", "soon"),
        "quarantine[0].until: expected a date such as 2027-01-31, got 'soon'",
    ),
    "a number for a date": (
        *("quarantine.yml", "2026-12-31", "0"),
        "quarantine[0].until: expected a date such as 2027-01-31, got 0",
    ),
    "a number in quotes for a date": (
        *("quarantine.yml", "2026-12-31", "'20261231'"),
        "quarantine[0].until: expected a date such as 2027-01-31, got '20261231'",
    ),
    "a source of no kind": (
        *("images.yml", "{kind: build, recipe: debian}", "{recipe: debian}"),
        "images[0].source: missing 'kind'; it determines the other keys",
    ),
    "a condition of no known form: one message": (
        *("constraints.yml", "{not: v1}", "{nor: v1}"),
        "constraints[0].then.version: expected a value, a list of values, {not: values}, {class: classes} or "
        "{not_class: classes}, got a mapping",
    ),
    "an empty condition": (
        *("tiers.yml", "where: {os: {class: [deb, ubu]}}", "where: {os: []}"),
        "tiers.all.where.os: expected a value, a list of values",
    ),
    "a source of an image of no known kind": (
        *("images.yml", "kind: build", "kind: bulid"),
        "images[0].source: unknown 'kind' 'bulid'; expected one of 'build', 'url'",
    ),
    "inside a source: no mark of the union in the path": (
        *("images.yml", "recipe: debian", "recipe: De"),
        "images[0].source.recipe: expected lower-case letters",
    ),
    "an image without a checksum": (
        *("images.yml", ", checksum_url: https://example.org/SUMS", ""),
        "images[1].source: an image by URL needs either `checksum` or `checksum_url`",
    ),
    "the first phase": (
        *("scenarios.yml", "phases:\n      - {phase: deploy", "phases:\n      - {phase: upgrade"),
        "scenarios.fresh.phases: the first phase must be deploy",
    ),
    "machines held back for nobody": (
        *("scenarios.yml", "then: it runs", "then: it runs, hold_back: {node: 1}"),
        "scenarios.fresh.phases: the last phase cannot hold back machines: no later phase would add them",
    ),
    "machines held back for nobody, where there are enough": (
        *("scenarios.yml", "then: it runs", "then: it runs, hold_back_spare: {node: 1}"),
        "would add them; remove `hold_back_spare`",
    ),
    "machines that are needed and spare": (
        *("scenarios.yml", "then: it runs", "then: it runs, remove: {node: 1}, remove_spare: {node: 1}"),
        "scenarios.fresh.phases[0]: counts node both as needed and as spare",
    ),
    "a workload where there is no cluster yet": (
        *("scenarios.yml", "then: it runs", "then: it runs, workload: keeps-answering"),
        "scenarios.fresh.phases[0].workload: no cluster exists before this phase",
    ),
    "a workload where there is no cluster any more": (
        *("scenarios.yml", "then: the new one runs", "then: gone, cluster: false, workload: keeps-answering"),
        "scenarios.upgrade.phases[1].workload: no cluster exists after this phase",
    ),
    "a workload of which nothing can be said": (
        *("scenarios.yml", "then: the new one runs", "then: it runs, workload: keeps"),
        "scenarios.upgrade.phases[1].workload: Input should be 'keeps-answering', got 'keeps'",
    ),
    "a hop that leads nowhere": (
        *("scenarios.yml", "then: the new one runs", "then: it runs, values: {version: minor}, hop: true"),
        "scenarios.upgrade.phases[1].hop: a hop leads to a next phase of the same name, upgrade, and there is none",
    ),
    "a hop without a step": (
        *("scenarios.yml", "then: the new one runs", "then: it runs, hop: true"),
        "scenarios.upgrade.phases[1]: a hop has `values` of its own: those of the step between; add them",
    ),
    "a hop that changes machines": (
        *(
            "scenarios.yml",
            "then: the new one runs",
            "then: it runs, values: {version: minor}, hop: true, lose: {node: 1}",
        ),
        "scenarios.upgrade.phases[1]: a hop changes only values, as some products leave it out; remove lose",
    ),
    "data of a phase that is none before": (
        *("scenarios.yml", "then: the new one runs", "then: it runs, data_of: upgrade"),
        "scenarios.upgrade.phases[1].data_of: unknown earlier phase of the same cluster 'u",
    ),
    "a phase that nobody knows": (
        *("scenarios.yml", "phase: upgrade,", "phase: upgrede,"),
        "scenarios.upgrade.phases[1].phase: unknown phase 'upgrede'; did you mean 'upgrade'?; a phase of your own is ",
    ),
    "a phase of the product that no scenario has": (
        *("product.yml", "upgrade:", "upgrede:"),
        "product.phases.upgrede: no scenario has the phase 'upgrede'; did you mean 'upgrade'?",
    ),
    "a product that cannot deploy": (
        *("product.yml", "deploy: {playbook: cluster.yml}", "reset: {playbook: cluster.yml}"),
        "product.phases: the phase deploy is missing; every scenario begins with it",
    ),
    "a playbook that is not there": (
        *("product.yml", "upgrade.yml", "upgrad.yml"),
        "product.phases.upgrade.playbook: the playbook ",
    ),
    "a phase without its playbook": (
        *("product.yml", "{playbook: upgrade.yml, ", "{"),
        "product.phases.upgrade.playbook: missing; this key is required",
    ),
    "a product of no known kind": (
        *("product.yml", "directory:", "kind: anisble\n  directory:"),
        "product.kind: Input should be 'ansible', 'command' or 'declared', got 'anisble'",
    ),
    "a program for playbooks": (
        *("product.yml", "{playbook: cluster.yml}", "{command: [./x]}"),
        "product.phases.deploy.command: is for products of kind `command`; write `playbook`, or set `kind: command` of",
    ),
    "an environment for playbooks": (
        *("product.yml", "{playbook: cluster.yml}", "{playbook: cluster.yml, environment: {A: b}}"),
        "product.phases.deploy.environment: belongs to kind command; this product is of kind ansible",
    ),
    "a playbook and a program": (
        *("product.yml", "{playbook: cluster.yml}", "{playbook: cluster.yml, command: [./x]}"),
        "product.phases.deploy.command: the phase has `playbook`, too, as the product's kind asks; remove `command`",
    ),
    "a group of machines without a name": (
        *("product.yml", "directory:", "groups: {control_plane: cp, node: w}\n  directory:"),
        "product.groups: lacks etcd, a group of every topology; add `etcd: NAME`, or `etcd: []` without one",
    ),
    "a group of no topology": (
        *("product.yml", "directory:", "groups: {control_plane: cp, etcd: e, nodes: w, node: w}\n  directory:"),
        "product.groups.nodes: Input should be 'control_plane', 'etcd' or 'node', got 'nodes'",
    ),
    "a group that Ansible has": (
        *("product.yml", "directory:", "groups: {control_plane: cp, etcd: e, node: [w, all]}\n  directory:"),
        "product.groups.node[1]: all is a group of Ansible's own",
    ),
    "a group of other machines": (
        *("product.yml", "directory:", "groups: {control_plane: cp, etcd: e, node: etcd}\n  directory:"),
        "product.groups.node: etcd is the name of another group of topologies",
    ),
    "a product that is not there": (
        *("product.yml", "directory: playbooks", "directory: plays"),
        "product.directory: the directory plays does not exist",
    ),
    "a phase's axis": (
        *("scenarios.yml", "{version: minor}", "{vresion: minor}"),
        "scenarios.upgrade.phases[0].values.vresion: unknown axis 'vresion'; did you mean 'version'?",
    ),
    "a phase's word": (
        *("scenarios.yml", "{version: minor}", "{version: [minor, mayor]}"),
        "scenarios.upgrade.phases[0].values.version: unknown word of `before` on axis version 'mayor'; did you mean",
    ),
    "a phase's machines": (
        *("scenarios.yml", "{version: minor}", "{topology: minor}"),
        "scenarios.upgrade.phases[0].values.topology: topology cannot change during a cell's life",
    ),
    "a constraint's axis": (
        *("constraints.yml", "{os: ubu}", "{so: ubu}"),
        "constraints[0].if.so: unknown axis 'so'; known: version, os, topology, scenario",
    ),
    "a constraint's value": (
        *("constraints.yml", "{not: v1}", "{not: [v1, v9]}"),
        "constraints[0].then.version: unknown value of axis version 'v9'; known: v1, v2, v3",
    ),
    "a constraint's class": (
        *("constraints.yml", "{os: ubu}", "{os: {class: ubuntu}}"),
        "constraints[0].if.os: unknown class of axis os 'ubuntu'; did you mean 'ubu'?",
    ),
    "a constraint without effect": (
        *("constraints.yml", "{not: v1}", "{not_class: ['7']}"),
        "constraints[0].then.version: unknown class of axis version '7'; known: 1, 2",
    ),
    "a constraint that allows everything": (
        *("constraints.yml", "{not: v1}", "[v1, v2, v3]"),
        "constraints[0].then: has no effect: it allows every value; remove the constraint",
    ),
    "a constraint that leaves nothing": (
        *("constraints.yml", "{not: v1}", "{not_class: ['1', '2']}"),
        "constraints[0].then.version: allows no value of axis version",
    ),
    "a constraint that never applies": (
        *("constraints.yml", "{os: ubu}", "{scenario: upgrade, version: v1}"),
        "constraints[0].if: can never apply: upgrade starts from an earlier version (minor), which only some values",
    ),
    "a constraint that nothing can satisfy": (
        *("constraints.yml", "then: {version: {not: v1}}", "then: {version: v1, scenario: upgrade}"),
        "constraints[0].then: no cell of its `if` can satisfy it: on here: os ubu needs internet; on there: upgrade "
        "starts from an earlier version",
    ),
    "a tier's axis": ("tiers.yml", "where: {os:", "where: {oss:", "tiers.all.where.oss: unknown axis 'oss'; did you"),
    "a tier's class": (
        *("tiers.yml", "[deb, ubu]", "[deb, ubv]"),
        "tiers.all.where.os: unknown class of axis os 'ubv'; did you mean 'ubu'?",
    ),
    "a tier's axes together": (
        *("tiers.yml", "{strength: 2}", "{strength: 2, together: [{axes: [os, vers, topology], strength: 3}]}"),
        "tiers.all.cover.together[0].axes[1]: unknown axis 'vers'; did you mean 'version'?",
    ),
    "too few axes together": (
        *("tiers.yml", "{strength: 2}", "{strength: 2, together: [{axes: [os, version], strength: 3}]}"),
        "tiers.all.cover.together[0]: strength 3 is more than the number of axes (2)",
    ),
    "more strength than axes": (
        *("tiers.yml", "{strength: 2}", "{strength: 5}"),
        "tiers.all.cover.strength: strength 5 is more than the number of axes (4)",
    ),
    "a tier that leaves no cell": (
        *("tiers.yml", "where: {os: {class: [deb, ubu]}}", "where: {version: v1, scenario: upgrade}"),
        "tiers.all.where: no cell can be planned: upgrade starts from an earlier version",
    ),
    "a tier without cells": ("tiers.yml", "    cover: {strength: 2}\n", "", "tiers.all: has no cells; add `pinned`"),
    "a suite": (
        *("tiers.yml", "[nodes, network]", "[nodes, netwrok]"),
        "tiers.all.suites[1]: unknown suite (a folder of tests/cells or of checks/) 'netwrok'; did you mean 'network'?",
    ),
    "a pinned value": (
        *("tiers.yml", "topology: two", "topology: tow"),
        "tiers.smoke.pinned[0].topology: unknown value of axis topology 'tow'; did you mean 'two'?",
    ),
    "a pinned cell that is not whole": (
        *("tiers.yml", ", topology: two, scenario: fresh", ""),
        "tiers.smoke.pinned[0]: missing values for topology, scenario; a pinned cell has one on every axis",
    ),
    "a pinned cell that breaks a rule": (
        *("tiers.yml", "{version: v2, os: deb", "{version: v1, os: ubu"),
        "tiers.smoke.pinned[0]: the cell breaks a rule: v1 does not install on Ubuntu; change one of its values",
    ),
    "a pinned cell twice": (
        *("tiers.yml", "fresh}\n", "fresh}\n      - {scenario: fresh, version: v2, os: deb, topology: two}\n"),
        "tiers.smoke.pinned: 2 cells for here, the tier's budget is 1; raise it, or pin fewer",
    ),
    "a pinned cell that is too large": (
        *("tiers.yml", "machines: 2, minutes: 5", "machines: 1, minutes: 5"),
        "tiers.smoke.pinned[0]: the cell needs 2 machines, the tier's budget is 1",
    ),
    "a topology that nobody defined": (
        *("axes.yml", "{id: two, slug: t2", "{id: tow, slug: t2"),
        "axes[2].values[1].id: unknown topology (topologies.yml) 'tow'; did you mean 'two'?",
    ),
    "a scenario that nobody defined": (
        *("axes.yml", "{id: fresh,", "{id: fersh,"),
        "axes[3].values[0].id: unknown scenario (scenarios.yml) 'fersh'; did you mean 'fresh'?",
    ),
    "an image that nobody defined": (
        *("axes.yml", "image: debian", "image: debain"),
        "axes[1].values[0].image: unknown disk image (images.yml) 'debain'; did you mean 'debian'?",
    ),
    "an operating system without an image": (
        *("axes.yml", ", image: debian", ""),
        "axes[1].values[0]: missing `image`",
    ),
    "a default that is not a value": (
        *("axes.yml", "  - name: topology\n", "  - name: topology\n    default: tow\n"),
        "axes[2].default: unknown value of axis topology 'tow'; did you mean 'two'?",
    ),
    "an axis that every cell needs": ("axes.yml", "name: os", "name: so", "axes: the axis 'os' is missing"),
    "two axes of one name": ("axes.yml", "name: version", "name: os", "axes[1].name: duplicate axis 'os'"),
    "two values of one id": ("axes.yml", "id: v2", "id: v1", "axes[0].values[1].id: duplicate value 'v1'"),
    "two slugs": (
        *("axes.yml", "slug: t2", "slug: t1"),
        "axes[2].values[1].slug: slug 't1' is already used by 'one'; slugs must be unique",
    ),
    "a slug that is another's id": (
        *("axes.yml", "id: ubu,", "id: ubu, slug: deb,"),
        "axes[1].values[1].slug: slug 'deb' is already used by 'deb'",
    ),
    "two axes give one variable": (
        *("axes.yml", "class: deb,", "class: deb, vars: {product_version: x},"),
        "axes[1].values[0].vars.product_version: axis version also sets product_version; only one axis may",
    ),
    "an earlier value that nobody defined": (
        *("axes.yml", "patch: v2}", "patch: v8}"),
        "axes[0].values[2].before.patch: unknown value of axis version 'v8'; known: v1, v2, v3",
    ),
    "a circle of earlier values": (
        *("axes.yml", "{id: v1,", "{id: v1, before: {minor: v3},"),
        "axes[0].values[0].before: forms a cycle: v1 <- v3 <- v2 <- v1; remove one of these",
    ),
    "a value that nothing can run": (
        *("axes.yml", "needs: [internet]", "needs: [vm-kernel]"),
        "axes[1].values[1].id: no cell can have ubu: os ubu needs vm-kernel; change that, or remove the value",
    ),
    "a value that no rule leaves": (
        *("constraints.yml", "then: {version: {not: v1}}", "then: {os: deb}"),
        "axes[1].values[1].id: no cell can have ubu: on here: os ubu needs internet; on there: v1 does not install on "
        "Ubuntu; change that, or remove the value",
    ),
    "a scenario that no topology is large enough for": (
        *("scenarios.yml", "then: the new one runs", "then: the new one runs, remove: {node: 1}"),
        "axes[3].values[1].id: no cell can have upgrade: upgrade needs a topology with more machines",
    ),
    "support that ends before it begins": (
        *("axes.yml", "until: 2027-06-30", "until: 2025-06-30"),
        "axes[0].values[2].support: `until` (2025-06-30) is before `from` (2026-01-01)",
    ),
    "two machines of one name": (
        *("topologies.yml", "{name: w,", "{name: cp,"),
        "topologies.two.machines[1].name: duplicate machine 'cp'",
    ),
    "a topology without a worker": (
        *("topologies.yml", "[control_plane, etcd, node]", "[control_plane, etcd]"),
        "topologies.one: no machine is in the group node; every cluster needs all of them",
    ),
    "two images of one name": (
        "images.yml",
        "name: ubuntu",
        "name: debian",
        "image names must be unique; duplicates: debian",
    ),
    "quarantine without an issue": (
        *("quarantine.yml", "issue: https://example.org/issues/1, ", ""),
        "quarantine[0].issue: missing; this key is required",
    ),
    "quarantine past its day": (
        *("quarantine.yml", "2026-12-31", "2026-11-20"),
        "quarantine[0].until: expired on 2026-11-20; remove the entry, or set a later `until` "
        "(https://example.org/issues/1)",
    ),
    "quarantine for ever": (
        *("quarantine.yml", "2026-12-31", "2027-12-31"),
        "quarantine[0].until: 2027-12-31 is more than 90 days away; use 2027-02-19 or earlier",
    ),
    "quarantine of no known suite": (
        *("quarantine.yml", "network: test", "netwrk: test"),
        "quarantine[0].check: unknown suite (a folder of tests/cells or of checks/) 'netwrk'; did you mean 'network'?",
    ),
    "a duplicate key": ("product.yml", "  name: the", "  name: x\n  name: the", "product.name: duplicate key; "),
    "a merge key": (
        "product.yml",
        "{playbook: cluster.yml}",
        "{<<: {playbook: c}, playbook: cluster.yml}",
        "merge keys",
    ),
    "malformed YAML": ("product.yml", "upgrade.yml,", "upgrade.yml, [", "malformed YAML: "),
}


@pytest.mark.parametrize(("file", "old", "new", "said"), KINDS.values(), ids=KINDS.keys())
def test_a_mistake_is_said_at_its_line(matrix: Path, file: str, old: str, new: str, said: str) -> None:
    edit(matrix / file, old, new)
    found = mistakes(matrix)
    named = [line for line in found if said in line]
    assert len(named) == 1, found
    where, line, _ = named[0].split(":", 2)
    assert where == ("axes.yml" if said.startswith("axes") else file)
    assert 1 <= int(line) <= len((matrix / where).read_text(encoding="utf-8").splitlines())


def test_the_small_matrix_has_no_mistake(matrix: Path) -> None:
    assert mistakes(matrix) == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("topologies.yml", "memory: 1Gi", "memroy: 1Gi"),
        ("constraints.yml", "{not: v1}", "{nor: v1}"),
        ("axes.yml", "image: ubuntu", "image: ubunto"),
        ("tiers.yml", "topology: two", "topology: tow"),
    ],
)
def test_the_line_is_that_of_the_mistake(matrix: Path, file: str, old: str, new: str) -> None:
    line = edit(matrix / file, old, new)
    assert mistakes(matrix)[0].startswith(f"{file}:{line}: ")


def test_mistakes_in_all_files_come_at_once(matrix: Path) -> None:
    """Of every kind: of form, of reference, of sense and of time, in files that have others as well."""
    edit(matrix / "axes.yml", "label: one,", "lable: one,")
    edit(matrix / "axes.yml", "image: debian", "image: debain")
    edit(matrix / "axes.yml", "until: 2027-06-30", "until: 2026-06-30")
    edit(matrix / "scenarios.yml", "phase: upgrade", "phase: upgrede")
    edit(matrix / "tiers.yml", "topology: two", "topology: tow")
    edit(matrix / "tiers.yml", "label: pairs", "labl: pairs")
    edit(matrix / "timeouts.yml", "clone: 300", "clone: never")
    edit(matrix / "constraints.yml", "{os: ubu}", "{so: ubu}")
    edit(matrix / "quarantine.yml", "2026-12-31", "2026-01-31")
    edit(matrix / "topologies.yml", "memory: 2Gi", "memory: lots")
    edit(matrix / "product.yml", "cluster.yml", "cluter.yml")
    edit(matrix / "images.yml", "2029-05-31", "2025-05-31")
    said = "\n".join(mistakes(matrix))
    for wanted in (
        *("lable", "'debain'", "since 2026-06-30", "'upgrede'", "'tow'", "labl:", "timeouts.clone", "'so'"),
        *("expired on 2026-01-31", "'lots'", "cluter.yml does not exist", "since 2025-05-31"),
    ):
        assert wanted in said


def test_a_mistake_in_a_value_does_not_make_references_to_it_wrong(matrix: Path) -> None:
    edit(matrix / "axes.yml", "{id: v2, label: two,", "{id: v2,")
    assert mistakes(matrix) == ["axes.yml:6: axes[0].values[1].label: missing; this key is required"]


def test_an_unreadable_file_is_one_mistake(matrix: Path) -> None:
    (matrix / "topologies.yml").write_text("topologies: [}", encoding="utf-8")
    (said,) = mistakes(matrix)
    assert said.startswith("topologies.yml:1: malformed YAML")


def test_a_link_that_leads_nowhere_is_one_mistake(matrix: Path) -> None:
    (matrix / "axes.yml").unlink()
    (matrix / "axes.yml").symlink_to("nowhere.yml")
    assert mistakes(matrix) == ["axes.yml:1: the file does not exist"]


def texts_of(kind: Any, at: Location = ()) -> Iterator[Location]:
    """Yield every place below a type at which a text or a path may stand; the place of an entry or a key is the 0th."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield from texts_of(field.annotation, (*at, field.alias or name))
    elif isinstance(kind, type) and issubclass(kind, str | Path):
        yield at
    elif get_origin(kind) is dict:
        yield from texts_of(get_args(kind)[1], (*at, "x"))
    else:
        inner = 0 if get_origin(kind) in (tuple, list) else None
        for each in get_args(kind):
            yield from texts_of(each, at if inner is None else (*at, inner))


def holding(at: Location, text: str) -> Any:
    """Return plain data with a text at a place."""
    for step in reversed(at):
        text = {step: text} if isinstance(step, str) else [text]  # type: ignore[assignment]
    return text


NUL = "a\0b"
PRODUCT_TEXTS = sorted({*texts_of(FILES["product.yml"]), ("product", "vars", "x")}, key=str)
UNUSABLE = "it contains a control character, NUL, which no path, argument or variable of a program can have; remove it"


def test_the_texts_of_a_product_are_known() -> None:
    """The walk finds what becomes a path, an argument or the environment, at every depth."""
    phase = ("product", "phases", "x")
    assert {
        ("product", "directory"),
        ("product", "ansible", "args", 0),
        ("product", "artifacts", "images", 0, "archive"),
        (*phase, "command", 0),
        (*phase, "environment", "x"),
        (*phase, "paths", 0),
    } <= set(PRODUCT_TEXTS)


@pytest.mark.parametrize("at", PRODUCT_TEXTS, ids=dotted)
def test_a_text_of_a_product_that_no_program_can_be_given(at: Location) -> None:
    document, problems = parse(Path("product.yml"), f"# ours\n{json.dumps(holding(at, NUL))}\n")
    assert [str(problem) for problem in problems] == [f"product.yml:2: {dotted(at)}: {UNUSABLE}"]
    assert document.content is None, "no check is given it"


@pytest.mark.parametrize("key", ["directory", "without_effect", "sources", "ansible", "artifacts", "phases"])
def test_a_text_that_no_program_can_be_given_is_one_mistake(matrix: Path, key: str) -> None:
    at = next(place for place in PRODUCT_TEXTS if place[1] == key)
    (matrix / "product.yml").write_text(json.dumps(holding(at, NUL)), encoding="utf-8")
    assert mistakes(matrix) == [f"product.yml:1: {dotted(at)}: {UNUSABLE}"]


def test_a_key_that_no_program_can_be_given(matrix: Path) -> None:
    (matrix / "product.yml").write_text('product:\n  vars: {"a\\0": 1}\n', encoding="utf-8")
    assert mistakes(matrix) == [f"product.yml:2: product.vars.'a\\x00': {UNUSABLE}"]


def test_half_of_a_character_is_no_text(matrix: Path) -> None:
    """Parsers differ in whether they say so themselves."""
    (matrix / "product.yml").write_text('product:\n  directory: "a\\ud800b"\n', encoding="utf-8")
    (said,) = mistakes(matrix)
    assert said.startswith("product.yml:2: ")


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_that_no_program_can_be_given(tmp_path: Path, name: str) -> None:
    (tmp_path / "vmatrix.yml").write_text(f'# ours\n{name}: "a\\0b"\n', encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        load_settings(tmp_path, environment={})
    assert refused.value.summary.splitlines()[1:] == [f"{tmp_path}/vmatrix.yml:2: {name}: {UNUSABLE}"]
