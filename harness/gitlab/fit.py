"""Whether a job fits: what GitLab and the runner told it about GitLab, runner, tags, time-outs and image, judged.

Does not ask anybody; token.py judges the job's token, clock.py asks GitLab for the time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from harness.gitlab.limits import minutes
from harness.gitlab.variables import NUMBER
from harness.infra.findings import Finding, raise_if_any

GITLAB = (18, 2)  # `trigger: strategy: mirror`: https://docs.gitlab.com/ci/yaml/#triggerstrategy
RUNNER = (17, 5)  # ends scripts that print nothing when they are cancelled: gitlab-org/gitlab issue 456252
SCRIPT, AFTER = "RUNNER_SCRIPT_TIMEOUT", "RUNNER_AFTER_SCRIPT_TIMEOUT"
POD = ("POD_NAME", "POD_UID", "POD_NAMESPACE")
RELEASE = re.compile(r"v(\d+\.\d+\.\d+)")


def findings(environment: Mapping[str, str], *, tag: str, version: str) -> Iterator[Finding]:
    """Yield what does not fit.

    Args:
        tag: of the runners for cells.
        version: of this vmatrix.
    """
    yield from _old(environment, "GitLab", "CI_SERVER_VERSION", GITLAB, "trigger jobs cannot mirror a child pipeline")
    yield from _old(environment, "GitLab Runner", "CI_RUNNER_VERSION", RUNNER, "a cancelled job may never be told")
    yield from _tags(environment, tag)
    yield from _times(environment)
    yield from _image(environment, version)
    yield from _pod(environment)


def refuse_other_release(environment: Mapping[str, str], *, version: str) -> None:
    """Refuse to plan or run anything with the vmatrix of an image that is of another release than the pipeline.

    Raises:
        BadInput: as `findings` says it.
    """
    raise_if_any(list(_image(environment, version)))


def _old(environment: Mapping[str, str], who: str, name: str, least: tuple[int, int], why: str) -> Iterator[Finding]:
    said = environment.get(name, "")
    found = re.match(r"v?([0-9]{1,4})\.([0-9]{1,4})", said)
    wanted = ".".join(map(str, least))
    if found is None:
        yield Finding(
            f"{name} is {said!r}", f"the version of {who} is not known", f"use {who} {wanted} or later", False
        )
    elif (int(found[1]), int(found[2])) < least:
        yield Finding(f"this is {who} {said}", why, f"update {who} to {wanted} or later")


def _tags(environment: Mapping[str, str], tag: str) -> Iterator[Finding]:
    said = environment.get("CI_RUNNER_TAGS", "")
    try:
        listed = json.loads(said or "[]")
    except (ValueError, RecursionError):
        listed = None
    tags = [str(one) for one in (listed if isinstance(listed, list) else said.split(",")) if str(one).strip()]
    tags = [one.strip() for one in tags]
    if tag not in tags:
        has = f"has the tags {', '.join(tags)}" if tags else "has no tags"
        remedy = f"add the tag {tag} to the runner for cells (Settings > CI/CD > Runners), or set the input runner_tag"
        yield Finding(
            f"this job's runner {has}", f"it gets no job with a cell: they wait for one with the tag {tag}", remedy
        )


def _times(environment: Mapping[str, str]) -> Iterator[Finding]:
    given = {name: environment[name] for name in (SCRIPT, AFTER) if environment.get(name)}
    if len(given) < 2 or not NUMBER.fullmatch(environment.get("CI_JOB_TIMEOUT", "")):
        return
    try:
        inner = sum(map(minutes, given.values()))
    except ValueError as wrong:
        yield Finding(str(wrong), f"{SCRIPT} and {AFTER} cannot be judged", "write them in whole minutes, such as 90m")
        return
    job = int(environment["CI_JOB_TIMEOUT"]) / 60
    if job <= inner:
        what = f"the job may take {job:g} minutes, its script and after_script {inner}"
        why = "a job that exceeds its timeout gets no after_script, and its cell is left"
        remedy = (
            f"set the runner's maximum job timeout (Settings > CI/CD > Runners) to more than {inner} minutes, or none"
        )
        yield Finding(what, why, remedy)


def _image(environment: Mapping[str, str], version: str) -> Iterator[Finding]:
    wanted = RELEASE.fullmatch(environment.get("MATRIX_REF", ""))
    if environment.get("VMATRIX_REVISION") and wanted and wanted[1] != version:
        what = f"the image has vmatrix {version}, the pipeline is of {wanted[1]}"
        remedy = f"set the input image to vmatrix's image with the tag v{wanted[1]}, or vmatrix_ref to v{version}"
        yield Finding(what, "jobs run the vmatrix of their image, whatever vmatrix_ref says", remedy)


def _pod(environment: Mapping[str, str]) -> Iterator[Finding]:
    missing = [name for name in POD if not environment.get(name)]
    if environment.get("KUBERNETES_SERVICE_HOST") and environment.get("MATRIX_NAMESPACE") and missing:
        what = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set in the job's pod"
        remedy = "configure the runner as deploy/runner does (pod_spec, FF_USE_ADVANCED_POD_SPEC_CONFIGURATION)"
        yield Finding(what, "machines stay when the pod is lost, until they expire", remedy, False)
