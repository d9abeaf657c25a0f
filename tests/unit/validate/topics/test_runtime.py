"""Other settings of the container runtime, strange registries and images of another content are found."""

from __future__ import annotations

import pytest

from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Unjudged
from harness.validate.topics.runtime import from_mirror, other_configuration, other_images, wrong_runtime_settings
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.moments import PAUSE
from tests.unit.validate.surrounded import (
    CONFIG,
    CRIO_REGISTRIES,
    DIGEST,
    VARIABLES,
    in_place_of_containerd,
    running,
    setups,
)

EXPECTED = guests.expected(variables=VARIABLES)
WITH_CRIO = guests.expected(
    variables={**VARIABLES, "cluster_container_runtime": "crio", "cluster_crio_version": "1.34.0"}
)


def config(old: str, new: str) -> Change:
    def change(raw: guests.Json) -> None:
        assert old in raw["containerd"]["config"]
        raw["containerd"]["config"] = raw["containerd"]["config"].replace(old, new)

    return change


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in wrong_runtime_settings(running(), setups(), EXPECTED)] == []
    assert wrong_runtime_settings({}, {}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (config("pause:3.10.2", "pause:3.9"), "sandbox image"),
        (config("SystemdCgroup = false", "SystemdCgroup = true"), "SystemdCgroup"),
        (config("/usr/local/bin/runc", "/opt/runc"), "/opt/runc"),
        (config("name = 'runc'", "name = 'other'"), "default_runtime_name"),
        (config("/etc/cni/net.d", "/etc/cni/other.d"), "conf_dir"),
        (lambda raw: raw.update(containerd=None), "a running containerd"),
    ],
)
def test_another_setting_is_found(change: Change, words: str) -> None:
    (found,) = wrong_runtime_settings(running(change), setups(), EXPECTED)
    assert words in str(found)


def test_a_sandbox_image_that_kubelet_may_remove_is_found() -> None:
    (found,) = wrong_runtime_settings(running(lambda raw: raw.update(pinned=["other:1"])), setups(), EXPECTED)
    assert (found.where, found.seen) == ("w-0 images that are never removed", "other:1")


def test_it_is_not_judged_whether_an_image_is_pinned_that_is_not_there_or_where_nothing_tells() -> None:
    untold = wrong_runtime_settings(running(lambda raw: raw.update(pinned=None)), setups(), EXPECTED)
    bare = setups(lambda raw: raw.update(images={}))
    absent = wrong_runtime_settings(running(lambda raw: raw.update(pinned=[])), bare, EXPECTED)
    assert [type(one) for one in (*untold, *absent)] == [Unjudged, Unjudged]


def test_a_file_in_the_form_of_another_containerd_is_found() -> None:
    def change(raw: guests.Json) -> None:
        raw["containerd"]["file_version"] = "2"

    (found,) = wrong_runtime_settings(running(change), setups(), EXPECTED)
    assert str(found) == "w-0 containerd's file: expected version '3'; saw '2'"
    unsaid = guests.expected(leaves=guests.OURS.model_copy(update={"runtime_file_versions": None}), variables=VARIABLES)
    assert wrong_runtime_settings(running(change), setups(), unsaid) == []


def test_a_strange_registry_is_found() -> None:
    there = setups(lambda raw: raw["registries"].append("_default"))
    assert "/etc/containerd/certs.d/_default" in str(wrong_runtime_settings(running(), there, EXPECTED))


def test_another_server_behind_the_mirrors_name_is_found() -> None:
    def change(raw: guests.Json) -> None:
        (path,) = raw["servers"]
        raw["servers"][path].append("http://192.0.2.1:5000")

    (found,) = wrong_runtime_settings(running(), setups(change), EXPECTED)
    assert "hosts.toml" in str(found)
    assert "192.0.2.1" in str(found)


FURTHER = [{"name": "registry.example:5050"}, {"name": "10.0.0.1:5001", "server": "http://10.0.0.1:5002"}]


def with_further(**changed: str) -> Change:
    """Return what gives a machine with containerd further registries; `changed`: other URLs than they have."""
    urls = {
        "registry.example:5050": "https://registry.example:5050",
        "10.0.0.1:5001": "http://10.0.0.1:5002",
        **changed,
    }

    def change(raw: guests.Json) -> None:
        raw["registries"] += urls
        raw["servers"] |= {f"/etc/containerd/certs.d/{name}/hosts.toml": [url] for name, url in urls.items()}

    return change


def test_further_registries_of_the_cell_are_asked_where_it_says() -> None:
    asked = guests.expected(variables={**VARIABLES, "cluster_registries": FURTHER})

    def judged(change: Change) -> list[str]:
        there = {**setups(change), "cp-0": setups(change, of="cp-0")["cp-0"]}
        return [str(one) for one in wrong_runtime_settings(running(), there, asked)]

    assert judged(with_further()) == []
    (cp, w) = judged(with_further(**{"10.0.0.1:5001": "http://192.0.2.1:5002"}))
    assert "10.0.0.1:5001/hosts.toml: expected servers other than 10.0.0.1:5002" in cp
    assert "192.0.2.1" in w
    assert "registries" in " ".join(judged(lambda _: None))
    assert "no such folder" in " ".join(map(str, wrong_runtime_settings(running(), setups(with_further()), EXPECTED)))


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = wrong_runtime_settings(running(), setups(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


def of_crio(change: Change = lambda _: None, *, of_all: bool = False, expected: ExpectedGuest = WITH_CRIO) -> list[str]:
    """Return what is found of machines with CRI-O, the worker's programs and surroundings changed, or all machines'."""

    def worker(raw: guests.Json) -> None:
        in_place_of_containerd(raw)
        change(raw)

    other = worker if of_all else in_place_of_containerd
    programs = running(other, of="cp-0") | {"w-0": running(worker)["w-0"]}
    around = setups(other, of="cp-0") | {"w-0": setups(worker)["w-0"]}
    return [str(one) for one in wrong_runtime_settings(programs, around, expected)]


def crio(old: str, new: str) -> Change:
    def change(raw: guests.Json) -> None:
        if "crio" in raw:
            assert old in raw["crio"]["config"]
            raw["crio"]["config"] = raw["crio"]["config"].replace(old, new)

    return change


def registries(text: str) -> Change:
    def change(raw: guests.Json) -> None:
        if "registries_conf" in raw:
            raw["registries_conf"][CRIO_REGISTRIES] += text

    return change


def test_only_well_machines_with_crio_pass() -> None:
    assert of_crio() == []
    assert of_crio(crio("/usr/local/bin/runc", "/usr/local/lib/runc-within-limits")) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (crio("pause:3.10.2", "pause:3.9"), "pause:3.9"),
        (crio('manager = "cgroupfs"', 'manager = "systemd"'), "cgroup_manager"),
        (crio("/usr/local/bin/runc", "/opt/runc"), "/opt/runc"),
        (crio('default_runtime = "runc"', 'default_runtime = "other"'), "default_runtime"),
        (lambda raw: raw.update(crio=None) if "crio" in raw else None, "a running crio"),
        (registries("[[registry]]\nlocation = '192.0.2.1'\n"), "192.0.2.1"),
        (registries("[[registry.mirror]]\nlocation = '192.0.2.1'\n"), "192.0.2.1"),
        (registries("prefix = '*.example.org'\n"), "example.org"),
    ],
)
def test_another_setting_of_crio_is_found(change: Change, words: str) -> None:
    assert words in " ".join(of_crio(change))


def test_crio_asks_further_registries_where_the_cell_says() -> None:
    asked = guests.expected(variables={**WITH_CRIO.variables, "cluster_registries": FURTHER[1:]})

    def judged(location: str) -> list[str]:
        text = f"[[registry]]\nprefix = '10.0.0.1:5001'\nlocation = '{location}'\n"
        return of_crio(registries(text), of_all=True, expected=asked)

    assert judged("10.0.0.1:5002") == []
    assert "expected servers other than 10.0.0.1:5002" in " ".join(judged("192.0.2.1:5002"))


def test_machines_without_a_file_for_registries_are_found() -> None:
    def change(raw: guests.Json) -> None:
        if "registries_conf" in raw:
            raw["registries_conf"] = {}

    assert "no file for registries" in " ".join(of_crio(change))


NAME = "pause:3.10.2"
WELL = guests.expected()


def test_only_images_of_the_mirrors_content_pass() -> None:
    assert from_mirror(setups(), WELL) == [NAME]
    assert other_images(setups(), {NAME: DIGEST}, WELL) == []
    assert other_images({}, {}, WELL)


def test_another_content_is_found() -> None:
    (found,) = other_images(setups(lambda raw: raw["images"].update({PAUSE: "sha256:b"})), {NAME: DIGEST}, WELL)
    assert f"w-0 {NAME}: expected digest of the mirror" in str(found)


def test_an_image_that_the_mirror_lacks_and_no_image_at_all_are_found() -> None:
    assert len(other_images(setups(), {}, WELL)) == 2
    (found,) = other_images(setups(lambda raw: raw.update(images={})), {NAME: DIGEST}, WELL)
    assert "w-0: expected images of" in str(found)


def test_images_are_not_judged_of_a_product_that_says_nothing() -> None:
    (found,) = other_images(setups(), {}, guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


RUNTIME = "[plugins.'io.containerd.cri.v1.runtime']\n"
SECOND = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]\nruntime_type = 'io.containerd.runc.v2'\n"


def adds(text: str, *, by_default: str = "") -> Change:
    """Return containerd with further settings, and what it would have by default."""

    def change(raw: Json) -> None:
        raw["containerd"]["config"] += text
        raw["containerd"]["default"] += by_default

    return change


def test_only_the_configuration_of_product_and_cell_passes() -> None:
    wanted = guests.expected(variables=VARIABLES)
    assert other_configuration(running(), wanted) == []
    assert other_configuration({}, wanted)
    (unsaid,) = other_configuration(running(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(unsaid, Unjudged)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            adds("[grpc]\nmax_recv_message_size = 1\n", by_default="[grpc]\nmax_recv_message_size = 16777216\n"),
            "grpc.max_recv_message_size 16777216; saw 1",
        ),
        (adds(SECOND), "expected no plugins.io.containerd.cri.v1.runtime.containerd.runtimes.kata.runtime_type"),
        (
            lambda raw: raw["containerd"].update(config="disabled_plugins = ['x']\n" + CONFIG),
            "expected no disabled_plugins",
        ),
        (adds("", by_default="[ttrpc]\naddress = '/run/x'\n"), "expected ttrpc.address '/run/x'; saw 'none'"),
        (lambda raw: raw["containerd"].update(default=""), "its configuration and its defaults; saw none: it cannot"),
    ],
)
def test_what_differs_from_the_versions_defaults_is_found(change: Change, words: str) -> None:
    (found,) = other_configuration(running(change), guests.expected(variables=VARIABLES))
    assert str(found).startswith("w-0 containerd: ")
    assert words in str(found)


RUNC = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n"
OPTIONS = RUNC.replace("runc]", "runc.options]")


@pytest.mark.parametrize(
    ("usual", "there", "same"),
    [
        (f"{RUNC}sandbox_mode = 'podsandbox'\n", f"{RUNC}sandbox_mode = ''\n", True),
        (f"{RUNC}sandboxer = 'podsandbox'\n", f"{RUNC}sandboxer = ''\n", True),
        (f"{RUNC}sandbox_mode = 'podsandbox'\n", f"{RUNC}sandbox_mode = 'shim'\n", False),
        (f"{RUNC}snapshotter = 'overlayfs'\n", f"{RUNC}snapshotter = ''\n", False),
        (f"{OPTIONS}IoGid = 0\nNoPivotRoot = false\n", OPTIONS, True),
        (f"{OPTIONS}IoGid = 0\n", f"{OPTIONS}IoGid = 7\n", False),
        (f"{OPTIONS}NoPivotRoot = false\n", f"{OPTIONS}NoPivotRoot = true\n", False),
        (f"{OPTIONS}SomethingOn = true\n", OPTIONS, False),
        (f"{OPTIONS}Root = '/run/x'\n", OPTIONS, False),
    ],
)
def test_a_runtime_says_the_same_by_nothing(usual: str, there: str, same: bool) -> None:
    """containerd 1.7 shows what a runtime of the file leaves out as empty, or not at all."""

    def change(raw: Json) -> None:
        raw["containerd"].update(config=there, default=usual)

    assert (other_configuration(running(change), guests.expected(variables=VARIABLES)) == []) == same


def test_settings_of_the_cell_may_differ() -> None:
    change = adds("[debug]\nlevel = 'debug'\n", by_default="[debug]\nlevel = ''\n")
    asked = {**VARIABLES, "cluster_containerd_config": {"level": "debug"}}
    assert other_configuration(running(change), guests.expected(variables=asked)) == []
    assert other_configuration(running(change), guests.expected(variables=VARIABLES))


# As `crio config --default` of 1.34 prints its defaults: as settings, below comments that may look like others.
CRIO_DEFAULTS = """# Please refer to crio.conf(5) for details of all configuration options.
[crio]

# Path to the "root directory".
root = "/var/lib/containers/storage"

[crio.runtime]
# Without any, containers have the limits of CRI-O itself.
default_ulimits = [
]
pids_limit = -1
enable_criu_support = true
# [crio.runtime.runtimes.runtime-handler]
# runtime_path = "/path/to/the/executable"
# pids_limit = 7
default_sysctls = [
	"net.ipv4.ping_group_range=0 0",
]
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
[crio.image]
insecure_registries = []
pinned_images = []
[crio.network]
# cni_default_network = ""
"""


def of_whole_crio(more: str) -> list[str]:
    """Return what is found of machines whose CRI-O runs with its defaults and these lines."""
    lines = CRIO_DEFAULTS.splitlines()
    lines = [line for line in lines if not more or not line.startswith(more.partition(" = ")[0])]
    sections = {"cni_default_network": "network", "insecure_registries": "image", "pinned_images": "image"}
    at = lines.index(f"[crio.{sections.get(more.partition(' = ')[0], 'runtime')}]") + 1
    text = "\n".join([*lines[:at], more, *lines[at:]])

    def change(raw: guests.Json) -> None:
        in_place_of_containerd(raw)
        raw["crio"] |= {"config": text, "default": CRIO_DEFAULTS}

    there = running(in_place_of_containerd, of="cp-0") | {"w-0": running(change)["w-0"]}
    return [str(one) for one in other_configuration(there, WITH_CRIO)]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("pids_limit = 64", "crio.runtime.pids_limit -1; saw 64"),
        ('cni_default_network = "other"', "crio.network.cni_default_network ''; saw 'other'"),
        ('insecure_registries = ["0.0.0.0/0"]', "crio.image.insecure_registries []; saw ['0.0.0.0/0']"),
        ('pinned_images = ["*"]', "crio.image.pinned_images []; saw ['*']"),
    ],
)
def test_what_differs_from_the_defaults_of_crio_is_found(more: str, words: str) -> None:
    assert of_whole_crio("") == []
    (found,) = of_whole_crio(more)
    assert words in found


@pytest.mark.parametrize(
    "more",
    [
        'insecure_registries = ["127.0.0.0/8"]',
        f'pinned_images = ["{guests.expected().registry}/pause:3.10.2"]',
        "enable_criu_support = false",
    ],
)
def test_what_crio_decides_by_itself_is_its_default(more: str) -> None:
    assert of_whole_crio(more) == []
