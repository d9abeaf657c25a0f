"""Settings: the file, then the environment, then options; each value knows where it came from."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import BadInput
from harness.spec.models import BuildSource, DiskImage, Infra, UrlSource
from harness.spec.settings import Blow, ImageMirror, Settings, Sourced, blows, load_settings, refuse_unreachable
from harness.streams import TOLD
from tests.unit.pages import ROOT


def test_later_sources_win_and_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vmatrix.yml").write_text("# mine\ntimeout_scale: 2\nruns: a\ninfra_name: mine\n")
    found = load_settings(
        tmp_path, environment={"VMATRIX_RUNS": "b", "VMATRIX_INFRA_NAME": "env"}, options={"runs": "c"}
    )
    assert (found.settings.timeout_scale, found.origin["timeout_scale"]) == (2.0, "vmatrix.yml:2")
    assert (found.settings.infra_name, found.origin["infra_name"]) == ("env", "VMATRIX_INFRA_NAME")
    assert (str(found.settings.runs), found.origin["runs"]) == ("c", "--runs")
    assert found.origin["provider"] == "default"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("providr: embedded\n", "vmatrix.yml:1: providr: unknown key; did you mean provider?"),
        ("runs: x\nprovider: cloud\n", "vmatrix.yml:2: provider: Input should be 'embedded', 'kind' or 'kubeconfig'"),
        ("timeout_scale: 0\n", "vmatrix.yml:1: timeout_scale: Input should be greater than 0"),
        ("- a\n", "vmatrix.yml:1: "),
        ("timeout_scale: 1:30\n", "vmatrix.yml:1: timeout_scale: YAML takes 1:30 for 90; write that"),
        ("runs: x\nreport_keep_days: 010\n", "vmatrix.yml:2: report_keep_days: YAML takes 010 for 8"),
        ("infra_kind: mine\nreport_keep_days: 010\n", "vmatrix.yml:2: report_keep_days: YAML takes 010 for 8"),
        ("runs: 2026-01-31\n", "vmatrix.yml:1: runs: expected a path, got "),
    ],
)
def test_a_mistake_in_the_file_names_line_and_field(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "vmatrix.yml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load_settings(tmp_path, environment={})
    assert said in caught.value.summary


def test_an_unknown_variable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="VMATRIX_RUN is not a setting"):
        load_settings(tmp_path, environment={"VMATRIX_RUN": "x"})


def test_a_malformed_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"VMATRIX_TIMEOUT_SCALE: .*got 'fast'"):
        load_settings(tmp_path, environment={"VMATRIX_TIMEOUT_SCALE": "fast"})


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[], list[str]]:
    """Begin as a new process that has told nothing; return what gives the lines that it told since."""
    monkeypatch.setenv(TOLD, "")
    monkeypatch.chdir(tmp_path)
    return lambda: capsys.readouterr().err.splitlines()


def test_former_names_in_the_file_are_read_and_told(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    (tmp_path / "vmatrix.yml").write_text("provider: local\n\ninfra_kind: mine\n")
    found = load_settings(tmp_path, environment={})
    assert (found.settings.provider, found.settings.infra_profile) == ("embedded", "mine")
    assert found.origin["infra_profile"] == "vmatrix.yml:3"
    assert told() == [
        "note: infra_kind is now called infra_profile (vmatrix.yml:3)",
        "note: provider local is now called embedded (vmatrix.yml:1)",
    ]
    load_settings(tmp_path, environment={})
    assert told() == [], "once is enough"


def test_former_names_in_the_environment_and_options_are_read_and_told(
    tmp_path: Path, told: Callable[[], list[str]]
) -> None:
    found = load_settings(
        tmp_path, environment={"VMATRIX_INFRA_KIND": "mine", "VMATRIX_PROVIDER": "kind"}, options={"provider": "local"}
    )
    assert (found.settings.provider, found.settings.infra_profile) == ("embedded", "mine")
    assert found.origin["infra_profile"] == "VMATRIX_INFRA_KIND"
    assert told() == [
        "note: VMATRIX_INFRA_KIND is now called VMATRIX_INFRA_PROFILE",
        "note: provider local is now called embedded (--provider)",
    ]


def test_a_process_that_this_one_starts_does_not_tell_again(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    code = "from pathlib import Path; from harness.spec.settings import load_settings; load_settings(Path())"
    (tmp_path / "vmatrix.yml").write_text("provider: local\n")
    calls = [subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)]
    load_settings(tmp_path, environment={})
    calls.append(subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True))
    assert [call.stderr for call in calls] == ["note: provider local is now called embedded (vmatrix.yml:1)\n", ""]


def test_a_former_name_beside_the_present_one_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "vmatrix.yml").write_text("infra_profile: a\ninfra_kind: b\n")
    with pytest.raises(BadInput, match=r"vmatrix\.yml:2: infra_kind: unknown key"):
        load_settings(tmp_path, environment={})


def test_the_former_file_of_durations_is_told_and_has_no_effect(tmp_path: Path, told: Callable[[], list[str]]) -> None:
    (tmp_path / "vmatrix.yml").write_text("runs: here\nhistory: old.jsonl\n")
    found = load_settings(tmp_path, environment={"VMATRIX_HISTORY": "other.jsonl"})
    assert found.settings.runs == Path("here")
    assert "history" not in found.origin
    said = told()
    assert [line.rpartition(" (")[2] for line in said] == ["vmatrix.yml:2)", "VMATRIX_HISTORY)"]
    assert all("setting history has no effect any more" in line and "report_file" in line for line in said)


@pytest.mark.parametrize("line", ["report_history: branch", "report_branch: x", "report_remote: origin"])
def test_a_history_on_a_branch_is_refused_with_what_to_use_instead(tmp_path: Path, line: str) -> None:
    (tmp_path / "vmatrix.yml").write_text(f"runs: here\n{line}\n")
    with pytest.raises(BadInput, match=r"vmatrix\.yml:2: .*set report_history to `package`"):
        load_settings(tmp_path, environment={})
    name, value = line.split(": ")
    with pytest.raises(BadInput) as caught:
        load_settings(tmp_path / "nowhere", environment={f"VMATRIX_{name.upper()}": value})
    assert "`package`" in f"{caught.value.summary} {caught.value.hint}"


def test_a_former_provider_in_a_matrix_is_read_and_told(told: Callable[[], list[str]]) -> None:
    assert Infra.model_validate({"label": "x", "provider": "local"}).provider == "embedded"
    assert told() == ["note: provider local is now called embedded (infras.yml)"]


def test_every_setting_is_described() -> None:
    described = {name: field.description or "" for name, field in Settings.model_fields.items()}
    assert [name for name, text in described.items() if not text.endswith(".")] == []
    schema = Settings.model_json_schema()["properties"]
    assert {name: entry["description"] for name, entry in schema.items()} == described


STAGES = ("deploy", "reset", "deploy-2")


def test_programs_tasks_and_phases_are_read_in_their_order() -> None:
    found = blows("executor@Join the cluster; manager:deploy-2@Write it, and start;eviction@a : b;")
    assert found == (
        Blow("executor", "deploy", "Join the cluster"),
        Blow("manager", "deploy-2", "Write it, and start"),
        Blow("eviction", "deploy", "a : b"),
    )
    assert blows("; ".join(blow.text for blow in found)) == found
    assert blows(None) == ()


@pytest.mark.parametrize("text", ["executor", "executor@", "etcd@x", "executor:Deploy@x", "executor@x; y", "", " ; "])
def test_another_form_is_refused_as_a_setting(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="VMATRIX_CHAOS: ") as caught:
        load_settings(tmp_path, environment={"VMATRIX_CHAOS": text})
    assert caught.value.exit_code == 2


def test_what_cannot_happen_in_a_run_is_refused() -> None:
    refuse_unreachable(None, [], on_host=False)
    refuse_unreachable("executor:reset@x", STAGES, on_host=True)
    for text, stages, on_host, said in (
        ("executor@x", STAGES, False, "pods run elsewhere"),
        ("executor@x", (), True, "no cell of the run has any"),
        ("executor@x; manager:upgrade@y", STAGES, True, "manager:upgrade@y: no cell has a phase upgrade"),
    ):
        with pytest.raises(BadInput, match=said):
            refuse_unreachable(text, stages, on_host=on_host)


def test_the_nightly_run_names_tasks_that_there_are() -> None:
    commands = re.sub(r"\\\n\s*", "", (ROOT / "tox.ini").read_text(encoding="utf-8"))
    named = {blow.task for text in re.findall(r'"VMATRIX_CHAOS=([^"]+)"', commands) for blow in blows(text)}
    files = (ROOT / "playbooks" / "roles").glob("*/tasks/*.yml")
    tasks = {name for file in files for name in names_of(yaml.safe_load(file.read_text(encoding="utf-8")))}
    assert len(named) > 20
    assert named <= tasks


def names_of(tasks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the names of tasks, those in blocks included."""
    for task in tasks:
        yield task["name"]
        for part in ("block", "rescue", "always"):
            yield from names_of(task.get(part) or [])


FOLDER = "https://cloud.example.org/images/trixie"
IMAGE = f"{FOLDER}/latest/a.qcow2"


def image(source: UrlSource | BuildSource) -> DiskImage:
    return DiskImage(name="a", os="d", version="1", source=source, user="u", size_gib=1, end_of_life=date(2030, 1, 1))


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("https://mirror", "https://mirror/cloud.example.org/images/trixie/latest/a.qcow2"),
        ("https://mirror:8443/x/", "https://mirror:8443/x/cloud.example.org/images/trixie/latest/a.qcow2"),
        (f"{FOLDER}/latest=http://mirror/images", "http://mirror/images/a.qcow2"),
        (f"{FOLDER}/=http://mirror/t", "http://mirror/t/latest/a.qcow2"),
        (f"https://m/all, {FOLDER}=https://m/t, https://cloud.example.org=https://m/c", "https://m/t/latest/a.qcow2"),
        ("https://other.example.org=https://m", IMAGE),
        ("https://cloud.example.org/images/tri=https://m", IMAGE),
    ],
)
def test_the_longest_beginning_that_fits_is_replaced(setting: str, wanted: str) -> None:
    assert ImageMirror.parse(setting).address(IMAGE) == wanted


def test_what_an_image_is_stays_the_same_and_the_mirrors_login_takes_the_place_of_its_own() -> None:
    pinned = "sha256:" + "a" * 64
    source = UrlSource(kind="url", url=IMAGE, checksum=pinned, credentials="theirs", certificates="theirs")
    found = ImageMirror.parse("https://m", "login", "ca").image(image(source)).source
    assert isinstance(found, UrlSource)
    assert (found.checksum, found.credentials, found.certificates) == (pinned, "login", "ca")
    assert found.url == "https://m/cloud.example.org/images/trixie/latest/a.qcow2"


def test_the_list_of_checksums_comes_from_the_mirror_too() -> None:
    listed = UrlSource(kind="url", url=IMAGE, checksum_url=f"{FOLDER}/latest/SUMS")
    found = ImageMirror.parse(f"{FOLDER}=https://m").image(image(listed)).source
    assert isinstance(found, UrlSource)
    assert found.checksum_url == "https://m/latest/SUMS"


def test_an_image_that_no_rule_fits_or_that_is_built_here_stays_as_it_is() -> None:
    other = image(UrlSource(kind="url", url=IMAGE, checksum_url=f"{FOLDER}/SUMS", credentials="theirs"))
    built = image(BuildSource(kind="build", recipe="r"))
    mirror = ImageMirror.parse("https://else.example.org=https://m", "login")
    assert mirror.image(other) == other
    assert ImageMirror.parse("https://m").image(built) == built


@pytest.mark.parametrize("wrong", ["mirror", "ftp://m", "https://a=", "a=https://m", "https://m,", "=https://m"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="neither URL nor PREFIX=URL"):
        Settings(image_mirror=wrong)


# A value of each setting that is not its default.
OTHERS: dict[str, Any] = {
    "provider": "kubeconfig",
    "infra_profile": "p",
    "infra_name": "n",
    "infra_up": False,
    "kubevirt": "embedded",
    "releases": Path("../r.yml"),
    "kvm": "hide",
    "kubeconfig": Path("k"),
    "context": "c",
    "namespace": "ns",
    "access": "direct",
    "mirror_http": "http://m:1",
    "registry": "r:5000",
    "image_url": "http://i",
    "image_mirror": "http://im",
    "image_mirror_credentials": "s",
    "image_mirror_certificates": "cm",
    "storage_class": "fast",
    "binding": "masquerade",
    "guest_vars": Path("/v.yml"),
    "outer_networks": "10.0.0.0/8",
    "network_policy": False,
    "network_policy_egress": "10.1.0.0/16",
    "network_policy_ingress": "fd00::/8",
    "artifact_source": "gomod",
    "runs": Path("r"),
    "keep": "always",
    "keep_on_failure": True,
    "report_history": "package",
    "report_file": Path("h.jsonl"),
    "report_package": "pkg",
    "report_keep_days": 1.5,
    "timeout_scale": 2.5,
    "max_memory_mib": 1,
    "max_cpus": 0.5,
    "max_machines": 3,
    "expiry_hours": 0.1,
    "alert_webhook": "https://chat.example.org/hook",
    "alert_form": "slack",
    "alert_mail_to": "team@example.org",
    "alert_mail_from": "vmatrix@example.org",
    "alert_smtp": "mail.example.org:587",
    "alert_smtp_user": "vmatrix",
    "alert_infra_rate": 0.5,
    "quarantine_rate": 0.3,
    "chaos": "executor@Initialise it",
}


def test_another_process_gets_every_setting_as_it_was_resolved() -> None:
    assert OTHERS.keys() == Settings.model_fields.keys()
    for settings in (Settings(), Settings(**OTHERS)):
        sourced = Sourced(settings, {"runs": "--runs"})
        assert Sourced.load(sourced.dump()) == sourced
