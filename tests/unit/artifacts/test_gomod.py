"""Wrapper modules: each staging repository of Kubernetes is replaced by the release that was cut with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.artifacts import go_toolchain, gomod
from harness.artifacts.catalogue import load, module_dir
from harness.artifacts.gomod import Build, GeneratedModule, staging_modules, staging_version, substitutions
from harness.artifacts.recipe import Ref, key
from harness.errors import BadInput, InfraError, InfraRetriable
from tests.unit.artifacts.conftest import Publish

CATALOGUE = load()


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_every_staging_repository_is_replaced_by_the_release_cut_with_it(version: str) -> None:
    text = (module_dir("kubernetes", version) / "go.mod").read_text()
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (k8s\.io/\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 25
    assert all(left == right and cut == staging_version(version) for left, right, cut in replaced)


def test_staging_repositories_are_those_at_the_placeholder_version() -> None:
    text = "require (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.140.0\n\tk8s.io/kubelet v0.0.0 // indirect\n)\n"
    assert staging_modules(text) == ("k8s.io/api", "k8s.io/kubelet")
    assert staging_version("1.36.3") == "v0.36.3"


def test_what_a_go_mod_replaces_and_excludes_is_repeated_but_for_its_folders() -> None:
    text = (
        "require a.org/x v1.0.0\nreplace (\n\ta.org/x => b.org/x v1.2.3 // why\n\ta.org/y v1.0.0 => ../y\n)\n"
        "replace c.org/z => d.org/z v0.1.0\n// replace e.org => f.org v1.0.0\nexclude g.org/g v2.0.0+incompatible\n"
        "exclude (\n\th.org/h v1.0.0\n\n)\n"
    )
    assert sorted(substitutions(text)) == [
        "exclude g.org/g v2.0.0+incompatible",
        "exclude h.org/h v1.0.0",
        "replace a.org/x => b.org/x v1.2.3",
        "replace c.org/z => d.org/z v0.1.0",
    ]
    assert substitutions("require a.org/x v1.0.0\n") == ()


SUBSTITUTED = [name for name, module in CATALOGUE.modules.items() if module.replaces]


@pytest.mark.parametrize("name", SUBSTITUTED)
def test_a_module_with_substitutes_has_them(name: str) -> None:
    for version in CATALOGUE.program(name).versions:
        assert substitutions((module_dir(name, version) / "go.mod").read_text()) != ()


ABSENT = [(name, path) for name, module in CATALOGUE.modules.items() for path in module.absent]


@pytest.mark.parametrize(("name", "path"), ABSENT)
def test_an_empty_module_stands_for_one_that_cannot_be_downloaded(name: str, path: str) -> None:
    (version,) = {version for program in [CATALOGUE.program(name)] for version in program.versions}
    folder = module_dir(name, version)
    replaced = dict(re.findall(r"^replace (\S+) => \./(\S+)$", (folder / "go.mod").read_text(), re.MULTILINE))
    assert (folder / replaced[path] / "go.mod").read_text().startswith(f"module {path}\n")
    assert len(list((folder / replaced[path]).iterdir())) == 1


def test_what_stands_for_an_absent_module_is_part_of_the_recipe() -> None:
    program = CATALOGUE.program("nerdctl")
    texts = Build(Ref("nerdctl", program.versions[0]), program.gomod).ingredients()["module"]
    assert "absent/github.com_containerd_nerdctl_mod_tigron/go.mod" in texts


FORKED = [name for name, module in CATALOGUE.modules.items() if module.fork]


@pytest.mark.parametrize("name", FORKED)
def test_a_fork_stands_for_upstreams_module_and_is_pinned_in_full(name: str) -> None:
    recipe = CATALOGUE.modules[name]
    for version in CATALOGUE.program(name).versions:
        folder = module_dir(name, version)
        fork = recipe.fork.format(version=version).replace("@", " ")
        assert f"\nreplace {recipe.requires[0]} => {fork}\n" in (folder / "go.mod").read_text()
        sums = (folder / "go.sum").read_text()
        # Go asks no checksum database for what go.sum has: the files and the go.mod.
        assert f"{fork} h1:" in sums
        assert f"{fork}/go.mod h1:" in sums


class Go:
    """A Go that has a module downloaded, and completes nothing."""

    path = "true"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def env(self) -> dict[str, str]:
        return {}

    def proxy(self) -> str:
        return "http://proxy"

    def download(self, _: str, **__: str) -> dict[str, str]:
        return {"Dir": str(self.folder), "GoMod": str(self.folder / "go.mod")}


@pytest.mark.parametrize(("module", "vouched"), [("crio", True), ("runc", False)])
def test_upstreams_checksums_are_taken_only_where_the_catalogue_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, *, vouched: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    upstream = tmp_path / "upstream"
    upstream.mkdir()
    (upstream / "go.mod").write_text("module example.org/upstream\n\ngo 1.24.1\n", encoding="utf-8")
    (upstream / "go.sum").write_text("example.org/absent v1.0.0 h1:AAAA=\n", encoding="utf-8")
    monkeypatch.setattr(go_toolchain, "find_go", lambda *_: Go(upstream))
    made = gomod.generate(CATALOGUE, module, CATALOGUE.versions(module)[0], tmp_path / "made")
    assert (made / "go.sum").exists() is vouched
    assert not vouched or (made / "go.sum").read_text(encoding="utf-8").startswith("example.org/absent ")


RUNC = "github.com/opencontainers/runc"
MAIN = {Path("main.go"): "package main\n\nfunc main() {}\n"}
WHERE = "matrix/artifacts.yml:3: artifacts.runc.1.5.9"


def generated(version: str = "1.5.9", total: str = f"h1:{'A' * 43}=") -> GeneratedModule:
    return GeneratedModule(CATALOGUE, "runc", version, {RUNC: total}, WHERE)


def test_the_module_of_an_added_version_is_made_once_with_the_checksum_that_is_given(publish: Publish) -> None:
    publish(RUNC, "1.5.9", files=MAIN)
    (total,) = gomod.sums_of(CATALOGUE, "runc", "1.5.9").values()
    folder = generated(total=total).obtain()
    assert f"{RUNC} v1.5.9 {total}" in (folder / "go.sum").read_text(encoding="utf-8")
    made = (folder / "go.mod").stat().st_mtime_ns
    assert (generated(total=total).obtain() / "go.mod").stat().st_mtime_ns == made


def test_its_key_is_known_before_it_is_made_and_changes_with_what_it_is_made_from(publish: Publish) -> None:
    def build(one: GeneratedModule) -> str:
        return key(Build(Ref("runc", one.version), CATALOGUE.program("runc").gomod, generated=one))

    assert build(generated()) == build(generated())
    assert build(generated()) != build(generated(total=f"h1:{'B' * 43}="))
    assert not generated().folder.exists()


def test_another_checksum_is_refused_at_its_line_and_nothing_stays(publish: Publish) -> None:
    publish(RUNC, "1.5.9", files=MAIN)
    with pytest.raises(BadInput, match=re.escape(f"{WHERE}.sums: {RUNC} v1.5.9 has the checksum h1:")):
        generated().obtain()
    assert not generated().folder.exists()


def test_a_version_that_no_source_has_is_refused_with_what_was_asked_and_where(publish: Publish) -> None:
    publish(RUNC, "1.5.8", files=MAIN)
    said = rf"^{re.escape(WHERE)}: the Go module proxy \(file://\S+\) has no {re.escape(RUNC)} v1\.5\.9$"
    with pytest.raises(BadInput, match=said):
        generated().refuse_absent()
    with pytest.raises(BadInput, match=said):
        generated().obtain()


def test_a_proxy_that_does_not_answer_says_nothing(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "http://127.0.0.1:9")
    generated().refuse_absent()
    with pytest.raises(InfraRetriable, match="does not answer"):
        generated().obtain()


def test_a_version_that_asks_for_what_the_proxy_lacks_says_so(publish: Publish) -> None:
    publish(RUNC, "1.5.9", files={Path("main.go"): 'package main\n\nimport _ "example.com/lost"\n\nfunc main() {}\n'})
    (total,) = gomod.sums_of(CATALOGUE, "runc", "1.5.9").values()
    with pytest.raises(InfraError, match="cannot resolve what runc requires"):
        generated(total=total).obtain()
