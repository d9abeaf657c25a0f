"""The registry of providers: one module and one name make a provider, and nobody else compares a provider's name."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
import yaml
from typer.testing import CliRunner

import harness
from harness import providers
from harness.cli import app
from harness.errors import BadInput
from harness.infra.cluster.checks import Use
from harness.infra.findings import Finding
from harness.infra.host.layout import layout_of
from harness.kube.client import Cluster, Infra
from harness.model import Access, Mirror
from harness.providers import Definition, Opening
from harness.providers.kubeconfig import KubeconfigProvider
from harness.spec.project import Project
from harness.spec.settings import Settings

NAMES = frozenset({"embedded", "kind", "kubeconfig", "local"})
CONTEXTS = ("provider", "PROVIDER")


def comparisons(source: str) -> Iterator[int]:
    """Yield the lines on which something that is called a provider is compared with a provider's name."""
    if not any(word in source for word in CONTEXTS):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            named = any(isinstance(leaf, ast.Constant) and leaf.value in NAMES for s in sides for leaf in ast.walk(s))
            if named and any(word in ast.unparse(side) for side in sides for word in CONTEXTS):
                yield node.lineno
        if isinstance(node, ast.Match) and "provider" in ast.unparse(node.subject):
            yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        "if settings.provider == 'kind': pass",
        "below = V if 'embedded' != provider else ''",
        "if provider not in ('local', 'kind'): pass",
        "match settings.provider:\n    case 'kind': pass",
    ],
)
def test_a_comparison_of_a_provider_is_found(line: str) -> None:
    assert list(comparisons(line)) == [1]


def test_what_is_no_comparison_of_a_provider_is_not_found() -> None:
    assert not list(comparisons("made.kubevirt == 'embedded'\nprovider = 'kind'\nproviders.of(settings).per_job == x"))


def test_nobody_outside_the_registry_compares_a_provider_by_name() -> None:
    root = Path(harness.__file__).parent
    files = [file for file in root.rglob("*.py") if "providers" not in file.relative_to(root).parts]
    assert len(files) > 300
    assert [f"{file}:{line}" for file in files for line in comparisons(file.read_text(encoding="utf-8"))] == []


def test_every_provider_that_the_settings_allow_has_a_definition() -> None:
    assert providers.names() == ("embedded", "kind", "kubeconfig")
    assert [providers.named(name).name for name in providers.names()] == list(providers.names())


def test_the_former_name_leads_to_the_same_provider(capsys: pytest.CaptureFixture[str]) -> None:
    assert providers.named("local") is providers.named("embedded")


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(BadInput, match="provider 'moon' does not exist"):
        providers.named("moon")


def test_without_a_provider_the_one_that_has_the_instance_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert providers.holder("x").name == "embedded"
    (tmp_path / "vmatrix" / "kind" / "x").mkdir(parents=True)
    assert providers.holder("x").name == "kind"
    assert providers.holder("x", "embedded").name == "embedded"
    (tmp_path / "vmatrix" / "embedded" / "x").mkdir(parents=True)
    assert providers.holder("x").name == "embedded"


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, []),
        ({"infra_name": "x", "namespace": "ns"}, ["--infra-name", "x", "--namespace", "ns"]),
        ({"provider": "kind", "namespace": "ns"}, ["--provider", "kind", "--namespace", "ns"]),
        (
            {"provider": "kubeconfig", "kubeconfig": Path("/kc"), "namespace": "ns", "infra_name": "x"},
            ["--provider", "kubeconfig", "--kubeconfig", "/kc", "--namespace", "ns"],
        ),
        (
            {"provider": "kubeconfig", "kubeconfig": Path("/kc"), "context": "x"},
            ["--provider", "kubeconfig", "--kubeconfig", "/kc", "--context", "x"],
        ),
        ({"context": "of-another-cluster"}, []),
    ],
)
def test_the_options_name_the_same_infra_cluster_to_another_command(
    given: Mapping[str, Any], options: list[str]
) -> None:
    settings = Settings(**given)
    assert providers.of(settings).options(settings) == options


class TinyProvider(KubeconfigProvider):
    """A cluster that is always up."""

    def up(self) -> None:
        """Have nothing to do."""

    def access(self) -> Access:
        """Return that machines are at hand."""
        return "direct"

    def guest_vars(self) -> Mapping[str, Any]:
        """Return nothing."""
        return {}


class Tiny(Definition):
    """The module of a provider has one of these, as PROVIDER."""

    name = "tiny"

    def open(self, opening: Opening) -> TinyProvider:
        """Return the cluster of the kubeconfig."""
        return TinyProvider(self.infra(opening.settings), Mirror("http://m", "m:5000"))

    def infra(self, settings: Settings) -> Infra:
        """Return the one of the settings."""
        assert settings.kubeconfig is not None
        return Infra(settings.kubeconfig)

    def refuse_unusable(self, settings: Settings) -> None:
        """Refuse nothing."""

    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Find nothing."""
        return "the tiny cluster", []


class WithTiny(Settings):
    """The settings with one name more."""

    provider: Literal["embedded", "kind", "kubeconfig", "tiny"] = "embedded"  # type: ignore[assignment]


def test_a_provider_is_one_module_and_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("harness.providers.tiny")
    module.PROVIDER = Tiny()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(providers, "Settings", WithTiny)
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        ),
        encoding="utf-8",
    )
    settings = WithTiny(provider="tiny", kubeconfig=path, infra_name="i")

    found = providers.of(settings)
    assert found.check(settings, None, Use) == ("the tiny cluster", [])
    assert found.options(settings) == ["--provider", "tiny", "--infra-name", "i"]
    assert found.machines_like(settings) == "tiny"
    assert providers.open_cluster(settings).server == "http://127.0.0.1:9"
    with pytest.raises(BadInput, match="tiny is not brought up"):
        found.instance(Opening(settings))
    site = providers.join_site(Project.load(settings), ())
    assert (site.mirror.registry, site.access, site.infra) == ("m:5000", "direct", Infra(path.absolute()))


@pytest.mark.parametrize("context", [None, "mine", "of-another-kubeconfig"])
@pytest.mark.parametrize("name", providers.names())
def test_a_run_and_a_look_at_it_have_one_cluster_whatever_the_context(
    name: str, context: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = name == "kubeconfig"
    path = tmp_path / "kubeconfig" if own else layout_of("i", name).kubeconfig
    path.parent.mkdir(parents=True, exist_ok=True)
    clusters = [{"name": c, "cluster": {"server": f"http://{c}.test"}} for c in ("current", "mine")]
    contexts = [{"name": c, "context": {"cluster": c}} for c in ("current", "mine")]
    path.write_text(yaml.safe_dump({"clusters": clusters, "contexts": contexts, "current-context": "current"}))
    settings = Settings.model_validate({"provider": name, "kubeconfig": path, "context": context, "infra_name": "i"})
    definition = providers.named(name)
    opened = TinyProvider(Infra(path, context if own else None), Mirror("http://m", "m:5000"))
    monkeypatch.setattr(type(definition), "open", lambda *_: opened)
    monkeypatch.setattr(type(definition), "ground", lambda *_: None)

    def look() -> str:
        return providers.open_cluster(settings).server

    def run() -> str:
        site = providers.join_site(Project.load(settings), ())
        assert site.infra == Infra(path, context if own else None)
        return site.cluster.server

    if own and context == "of-another-kubeconfig":
        for way in (look, run):
            with pytest.raises(BadInput, match="it has no context 'of-another-kubeconfig'"):
                way()
        return
    expected = "http://mine.test" if own and context else "http://current.test"
    assert (look(), run()) == (expected, expected)


COMMANDS = (
    *("status", "reap --all", "login c m", "proxy c m", "kubeconfig c", "kubectl c -- get nodes", "logs c"),
    "check c",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("provider", ["embedded", "kind"])
def test_no_command_takes_the_context_of_another_cluster_to_an_instance(
    provider: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    instance = layout_of("default", provider).kubeconfig
    instance.parent.mkdir(parents=True)
    instance.touch()
    (tmp_path / "vmatrix.yml").write_text(f"provider: {provider}\ncontext: of-another-cluster\n")
    monkeypatch.chdir(tmp_path)
    opened = list[tuple[object, str | None]]()

    def refuse(files: object, *, context: str | None = None, **_: object) -> Cluster:
        opened.append((files, context))
        raise BadInput("opened")

    monkeypatch.setattr(Cluster, "from_kubeconfig", refuse)
    CliRunner().invoke(app, command.split())
    assert set(opened) <= {(instance, None)}
    assert opened


@pytest.mark.parametrize("name", providers.names())
def test_whose_machines_are_like_anothers_is_known_without_loading_it(name: str) -> None:
    settings = Settings.model_validate({"provider": name})
    assert providers.machines_like(settings) == providers.named(name).machines_like(settings)


def test_commands_without_a_cluster_load_no_client_of_one() -> None:
    program = "import sys; from harness.cli.root import loaded; loaded('list'); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    for heavy in ("kubernetes", "cryptography", "testinfra", "websocket", "harness.infra.kind"):
        assert f"'{heavy}'" not in done.stdout
