"""Settings from vmatrix.yml, then VMATRIX_* variables, then options: the later wins; each knows where it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from harness.errors import BadInput
from harness.spec import lines
from harness.spec.base import Model
from harness.spec.loader import refuse, validate

FILE = "vmatrix.yml"
PREFIX = "VMATRIX_"
DEFAULT = "default"
NOT_SETTINGS = frozenset({"VMATRIX_PROJECT", "VMATRIX_INSTANCE"})


def _networks(text: str) -> str:
    for network in text.split(","):
        ip_network(network.strip())
    return text


class Settings(Model):
    """What a person may choose.

    provider: `local` (embedded), `kind` (a cluster in a container) or `kubeconfig` (any cluster with KubeVirt and CDI).
    infra_name: the embedded infrastructure's or kind instance's name.
    kubevirt: for provider `kind`: a `release` in the cluster, or the `embedded` one; what the instance has without it.
    infra_kind: of matrix/infras.yml, what the infra cluster is; by default the first that names the provider.
    kubeconfig, context: of the infra cluster, for provider `kubeconfig`.
    mirror_http, registry: where guests find binaries and images, for provider `kubeconfig`.
    image_url: base URL of disk images, for provider `kubeconfig`.
    access: how machines are reached, `direct` or `portforward`; the provider's own choice without it.
    storage_class: for machines' disks; the infra's default without it.
    binding: of machines to the pod network; `masquerade` is for clusters of one machine, the others would all be
        10.0.2.2.
    guest_vars: a YAML file of playbook variables that machines of provider `kubeconfig` need: nested networks, a
        VXLAN port, whatever their kernel asks for.
    outer_networks: the infra cluster's own pod and service networks, for provider `kubeconfig`, as CIDRs with commas
        between; those that can be read there are found without.
    artifact_source: where binaries come from.
    runs: directory of the runs' results.
    history: file of what cells took, by which runs are ordered; in the state directory without it.
    report_history: where every cell run is kept for `vmatrix report`: in a `file`, on a `branch` of the checkout's
        remote, or in a generic `package` of the GitLab project.
    report_file: for `file`; history.jsonl in the runs' directory without it.
    report_remote, report_branch: for `branch`: a git remote's name (or a URL), and the branch.
    report_package: for `package`: its name.
    report_keep_days: after how long `vmatrix history compact` drops the details of a cell run.
    timeout_scale: factor on every number in matrix/timeouts.yml.
    keep_on_failure: keep a failed cell until it expires.
    max_memory_mib, max_cpus, max_machines: the most that one run may hold of the infra cluster at a time.
    expiry_hours: after how long `vmatrix reap --expired` takes a cell away.
    namespace: one that exists, for all cells, their images and reservations; without it each cell gets one of its own.
    """

    provider: Literal["local", "kubeconfig", "kind"] = "local"
    infra_name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$")] = "default"
    kubevirt: Literal["release", "embedded"] | None = None
    infra_kind: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    mirror_http: str | None = None
    registry: str | None = None
    image_url: str | None = None
    access: Literal["direct", "portforward"] | None = None
    storage_class: str | None = None
    binding: Literal["bridge", "masquerade"] = "bridge"
    guest_vars: Path | None = None
    outer_networks: Annotated[str, AfterValidator(_networks)] | None = None
    artifact_source: Literal["auto", "gomod", "release"] = "auto"
    runs: Path = Path("runs")
    history: Path | None = None
    report_history: Literal["file", "branch", "package"] = "file"
    report_file: Path | None = None
    report_remote: Annotated[str, StringConstraints(min_length=1)] = "origin"
    report_branch: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]{0,99}$")] = "vmatrix-history"
    report_package: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,99}$")] = "vmatrix-history"
    report_keep_days: float = Field(default=30.0, gt=0, le=3660)
    timeout_scale: float = Field(default=1.0, gt=0, le=100)
    keep_on_failure: bool = False
    max_memory_mib: int | None = Field(default=None, gt=0)
    max_cpus: float | None = Field(default=None, gt=0)
    max_machines: int | None = Field(default=None, gt=0)
    expiry_hours: float = Field(default=4.0, gt=0, le=168)
    namespace: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] | None = None


@dataclass(frozen=True)
class Sourced:
    """The settings and, by name, where each came from: "default", "vmatrix.yml:3", "VMATRIX_RUNS" or "--runs"."""

    settings: Settings
    origin: Mapping[str, str]


def load_settings(
    directory: Path, *, environment: Mapping[str, str] | None = None, options: Mapping[str, Any] | None = None
) -> Sourced:
    """Load the settings for a working directory.

    Args:
        directory: where vmatrix.yml is looked for; it may be absent.
        environment: variables, os.environ without it.
        options: values from the command line, None for those not given.

    Raises:
        BadInput: every mistake in the file; an unknown or malformed variable or option.
    """
    values, origin = _from_file(directory / FILE)
    for variable, text in sorted((os.environ if environment is None else environment).items()):
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS:
            name = variable.removeprefix(PREFIX).lower()
            values[name] = _parse(name, text, variable)
            origin[name] = variable
    for name, value in (options or {}).items():
        if value is not None:
            option = "--" + name.replace("_", "-")
            values[name] = _parse(name, value, option)
            origin[name] = option
    settings = Settings(**values)
    return Sourced(settings, {name: origin.get(name, DEFAULT) for name in Settings.model_fields})


def _from_file(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    if not file.exists():
        return {}, {}
    document, problems = lines.read(file)
    parsed: Settings | None = None
    if not problems:
        parsed, problems = validate(document, Settings)
    if problems or parsed is None:
        raise refuse(problems)
    given = document.content or {}
    values = {name: getattr(parsed, name) for name in given}
    return values, {name: f"{file.name}:{document.line_of((name,))}" for name in given}


def _parse(name: str, value: Any, origin: str) -> Any:
    if name not in Settings.model_fields:
        known = ", ".join(f"{PREFIX}{n.upper()}" for n in Settings.model_fields)
        raise BadInput(f"{origin} is not a setting", hint=f"known: {known}")
    try:
        return getattr(Settings.model_validate({name: value}), name)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadInput(
            f"{origin}: {first['msg']}, got {value!r}", hint="`vmatrix config` shows every setting"
        ) from error
