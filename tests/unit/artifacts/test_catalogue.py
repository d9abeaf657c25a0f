"""The catalogue is whole: everything it names exists, and everything a release needs is in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from string import Template

import pytest

from harness.artifacts import refs
from harness.artifacts.catalogue import PROGRAMS, Catalogue, fill, load, module_dir, own_path
from harness.errors import BadInput
from harness.paths import PROJECT
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
    image = CATALOGUE.image(repository)
    assert image.versions.keys() <= {source.partition("/")[0] for source in image.files.values()}
    for tagged in CATALOGUE.tags(repository).values():
        for source in image.files.values():
            name, _, file = source.partition("/")
            version = image.versions.get(name, tagged)
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


SUM = f"h1:{'A' * 43}="
SHA = f"sha256:{'0' * 64}"
RUNC = f"github.com/opencontainers/runc: {SUM}"
ETCD = f"go.etcd.io/etcd/server/v3: {SUM}, go.etcd.io/etcd/etcdctl/v3: {SUM}"
ETCDUTL = f"go.etcd.io/etcd/etcdutl/v3: {SUM}"
KUBERNETES = f"k8s.io/kubernetes: {SUM}"


@pytest.fixture
def adding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Catalogue]:
    """Return what loads the catalogue as a project with these added versions has it."""
    (tmp_path / "matrix").mkdir()
    monkeypatch.setenv(PROJECT, str(tmp_path))

    def loaded(text: str) -> Catalogue:
        (tmp_path / "matrix" / "artifacts.yml").write_text(f"artifacts:\n{text}\n")
        return load()

    return loaded


MISTAKES = [
    ("  runk: {1.5.3: {sums: {$RUNC}}}", "2: artifacts.runk: unknown program 'runk'"),
    ("  pause: {3.10.9: {url: http://h/p, checksum: $SHA}}", "unknown program 'pause'"),
    ("  runc: {}", "2: artifacts.runc: "),
    ("  runc: {1.5: {sums: {$RUNC}}}", "expected a patch version without `v`"),
    ("  runc: {v1.5.3: {sums: {$RUNC}}}", "expected a patch version without `v`"),
    ("  runc: {1.6.0: {sums: {$RUNC}}}", "1.6.0 is not a patch version of a minor that vmatrix has of runc: 1.5"),
    ("  runc:\n    1.5.3: {sums: {$RUNC}}\n    1.5.3: {sums: {$RUNC}}", "4: artifacts.runc.1.5.3: duplicate"),
    ("  runc: {1.5.3: {}}", "needs either `sums`, for the Go module proxy, or `url` and `checksum`"),
    ("  runc: {1.5.3: {sums: {$RUNC}, url: http://h/p, checksum: $SHA}}", "needs either `sums`"),
    ("  runc: {1.5.3: {url: http://h/p}}", "needs `url` and `checksum` together"),
    ("  runc: {1.5.3: {sums: {$RUNC}, checksum: $SHA}}", "needs `url` and `checksum` together"),
    ("  runc: {1.5.3: {url: ftp://h/p, checksum: $SHA}}", "expected http:// or https://"),
    ("  runc: {1.5.3: {url: 'http://h/{versoin}', checksum: $SHA}}", "unknown field {versoin}"),
    ("  runc: {1.5.3: {url: http://h/p, checksum: 'md5:1'}}", "expected sha256: and 64 hexadecimal digits"),
    ("  runc: {1.5.3: {sums: {github.com/opencontainers/runc: h1:x}}}", "h1: and 44 characters that end in ="),
    ("  runc: {1.5.3: {sums: {nowhere: $SUM}}}", "expected the path of a Go module"),
    ("  runc: {1.5.3: {sums: {$ETCD}}}", "runc is built of github.com/opencontainers/runc"),
    ("  etcd: {3.6.9: {sums: {go.etcd.io/etcd/server/v3: $SUM}}}", "give the checksum of each"),
    ("  runc: {1.5.3: {sums: {$RUNC}, members: {runc: a}}}", "has `members` without `url`"),
    ("  etcd: {3.6.9: {url: http://h/p, checksum: $SHA, members: {etc: a}}}", "etcd has the files etcd, etcdctl"),
    ("  etcd: {3.6.9: {url: http://h/p, checksum: $SHA, members: {etcd: a}}}", "say where etcdctl is"),
    ("  flannel: {0.28.9: {url: http://h/p, checksum: $SHA}}", "say under `members` where they are"),
    ("  runc: {1.5.3: {sums: {$RUNC}, surprise: 1}}", "artifacts.runc.1.5.3.surprise: unknown"),
    ("  runc: {1.5.3: {sums: {$RUNC}, etcd: 3.6.8}}", "only versions of kubernetes have `etcd`"),
    ("  runc: {1.5.3: {sums: {$RUNC}, images: {etcd: x}}}", "only versions of kubernetes have `images`"),
    ("  kubelet: {1.36.9: {sums: {$KUBERNETES}}}", "kubelet is built with all of Kubernetes: move this"),
    ("  kubelet: {1.36.9: {url: http://h/p, checksum: $SHA}}", "there is no Kubernetes 1.36.9; add it"),
    ("  kubernetes: {1.36.9: {url: http://h/p, checksum: $SHA}}", "give each its address by its own name"),
    ("  kubernetes: {1.38.0: {sums: {$KUBERNETES}}}", "1.38.0 is not a patch version of a minor"),
    ("  kubernetes: {1.36.9: {sums: {$KUBERNETES}, etcd: 3.6.77}}", "nothing provides etcd 3.6.77"),
    (
        "  kubernetes: {1.36.9: {sums: {$KUBERNETES}, images: {coredns: v1.14.9}}}",
        "nothing provides coredns:v1.14.9",
    ),
    ("  kubernetes: {1.36.9: {sums: {$KUBERNETES}, images: {cordns: v1}}}", "unknown image 'cordns'"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_wrong_addition_is_refused_at_its_line(adding: Callable[[str], Catalogue], text: str, said: str) -> None:
    words = {"RUNC": RUNC, "SHA": SHA, "SUM": SUM, "ETCD": ETCD, "KUBERNETES": KUBERNETES}
    with pytest.raises(BadInput) as raised:
        adding(Template(text).substitute(words))
    assert "matrix/artifacts.yml:" in raised.value.summary
    assert said in raised.value.summary


def test_an_added_version_is_made_as_the_newest_of_its_minor(adding: Callable[[str], Catalogue]) -> None:
    module = f"github.com/containerd/containerd: {SUM}"
    found = adding(f"  containerd: {{1.7.40: {{sums: {{{module}}}}}}}")
    assert found.versions("containerd") == ("2.4.2", "1.7.40", "1.7.35")
    assert found.program("containerd").recipes("1.7.40").gomod.module == "containerd1"
    assert found.program("containerd").recipes("2.4.2").gomod.module == "containerd"


def test_what_names_no_version_gets_what_it_got_before(adding: Callable[[str], Catalogue]) -> None:
    found = adding(f"  runc: {{1.5.9: {{sums: {{{RUNC}}}}}}}")
    assert found.versions("runc") == ("1.5.2", "1.5.9")


def test_the_source_of_the_project_counts(adding: Callable[[str], Catalogue]) -> None:
    found = adding(f"  runc: {{1.5.2: {{url: 'http://h/runc-{{version}}', checksum: {SHA}}}}}")
    assert found.versions("runc") == ("1.5.2",)
    pinned = found.program("runc").recipes("1.5.2").pinned
    assert pinned is not None
    assert (pinned.url, pinned.checksum, pinned.members) == ("http://h/runc-{version}", SHA, {})


def test_an_archive_has_the_members_of_upstreams(adding: Callable[[str], Catalogue]) -> None:
    found = adding(f"  etcd: {{3.6.9: {{url: http://h/etcd.tgz, checksum: {SHA}}}}}")
    pinned = found.program("etcd").recipes("3.6.9").pinned
    assert pinned is not None
    assert pinned.members["etcdctl"] == "etcd-v{version}-linux-{arch}/etcdctl"


@pytest.mark.parametrize(
    ("program", "module", "version", "tag"),
    [
        ("flannel", "github.com/flannel-io/flannel", "0.28.9", "v0.28.9"),
        ("coredns", "github.com/coredns/coredns", "1.14.9", "v1.14.9"),
        ("metallb", "go.universe.tf/metallb", "0.16.9", "v0.16.9"),
        ("metrics-server", "sigs.k8s.io/metrics-server", "0.9.9", "v0.9.9"),
        ("traefik", "github.com/traefik/traefik/v3", "3.6.99", "v3.6.99"),
        ("local-path-provisioner", "github.com/rancher/local-path-provisioner", "0.0.99", "v0.0.99"),
        ("kube-router", "github.com/k3s-io/kube-router/v2", "2.6.9", "v2.6.9"),
    ],
)
def test_the_image_of_an_added_version_has_a_tag(
    adding: Callable[[str], Catalogue], program: str, module: str, version: str, tag: str
) -> None:
    found = adding(f"  {program}: {{{version}: {{sums: {{{module}: {SUM}}}}}}}")
    assert found.tags(program)[tag] == version


def test_an_etcd_has_the_tag_of_kubeadm(adding: Callable[[str], Catalogue]) -> None:
    assert adding(f"  etcd: {{3.6.9: {{sums: {{{ETCD}}}}}}}").tags("etcd")["3.6.9-0"] == "3.6.9"


def test_a_kubernetes_has_all_that_its_minor_has(adding: Callable[[str], Catalogue]) -> None:
    entry = (
        f"1.36.9: {{sums: {{{KUBERNETES}}}, etcd: 3.6.9, images: {{etcd: 3.6.9-0, e2e-test-images/agnhost: 2.99.0}}}}"
    )
    found = adding(
        f"  kubernetes: {{{entry}}}\n  etcd: {{3.6.9: {{sums: {{{ETCD}}}}}}}\n"
        f"  etcdutl: {{3.6.9: {{sums: {{{ETCDUTL}}}}}}}"
    )
    assert tuple(found.kubernetes)[:3] == ("1.37.2", "1.36.9", "1.36.3")
    release = found.release("1.36.9")
    assert release.etcd == "3.6.9"
    assert release.images == {**found.release("1.36.3").images, "etcd": "3.6.9-0", "e2e-test-images/agnhost": "2.99.0"}
    assert found.tags("e2e-test-images/agnhost")["2.99.0"] == "1.36.9"
    assert found.tags("kube-proxy")["v1.36.9"] == "1.36.9"
    for ref in refs.for_kubernetes(found, "1.36.9"):
        found.require(ref.name, ref.version)
    for name in ("kubelet", "e2e.test", "ginkgo", "agnhost"):
        assert found.program(name).recipes("1.36.9").sums == {"k8s.io/kubernetes": SUM}
    assert refs.tested(found, "1.36.77") == "1.36.9"
