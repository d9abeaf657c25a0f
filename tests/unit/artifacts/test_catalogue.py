"""The catalogue is whole: everything it names exists, and everything a release needs is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.artifacts import gomod, refs
from harness.artifacts.catalogue import PROGRAMS, Catalogue, fill, load, module_dir, own_path
from harness.errors import BadInput
from harness.validate.conformance.curated import load_curated

CATALOGUE = load()


BUILDS = [(name, version) for name in CATALOGUE.programs for version in CATALOGUE.versions(name)]


@pytest.mark.parametrize(("name", "version"), BUILDS)
def test_every_version_has_a_wrapper_module_with_checksums(name: str, version: str) -> None:
    recipe = CATALOGUE.program(name).recipes(version).gomod
    folder = module_dir(recipe.module, version)
    text = (folder / "go.mod").read_text()
    if recipe.module not in CATALOGUE.modules:  # our own program, which needs nothing
        assert "require" not in text
        return
    for path in CATALOGUE.modules[recipe.module].requires:
        assert re.search(rf"^(require )?\s*{re.escape(path)} v{re.escape(version)}$", text, re.MULTILINE)
    for path, tag in CATALOGUE.modules[recipe.module].sources(version).items():
        assert f"{path} {tag} h1:" in (folder / "go.sum").read_text()
    for package in recipe.packages.values():
        if package == own_path(recipe.module):
            program = CATALOGUE.modules[recipe.module].program
            assert (folder / "main.go").read_text() == (PROGRAMS / program).read_text()
            assert (folder / "main.go").is_symlink(), "written once"
        else:
            assert f'"{package}"' in (folder / "tools.go").read_text()


CORE = (
    "errors",
    "health",
    "ready",
    "kubernetes",
    "metrics",
    "forward",
    "cache",
    "loop",
    "reload",
    "loadbalance",
    "hosts",
)


def test_coredns_has_what_kubeadm_writes_into_its_corefile_and_no_client_of_a_cloud() -> None:
    plugins = set(re.findall(r"coredns/plugin/(\w+)", (PROGRAMS / "coredns.go").read_text()))
    assert plugins.issuperset(CORE)
    assert not plugins & {"azure", "clouddns", "dnssec", "nomad", "route53", "trace"}
    text = (module_dir("coredns", CATALOGUE.versions("coredns")[0]) / "go.mod").read_text()
    assert not re.search("aws-sdk|Azure|cloud.google.com|dd-trace", text)


@pytest.mark.parametrize("repository", CATALOGUE.images)
def test_every_file_of_an_image_is_a_file_of_a_program(repository: str) -> None:
    for version in CATALOGUE.tags(repository).values():
        for source in CATALOGUE.image(repository).files.values():
            name, _, file = source.partition("/")
            assert version in CATALOGUE.versions(name)
            recipe = CATALOGUE.program(name).recipes(version).gomod
            assert file in {**recipe.packages, **recipe.copies, **recipe.c_programs}


@pytest.mark.parametrize("name", CATALOGUE.programs)
def test_both_sources_give_the_same_files(name: str) -> None:
    for version in CATALOGUE.versions(name):
        recipes = CATALOGUE.program(name).recipes(version)
        if recipes.release is not None:
            assert set(recipes.release.members or {name: ""}) == set(recipes.gomod.packages)


def test_an_undeclared_kubernetes_version_says_how_to_declare_it() -> None:
    with pytest.raises(BadInput, match=r"Kubernetes 1\.36\.4 is not in the catalogue") as raised:
        refs.for_kubernetes(CATALOGUE, "1.36.4")
    assert "vmatrix artifacts module kubernetes 1.36.4" in raised.value.hint


def test_templates_know_the_version() -> None:
    filled = fill("{name} v{version} {minor} {major_number}.{minor_number}", "kubelet", "1.36.3")
    assert filled == "kubelet v1.36.3 1.36 1.36"


@pytest.mark.parametrize("text", ["programs: [", "kubernetes: {}\nsurprise: 1\n"])
def test_a_catalogue_that_does_not_fit_is_bad_input(tmp_path: Path, text: str) -> None:
    path = tmp_path / "catalogue.yml"
    path.write_text(text)
    with pytest.raises(BadInput, match="not a valid catalogue") as raised:
        load(path)
    assert raised.value.paths == (path,)


def test_the_catalogue_is_one_object() -> None:
    assert isinstance(CATALOGUE, Catalogue)
    assert load() is CATALOGUE


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_the_images_that_most_specs_run_are_those_of_the_release(version: str) -> None:
    release = CATALOGUE.release(version)
    listed = load_curated(version.rpartition(".")[0]).images
    for name, repository in (
        ("agnhost", "e2e-test-images/agnhost"),
        ("busybox", "e2e-test-images/busybox"),
        ("pause", "pause"),
    ):
        assert listed[name] == f"{repository}:{release.images[repository]}"
