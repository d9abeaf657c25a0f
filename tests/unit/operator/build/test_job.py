"""The objects of a build, and how it stands by what its containers leave."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.artifacts.catalogue import load
from harness.artifacts.own import push
from harness.operator.api.delivery import Delivery
from harness.operator.build import job
from harness.operator.build.job import BuildReport, BuildSettings

SHA = "0123456789abcdef0123456789abcdef01234567"
SETTINGS = BuildSettings("m.test:5000/vmatrix:1")
IMAGE = f"r.test/app@sha256:{'a' * 64}"


def delivery(source: dict[str, Any] | None = None, build: dict[str, Any] | None = None) -> Delivery:
    """Return a Delivery."""
    spec = {
        "source": {"git": "https://git.test/app", **(source or {})},
        "build": {"image": "r.test/app", **(build or {})},
    }
    return Delivery.model_validate({"metadata": {"name": "app", "namespace": "team", "uid": "u-1"}, "spec": spec})


def objects(settings: BuildSettings = SETTINGS, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the ConfigMap and the Job."""
    config, made = job.build_objects(delivery(**more), SHA, settings)
    return config, made


def containers(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the containers of a Job's pod by name."""
    spec = made["spec"]["template"]["spec"]
    return {one["name"]: one for one in (*spec["initContainers"], *spec["containers"])}


def test_the_names_follow_from_the_revision_and_everything_goes_with_the_delivery() -> None:
    for body in objects():
        meta = body["metadata"]
        assert (meta["name"], meta["namespace"]) == ("app-0123456789ab", "team")
        assert meta["ownerReferences"][0]["uid"] == "u-1"
        assert meta["ownerReferences"][0]["kind"] == "Delivery"
        assert meta["labels"]["delivery.vmatrix.dev/delivery"] == "app"
        assert meta["labels"]["delivery.vmatrix.dev/revision"] == "0123456789ab"


def test_a_pods_programs_read_what_they_are_told() -> None:
    config, _ = objects(source={"subPath": "a"}, build={"args": {"A": "1"}, "insecure": True})
    inputs = job.INPUTS_FORM.validate_json(config["data"]["build.json"])
    assert (inputs.revision, inputs.tag, inputs.source.sub_path) == (SHA, "0123456789ab", "a")
    assert inputs.build.args == {"A": "1"}
    assert inputs.registries == ("m.test:5000",)
    assert inputs.insecure_registries == ("r.test",)
    assert '[registry."r.test"]\n  http = true' in config["data"]["buildkitd.toml"]


# https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
BASELINE = frozenset(
    ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP")
) | {"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}


def test_pod_security_baseline_allows_the_pod() -> None:
    _, made = objects()
    spec = made["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert not any("hostPath" in volume for volume in spec["volumes"])
    for one in containers(made).values():
        security = one["securityContext"]
        assert not security.get("privileged")
        assert security["allowPrivilegeEscalation"] is False
        assert set(security["capabilities"].get("add", [])) <= BASELINE
        assert security["capabilities"]["drop"] == ["ALL"]
        assert security.get("seccompProfile", {}).get("type") != "Unconfined"


def test_only_the_daemon_begins_as_root_and_it_knows_no_secret() -> None:
    secrets = {name: {"name": "some"} for name in ("pushSecretRef", "signingSecretRef")}
    _, made = objects(source={"secretRef": {"name": "git"}}, build=secrets)
    mounts = {name: {one["name"] for one in each["volumeMounts"]} for name, each in containers(made).items()}
    assert [name for name, one in containers(made).items() if one["securityContext"]["runAsUser"] == 0] == ["buildkitd"]
    assert not {"git", "push", "signing"} & mounts["buildkitd"]
    assert mounts["fetch"] & {"git", "push", "signing"} == {"git"}
    assert mounts["build"] & {"git", "push", "signing"} == {"push", "signing"}
    assert made["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_what_a_delivery_asks_of_the_builder_is_the_daemons() -> None:
    asked = {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    _, made = objects(build={"resources": asked, "timeoutSeconds": 60})
    assert containers(made)["buildkitd"]["resources"]["requests"]["cpu"] == "2"
    assert containers(made)["buildkitd"]["resources"]["limits"] == {"memory": "1Gi"}
    assert made["spec"]["activeDeadlineSeconds"] == 120
    _, slow = objects(replace(SETTINGS, stretch=10.0), build={"timeoutSeconds": 60})
    assert slow["spec"]["activeDeadlineSeconds"] == 1200


def test_a_privileged_builder_and_a_profile_have_to_be_asked_for() -> None:
    _, made = objects(build={"privileged": True})
    assert [name for name, one in containers(made).items() if one["securityContext"].get("privileged")] == ["buildkitd"]
    _, confined = objects(replace(SETTINGS, seccomp_profile="builder.json"))
    wanted = {"type": "Localhost", "localhostProfile": "builder.json"}
    assert containers(confined)["buildkitd"]["securityContext"]["seccompProfile"] == wanted


IMAGES = {
    "m.test:5000/vmatrix:1": "m.test:5000/buildkit:v",
    "r.test/group/vmatrix:1": "r.test/group/buildkit:v",
    f"r.test/group/vmatrix@sha256:{'0' * 64}": "r.test/group/buildkit:v",
}


@pytest.mark.parametrize("image", IMAGES)
def test_the_image_with_buildkit_lies_beside_ours(image: str) -> None:
    assert BuildSettings(image).builder.startswith(IMAGES[image])
    assert BuildSettings(image, buildkit_image="other/x:1").builder == "other/x:1"


def test_the_image_with_buildkit_is_the_catalogues() -> None:
    (newest, *_) = load().versions("image/buildkit")
    assert f"{push.BUILDER}:{newest}" == job.BUILDKIT


FETCHED = BuildReport("succeeded", SHA, "Fetched", committed="2026-01-01T00:00:00Z")
DONE = replace(FETCHED, stage="Pushed", image=IMAGE)
BROKEN = BuildReport("failed", SHA, "Fetched", "InstructionFailed", "why", "Dockerfile:2: RUN x")
AWAY = BuildReport("failed", SHA, "", "Unreachable", "no answer", transient=True)


def pod(*, reason: str = "", waiting: str = "", made: str = "2026-01-01T00:00:00Z", **reports: Any) -> dict[str, Any]:
    """Return a pod whose containers have left reports (a BuildReport), or a word of the kubelet."""
    statuses = []
    for name, report in reports.items():
        ended = {"message": report.to_text()} if isinstance(report, BuildReport) else {"reason": report}
        statuses.append({"name": name, "state": {"terminated": ended}})
    if waiting:
        statuses.append({"name": "tools", "state": {"waiting": {"reason": waiting, "message": "no such image"}}})
    status = {"initContainerStatuses": statuses, **({"reason": reason} if reason else {})}
    return {"metadata": {"creationTimestamp": made}, "status": status}


def ended(kind: str = "", reason: str = "") -> dict[str, Any]:
    """Return a Job with a condition; none for one that runs."""
    conditions = [{"type": kind, "status": "True", "reason": reason}] if kind else []
    return {
        "metadata": {"labels": {"delivery.vmatrix.dev/revision": SHA[:12]}},
        "status": {"conditions": conditions},
    }


NO_ROOM = {"type": "PodScheduled", "status": "False", "message": "1 node had disk pressure"}
NOWHERE = {"metadata": {}, "status": {"conditions": [NO_ROOM]}}
RESULTS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[str, str, str, bool]]] = {
    # Job, pods; outcome, stage, reason, transient
    "waits": (ended(), [], ("running", "", "", False)),
    "fetches": (ended(), [pod()], ("running", "", "", False)),
    "builds": (ended(), [pod(fetch=FETCHED)], ("running", "Fetched", "", False)),
    "has no image": (ended(), [pod(waiting="ErrImagePull")], ("running", "", "BuilderImageMissing", False)),
    "has no node": (ended(), [NOWHERE], ("running", "", "Unschedulable", False)),
    "is done": (ended("Complete"), [pod(fetch=FETCHED, build=DONE)], ("succeeded", "Pushed", "", False)),
    "does not build": (
        ended("Failed", "BackoffLimitExceeded"),
        [pod(fetch=FETCHED, build=BROKEN)],
        ("failed", "Fetched", "InstructionFailed", False),
    ),
    "has no server": (ended("Failed"), [pod(fetch=AWAY)], ("failed", "", "Unreachable", True)),
    "took too long": (
        ended("Failed", "DeadlineExceeded"),
        [pod(fetch=FETCHED)],
        ("failed", "Fetched", "TimedOut", False),
    ),
    "took too much memory": (
        ended("Failed"),
        [pod(fetch=FETCHED, build="OOMKilled")],
        ("failed", "Fetched", "OutOfMemory", False),
    ),
    "was evicted": (ended("Failed"), [pod(reason="Evicted")], ("failed", "", "Evicted", True)),
    "was killed": (ended("Failed"), [pod(fetch=FETCHED, build="Error")], ("failed", "Fetched", "PodLost", True)),
    "lost its node": (ended("Failed"), [], ("failed", "", "PodLost", True)),
    "ended without a word": (ended("Complete"), [pod(fetch=FETCHED)], ("failed", "Fetched", "PodLost", True)),
    "was begun twice": (
        ended("Complete"),
        [pod(fetch=AWAY), pod(fetch=FETCHED, build=DONE, made="2026-01-02T00:00:00Z")],
        ("succeeded", "Pushed", "", False),
    ),
}


@pytest.mark.parametrize("case", RESULTS)
def test_how_a_build_stands(case: str) -> None:
    made, pods, expected = RESULTS[case]
    found = job.build_result(made, pods)
    assert found is not None
    assert (found.outcome, found.stage, found.reason, found.transient) == expected
    assert found.message or not found.reason
    assert bool(found.image) == (found.outcome == "succeeded")


def test_there_is_no_result_without_a_job() -> None:
    assert job.build_result(None, [pod(build=DONE)]) is None


def test_a_result_has_all_that_was_reported() -> None:
    made = job.build_result(ended("Complete"), [pod(fetch=FETCHED, build=DONE)])
    assert made == BuildReport("succeeded", SHA, "Pushed", image=IMAGE, committed="2026-01-01T00:00:00Z")


@pytest.mark.parametrize("text", ["", "no JSON", "{}", '{"outcome": "great"}', "[]"])
def test_what_is_no_report_is_none(text: str) -> None:
    found = job.build_result(
        ended("Failed"),
        [{"status": {"containerStatuses": [{"name": "build", "state": {"terminated": {"message": text}}}]}}],
    )
    assert found is not None
    assert found.reason == "PodLost"


@pytest.mark.parametrize("character", ["x", "ä", "\U0001f600", '"'])
def test_a_report_fits_into_what_a_kubelet_keeps(character: str) -> None:
    report = replace(BROKEN, message=character * 20_000, line=character * 20_000)
    text = report.to_text()
    assert len(text.encode()) <= 4096
    found = json.loads(text)
    assert (found["reason"], found["outcome"], found["revision"]) == ("InstructionFailed", "failed", SHA)
    assert len(found["message"]) > 80
