"""When an embedded instance runs pods: if it is told to, if its cells need it, and ever after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness import pressure
from harness.errors import BadInput
from harness.infra.host import processes
from harness.infra.host.layout import InstanceRecord, Layout, boot_id, layout_of, save_record
from harness.infra.host.network import deliveries_of, pulls_of
from harness.infra.host.program import HostConfig, PlainCommand
from harness.infra.pods import MEMORY_MIB, BootDisk
from harness.model import Cell, PlannedMachine
from harness.providers import Opening, named
from harness.providers.embedded import EmbeddedDefinition, EmbeddedProvider
from harness.spec.base import Feature
from harness.spec.settings import Settings

SETTINGS = Settings(infra_name="of-a-test")
PODS: frozenset[Feature] = frozenset({"pods"})


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedDefinition:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = named("embedded")
    assert isinstance(found, EmbeddedDefinition)
    return found


def test_an_instance_runs_pods_only_where_somebody_needs_them(embedded: EmbeddedDefinition) -> None:
    assert not embedded.instance(Opening(SETTINGS)).runs_pods
    assert not embedded.instance(Opening(SETTINGS, needs=frozenset({"internet"}))).runs_pods
    assert embedded.instance(Opening(SETTINGS, needs=frozenset({"pods"}))).runs_pods
    assert embedded.instance(Opening(SETTINGS, choices={"pods": True})).runs_pods


def test_one_that_runs_them_is_repaired_with_them(embedded: EmbeddedDefinition) -> None:
    layout = layout_of(SETTINGS.infra_name, embedded.name)
    save_record(layout, InstanceRecord(SETTINGS.infra_name, 0, "", boot_id(), pods=True))
    assert embedded.instance(Opening(SETTINGS)).runs_pods


def made_with_pods(embedded: EmbeddedDefinition) -> None:
    layout = layout_of(SETTINGS.infra_name, embedded.name)
    save_record(layout, InstanceRecord(SETTINGS.infra_name, 0, "", boot_id(), pods=True))


def test_the_machine_that_runs_pods_is_counted_until_it_runs(
    embedded: EmbeddedDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert embedded.pods_mib(SETTINGS, frozenset()) == 0
    assert embedded.pods_mib(SETTINGS, PODS) == MEMORY_MIB
    made_with_pods(embedded)
    assert embedded.pods_mib(SETTINGS, frozenset()) == MEMORY_MIB, "it is to be started with the instance"
    monkeypatch.setattr(processes, "runs", lambda *_: True)
    assert embedded.pods_mib(SETTINGS, PODS) == 0, "what it uses is not free any more, and its limit is the Node's"


def test_it_takes_memory_from_cells(embedded: EmbeddedDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = PlannedMachine("cp-0", ("control_plane",), 1, 1024, 10, "i")
    cell = Cell("c", {}, "fresh", (), (machine,), {})
    monkeypatch.setattr(pressure, "memory_available_mib", lambda *_: 4096)
    assert (embedded.most_cells([1024], 0), embedded.most_cells([1024], 1536)) == (4, 2)
    short = [f.why for f in embedded.lacking([cell], 4096) if "memory" in f.what]
    assert short == ["5120 MiB are needed, 4096 of them for the machine that runs pods"]
    assert not [f for f in embedded.lacking([cell], 1536) if "memory" in f.what]


def test_doctor_names_it(embedded: EmbeddedDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "memory_available_mib", lambda *_: 2048)
    _, found = embedded.check(SETTINGS, None, pytest.fail)
    assert [f.fatal for f in found if "memory" in f.what] == [False]
    made_with_pods(embedded)
    _, found = embedded.check(SETTINGS, None, pytest.fail)
    assert [(f.fatal, f.why) for f in found if "memory" in f.what] == [
        (True, "3072 MiB are needed, 1536 of them for the machine that runs pods")
    ]


def config(tmp_path: Path) -> HostConfig:
    """Return an instance whose programs do nothing."""
    none = PlainCommand(())
    layout = Layout("unit", tmp_path / "unit")
    return HostConfig(
        layout,
        binaries=lambda _: Path(),
        mirror=lambda _: none,
        registry=lambda _: none,
        publish=lambda _: None,
        prepare=lambda: None,
        prepared=lambda: True,
        deliveries=lambda *_: none,
        pulls=lambda *_: none,
    )


@pytest.fixture
def after(tmp_path: Path) -> dict[str, tuple[str, ...]]:
    """Return what each program waits for before it is started."""
    return {program.name: program.after for program in EmbeddedProvider(config(tmp_path)).programs(0)}


def test_a_program_comes_after_those_that_it_waits_for(after: dict[str, tuple[str, ...]]) -> None:
    names = list(after)
    assert all(names.index(earlier) < names.index(name) for name, waits in after.items() for earlier in waits)


def test_the_embedded_kubevirt_is_loaded_while_the_api_server_starts(after: dict[str, tuple[str, ...]]) -> None:
    assert after["kubevirt"] == after["kube-apiserver"] == ("etcd",)


def test_components_with_roles_are_started_once_the_api_server_has_them(after: dict[str, tuple[str, ...]]) -> None:
    assert after["kube-controller-manager"] == after["kube-scheduler"] == ("kube-apiserver",)


def test_pods_have_a_registry_to_push_to_and_machines_one_to_pull_from(tmp_path: Path) -> None:
    for pods, expected in ((None, 0), (lambda: BootDisk("d", "0"), 1)):
        provider = EmbeddedProvider(config(tmp_path), pods_disk=pods)
        names = [program.name for program in provider.programs(0)]
        assert (names.count("deliveries"), names.count("pulls")) == (expected, expected)


def test_the_registry_of_deliveries_is_told_to_cells_where_there_is_one(
    embedded: EmbeddedDefinition, tmp_path: Path
) -> None:
    layout = layout_of(SETTINGS.infra_name, embedded.name)
    save_record(layout, InstanceRecord(SETTINGS.infra_name, 0, "", boot_id(), pods=True))
    for pods, expected in ((None, ""), (lambda: BootDisk("d", "0"), deliveries_of(0))):
        settings = replace(config(tmp_path), layout=layout)
        provider = EmbeddedProvider(settings, pods_disk=pods)
        assert provider.deliveries() == expected
        assert provider.pulls() == (pulls_of(0) if expected else "")


def nodes_of(provider: EmbeddedProvider) -> list[str]:
    """Return the names of the Nodes that the embedded KubeVirt is told to stand for."""
    part = next(program for program in provider.programs(0) if program.name == "kubevirt")
    command = part.command()
    assert isinstance(command, PlainCommand)
    return [word.removeprefix("--node-name=") for word in command.argv if word.startswith("--node-name=")]


@pytest.mark.parametrize(
    ("made", "asked", "nodes"),
    [
        (None, None, [""]),
        (None, 0, [""]),
        (None, 1, ["", "-worker"]),
        (None, 3, ["", "-worker", "-worker2", "-worker3"]),
        (2, None, ["", "-worker", "-worker2"]),
        (2, 2, ["", "-worker", "-worker2"]),
    ],
)
def test_a_host_stands_for_as_many_nodes_as_the_instance_was_made_with(
    embedded: EmbeddedDefinition, made: int | None, asked: int | None, nodes: list[str]
) -> None:
    if made is not None:
        layout = layout_of(SETTINGS.infra_name, embedded.name)
        save_record(layout, InstanceRecord(SETTINGS.infra_name, 0, "", boot_id(), workers=made))
    provider = embedded.instance(Opening(SETTINGS, choices={"workers": asked}))
    assert nodes_of(provider) == [f"vmatrix-of-a-test{suffix}" for suffix in nodes]
    assert nodes_of(provider.altered(api_flags={})) == nodes_of(provider)


@pytest.mark.parametrize(("made", "asked"), [(0, 2), (2, 0), (2, 1)])
def test_another_number_of_nodes_is_refused(embedded: EmbeddedDefinition, made: int, asked: int) -> None:
    layout = layout_of(SETTINGS.infra_name, embedded.name)
    save_record(layout, InstanceRecord(SETTINGS.infra_name, 0, "", boot_id(), workers=made))
    with pytest.raises(BadInput, match=f"was made with --workers {made}, not {asked}") as refused:
        embedded.instance(Opening(SETTINGS, choices={"workers": asked}))
    assert "infra down" in refused.value.hint


def test_one_from_before_a_reboot_may_become_another(embedded: EmbeddedDefinition) -> None:
    layout = layout_of(SETTINGS.infra_name, embedded.name)
    save_record(layout, InstanceRecord(SETTINGS.infra_name, 0, "", "another-boot", workers=2))
    assert len(nodes_of(embedded.instance(Opening(SETTINGS, choices={"workers": 1})))) == 2
    assert len(nodes_of(embedded.instance(Opening(SETTINGS)))) == 3, "it is made anew as it was"
