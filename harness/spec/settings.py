"""Settings from vmatrix.yml, then VMATRIX_* variables, then options: the later wins; each knows where it came from.

The setting `chaos` says which programs of a declared product are ended, and at which task of its executor. The
setting `image_mirror` says from which addresses `url` images of matrix/images.yml come instead of their own: what
an image is does not change, its checksum must still fit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationError, field_validator

from harness.errors import BadInput
from harness.files import wrong_path
from harness.paths import PRODUCT, PROJECT, SETTINGS, enclosing_project
from harness.spec import lines, loader, product_files, renamed
from harness.spec.base import INSTANCE, NAMESPACE, PACKAGE, WANTED, Model, Name
from harness.spec.loader import refuse, validate
from harness.spec.models import DiskImage, UrlSource
from harness.spec.phase_environment import is_ours
from harness.system import lexists
from harness.urls import wrong_address, wrong_url

Part = Literal["executor", "manager", "eviction"]
SEPARATOR = ";"  # names of tasks have commas
FORM = re.compile(r"(?P<part>executor|manager|eviction)(?::(?P<stage>[a-z][a-z0-9-]*))?@(?P<task>\S.*)")
FIRST = "deploy"  # the stage of whatever names none
HINT = "docs/chaos.md explains the setting `chaos`"


@dataclass(frozen=True)
class Blow:
    """One program's end.

    part: an executor or the manager, killed; or the eviction of an executor.
    stage: the phase, as steps and logs name it.  task: when the executor begins it.
    """

    part: Part
    stage: str
    task: str

    @property
    def text(self) -> str:
        """Return it as it is written in the setting."""
        return f"{self.part}:{self.stage}@{self.task}"


def blows(text: str | None) -> tuple[Blow, ...]:
    """Read the setting: PART@TASK or PART:STAGE@TASK, with semicolons.

    Raises:
        ValueError: it is written in another way.
    """
    blows_in_text = []
    for word in filter(None, (each.strip() for each in (text or "").split(SEPARATOR))):
        match = FORM.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is not executor@TASK, manager@TASK or eviction@TASK, or PART:STAGE@TASK")
        blows_in_text.append(Blow(match["part"], match["stage"] or FIRST, match["task"]))  # type: ignore[arg-type] # by FORM
    if text is not None and not blows_in_text:
        raise ValueError("it names nothing; leave it out")
    return tuple(blows_in_text)


def checked(text: str) -> str:
    """Return the setting as it is. Raises ValueError as `blows`."""
    blows(text)
    return text


def refuse_unreachable(text: str | None, stages: Iterable[str], *, on_host: bool) -> None:
    """Refuse what can never happen in a run.

    Args:
        stages: of the cells whose product has executors.
        on_host: whether pods of the infra cluster are processes of this host.

    Raises:
        BadInput: it cannot, and why.
    """
    blows_asked, there = blows(text), list(dict.fromkeys(stages))
    if blows_asked and not on_host:
        raise BadInput("the setting chaos kills processes of this host, and pods run elsewhere", hint=HINT)
    if blows_asked and not there:
        raise BadInput("the setting chaos is about executors, and no cell of the run has any", hint=HINT)
    strange = [blow for blow in blows_asked if blow.stage not in there]
    if strange:
        known = ", ".join(there)
        raise BadInput(f"the setting chaos: {strange[0].text}: no cell has a phase {strange[0].stage}", hint=known)


BASE = re.compile(r"^https?://[^\s/]+(/\S*)?$")


@dataclass(frozen=True)
class ImageMirror:
    """Where images come from instead.

    rules: the beginning of an address, and what to put in its place; the longest that fits is used. "" fits every
        address and stands for a mirror with one folder per host: its place comes before host and path.
    credentials, certificates: a Secret and a ConfigMap in the golden images' namespace that imports from it need.
    """

    rules: tuple[tuple[str, str], ...]
    credentials: str | None = None
    certificates: str | None = None

    @staticmethod
    def parse(text: str, credentials: str | None = None, certificates: str | None = None) -> ImageMirror:
        """Read the setting: `URL`, or `PREFIX=URL`, or several of them with commas in between.

        Raises:
            ValueError: a part is neither.
        """
        rules = []
        for part in text.split(","):
            prefix, equals, place = part.strip().rpartition("=")
            if not BASE.match(place) or (equals and not BASE.match(prefix)):
                raise ValueError(f"{part.strip()!r} is neither URL nor PREFIX=URL, both http(s)")
            rules.append((prefix, place))
        return ImageMirror(tuple(rules), credentials, certificates)

    def address(self, url: str) -> str:
        """Return the mirror's address of a file, or the file's own where no rule fits."""
        fitting = [rule for rule in self.rules if _below(url, rule[0])]
        if not fitting:
            return url
        prefix, place = max(fitting, key=lambda rule: len(rule[0]))
        parts = urlsplit(url)
        rest = url.removeprefix(prefix) if prefix else f"{parts.netloc}{parts.path}"
        return f"{place.rstrip('/')}/{rest.lstrip('/')}"

    def image(self, image: DiskImage) -> DiskImage:
        """Return an image with its mirror's addresses; an image that is built here stays as it is."""
        source = image.source
        if not isinstance(source, UrlSource) or self.address(source.url) == source.url:
            return image
        listed = self.address(source.checksum_url) if source.checksum_url else None
        changed: dict[str, str | None] = {"url": self.address(source.url), "checksum_url": listed}
        changed |= {"credentials": self.credentials, "certificates": self.certificates}
        return image.model_copy(update={"source": source.model_copy(update=changed)})


def _below(url: str, prefix: str) -> bool:
    """Tell whether an address is below another one, by whole names: /a is not below it of /ab."""
    return url.startswith(prefix) and (not prefix or prefix.endswith("/") or url[len(prefix) :][:1] in {"", "/"})


FILE = SETTINGS
PREFIX = "VMATRIX_"
DEFAULT = "default"
DEFAULT_RUNS = Path("runs")
KUBECONFIG = "kubeconfig"  # the provider that has a kubeconfig
RESOLVED = "VMATRIX_RESOLVED_SETTINGS"  # variable by which `vmatrix run` hands settings to its own pytest
# The last two: of vmatrix's own image, and of the tests with a real GitLab Runner.
NOT_SETTINGS = frozenset(
    {
        *(PRODUCT, PROJECT, RESOLVED, product_files.VARIABLE),
        *("VMATRIX_INSTANCE", "VMATRIX_REVISION", "VMATRIX_GITLAB_RUNNER"),
    }
)


def _networks(text: str) -> str:
    for network in text.split(","):
        ip_network(network.strip())
    return text


def networks_of(text: str | None) -> tuple[str, ...]:
    """Return the networks of a setting that has them with commas."""
    return tuple(network.strip() for network in (text or "").split(",") if network.strip())


def _url(text: str) -> str:
    if wrong := wrong_url(text):
        raise ValueError(wrong)
    return text


def _registry(text: str) -> str:
    if wrong := wrong_address(text, port_needed=False):
        raise ValueError(wrong)
    return text


# Namespaces by a glob: whose they are. Cells in one would be beside what the infra cluster itself is made of, and a
# NetworkPolicy or a quota there would be about both.
NOT_FOR_CELLS: Mapping[str, str] = {
    "kube-*": "Kubernetes's own",
    **dict.fromkeys(("openshift", "openshift-*"), "OpenShift's own"),
    "kubevirt": "KubeVirt's",
    "cdi": "CDI's",
    **dict.fromkeys(("vmatrix-images", "vmatrix-schedule"), "vmatrix's own"),
}


def _for_cells(text: str) -> str:
    whose = next((whose for glob, whose in NOT_FOR_CELLS.items() if fnmatchcase(text, glob)), None)
    if whose is not None:
        raise ValueError(f"the namespace {text} is {whose}, and cells cannot share it; create another one for them")
    return text


def _address(text: str) -> str:
    if wrong := wrong_address(text, port_needed=True):
        raise ValueError(wrong)
    return text


def _image_mirror(text: str) -> str:
    ImageMirror.parse(text)
    return text


@dataclass(frozen=True)
class Panel:
    """Marks a setting as an option of `vmatrix run` and of pytest; the title groups it in the help."""

    title: str


CLUSTER = Panel("Infra cluster")
LIMITS = Panel("Limits")
RESULTS = Panel("Results")


class Settings(Model):
    """What a person may choose: in vmatrix.yml, by VMATRIX_* variables and by options."""

    provider: Annotated[Literal["embedded", "kind", "kubeconfig"], CLUSTER] = Field(
        default="embedded",
        description="Infra cluster: `embedded` runs on this host, `kind` in a container; `kubeconfig` is an existing "
        "cluster with KubeVirt and CDI.",
    )
    infra_profile: Annotated[str | None, CLUSTER] = Field(
        default=None, description="Infra profile in matrix/infras.yml; default: the first one of the provider."
    )
    infra_name: Annotated[str, StringConstraints(pattern=INSTANCE), CLUSTER] = Field(
        default="default", description="Name of the instance, for providers embedded and kind."
    )
    infra_up: Annotated[bool, CLUSTER] = Field(
        default=True,
        description="Bring up the instance that a run needs if it is not up, for providers embedded and kind; without "
        "it, such a run is refused.",
    )
    kubevirt: Literal["release", "embedded"] | None = Field(
        default=None,
        description="KubeVirt of a kind instance: `release` installs KubeVirt and CDI in the cluster, `embedded` runs "
        "machines on this host; default: what the instance has, `release` for a new one.",
    )
    releases: Path | None = Field(
        default=None,
        description="File of KubeVirt and CDI releases, for provider kind; default: deploy/kind/releases.yml.",
    )
    kvm: Literal["auto", "use", "hide"] | None = Field(
        default=None,
        description="KVM of this host, for a kind instance with releases: `use` it, `hide` it from the node and "
        "emulate processors, or `auto`: use it if a small virtual machine runs on it; default: what the instance has, "
        "`auto` for a new one.",
    )
    kubeconfig: Annotated[Path | None, CLUSTER] = Field(
        default=None, description="Kubeconfig of the infra cluster; the option chooses provider kubeconfig."
    )
    context: Annotated[str | None, CLUSTER] = Field(
        default=None, description="Context in the kubeconfig, for provider kubeconfig; default: its current context."
    )
    namespace: Annotated[
        Annotated[str, StringConstraints(pattern=NAMESPACE), AfterValidator(_for_cells)] | None, CLUSTER
    ] = Field(default=None, description="Existing namespace shared by all cells; default: one namespace per cell.")
    access: Annotated[Literal["direct", "portforward"] | None, CLUSTER] = Field(
        default=None,
        description="How to connect to machines: `direct`, or `portforward` through the infra cluster's API; default: "
        "chosen by the provider.",
    )
    mirror_http: Annotated[str, AfterValidator(_url)] | None = Field(
        default=None, description="URL from which guests download binaries, for provider kubeconfig."
    )
    registry: Annotated[str, AfterValidator(_registry)] | None = Field(
        default=None, description="Registry (host:port) from which guests pull images, for provider kubeconfig."
    )
    image_url: Annotated[str, AfterValidator(_url)] | None = Field(
        default=None,
        description="Base URL of disk images, for provider kubeconfig; default: images/ on the mirror.",
    )
    image_mirror: Annotated[str, AfterValidator(_image_mirror)] | None = Field(
        default=None,
        description="Mirror of `url` images: its URL, below which it keeps HOST/PATH of every image, or PREFIX=URL "
        "pairs with commas, which replace the beginning of addresses.",
    )
    image_mirror_credentials: Name | None = Field(
        default=None,
        description="Secret (accessKeyId, secretKey) in the namespace of the golden images, for the image mirror.",
    )
    image_mirror_certificates: Name | None = Field(
        default=None,
        description="ConfigMap of PEM files in the namespace of the golden images, for the image mirror.",
    )
    storage_class: str | None = Field(
        default=None, description="Storage class of machines' disks; default: the infra cluster's default."
    )
    binding: Literal["bridge", "masquerade"] = Field(
        default="bridge",
        description="Binding of machines to the pod network. With `masquerade` every machine has the address 10.0.2.2, "
        "so it only suits cells of one machine.",
    )
    guest_vars: Path | None = Field(
        default=None,
        description="YAML file of playbook variables that machines need, for provider kubeconfig and for kind with "
        "releases: nested networks, a VXLAN port, kernel settings.",
    )
    outer_networks: Annotated[str, AfterValidator(_networks)] | None = Field(
        default=None,
        description="Pod and service networks of the infra cluster, for provider kubeconfig: CIDRs with commas. "
        "Networks that can be read from the cluster are found automatically.",
    )
    network_policy: bool = Field(
        default=True,
        description="Create a NetworkPolicy per cell: machines reach each other, the mirror, the registry and DNS, and "
        "upstream sites if the cell needs them.",
    )
    network_policy_egress: Annotated[str, AfterValidator(_networks)] | None = Field(
        default=None, description="More networks that machines may connect to: CIDRs with commas."
    )
    network_policy_ingress: Annotated[str, AfterValidator(_networks)] | None = Field(
        default=None, description="More networks that may connect to machines: CIDRs with commas."
    )
    artifact_source: Literal["auto", "gomod", "release"] = Field(
        default="auto",
        description="Source of binaries: `release` downloads them, `gomod` builds them, `auto` downloads them if the "
        "release sites answer and builds them otherwise.",
    )
    runs: Annotated[Path, RESULTS] = Field(default=DEFAULT_RUNS, description="Directory of run results.")
    keep: Annotated[Literal["always", "failed", "never"] | None, RESULTS] = Field(
        default=None, description="Cells that are kept until they expire; default: never."
    )
    keep_on_failure: Annotated[bool, RESULTS] = Field(default=False, description="The same as --keep failed.")
    report_history: Annotated[Literal["file", "package"], BeforeValidator(renamed.current_store)] = Field(
        default="file",
        description="Where `vmatrix report` keeps every cell run: in a `file`, or in a generic `package` of the GitLab "
        "project.",
    )
    report_file: Path | None = Field(
        default=None,
        description="History of the runs on this machine; cells are ordered by it. Default: history.jsonl in the runs "
        "directory.",
    )
    report_package: Annotated[str, StringConstraints(pattern=PACKAGE)] = Field(
        default="vmatrix-history", description="Package name for report_history `package`."
    )
    report_keep_days: float = Field(
        default=30.0,
        gt=0,
        le=3660,
        description="Days after which `vmatrix history compact` drops the details of a cell run.",
    )
    alert_webhook: Annotated[str, AfterValidator(_url)] | None = Field(
        default=None, description="URL that `vmatrix report --alert` tells of new failures, fixed ones, missing nights."
    )
    alert_form: Literal["json", "slack", "mattermost"] = Field(
        default="json", description="What is sent to alert_webhook: JSON of the event, or a message."
    )
    alert_mail_to: str | None = Field(default=None, description="Addresses that get alerts by e-mail, with commas.")
    alert_mail_from: str | None = Field(default=None, description="Address that alerts come from.")
    alert_smtp: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None,
        description="SMTP server (host:port) for alerts: port 465 with TLS, others with STARTTLS where they offer it.",
    )
    alert_smtp_user: str | None = Field(
        default=None, description="User of the SMTP server; MATRIX_ALERT_PASSWORD has the password."
    )
    alert_infra_rate: float = Field(
        default=0.2, ge=0, le=1, description="Share of cells that fail by the infrastructure, above which it is told."
    )
    quarantine_rate: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Rate at which a check fails by chance, above which `vmatrix gitlab issues` proposes a quarantine.",
    )
    timeout_scale: Annotated[float, LIMITS] = Field(
        default=1.0,
        gt=0,
        le=100,
        description="Factor for all time-outs, those of the playbooks (cluster_timeout_scale) included.",
    )
    max_memory_mib: Annotated[int | None, LIMITS] = Field(
        default=None, gt=0, description="Maximum memory (MiB) of the run's machines at a time."
    )
    max_cpus: Annotated[float | None, LIMITS] = Field(
        default=None, gt=0, description="Maximum CPUs of the run's machines at a time."
    )
    max_machines: Annotated[int | None, LIMITS] = Field(
        default=None, gt=0, description="Maximum number of the run's machines at a time."
    )
    chaos: Annotated[str, AfterValidator(checked)] | None = Field(
        default=None,
        description="Programs of a declared product that are ended while it works: executor@TASK, manager@TASK or "
        "eviction@TASK, with semicolons (docs/chaos.md).",
    )
    expiry_hours: float = Field(
        default=4.0, gt=0, le=168, description="Hours after which `vmatrix reap --expired` deletes a cell."
    )

    @field_validator("releases", "kubeconfig", "guest_vars", "runs", "report_file", mode="before")
    @classmethod
    def _paths(cls, path: Any) -> Any:
        if isinstance(path, str) and (wrong := wrong_path(path)):
            raise ValueError(wrong)
        return os.path.expanduser(path) if isinstance(path, str | Path) else path

    @field_validator(
        "report_keep_days", "alert_infra_rate", "quarantine_rate", "timeout_scale", "max_memory_mib", "max_cpus",
        "max_machines", "expiry_hours", mode="before",
    )  # fmt: skip
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if isinstance(value, bool):  # `yes`, which Python takes for 1; the number of a variable or an option is a text
            raise ValueError("expected a number")
        return value

    @property
    def keeps(self) -> Literal["always", "failed", "never"]:
        """Return which cells are kept."""
        return self.keep or ("failed" if self.keep_on_failure else "never")


@dataclass(frozen=True)
class Sourced:
    """The settings and, by name, where each came from: "default", "vmatrix.yml:3", "VMATRIX_RUNS" or "--runs"."""

    settings: Settings
    origin: Mapping[str, str]

    def dump(self) -> str:
        """Return them as JSON, for a process that is to have the same ones."""
        return json.dumps({"settings": self.settings.model_dump(mode="json"), "origin": dict(self.origin)})

    @staticmethod
    def load(text: str) -> Sourced:
        """Return what `dump` wrote."""
        content = json.loads(text)
        return Sourced(Settings.model_validate(content["settings"]), content["origin"])


def load_settings(
    directory: Path, *, environment: Mapping[str, str] | None = None, options: Mapping[str, Any] | None = None
) -> Sourced:
    """Load the settings for a working directory.

    Args:
        directory: where vmatrix.yml is looked for; it may be absent. Relative paths in it start there, as does the
            default of `runs` if that is the project that the working directory lies in.
        environment: variables, os.environ without it.
        options: values from the command line, None for those not given.

    Raises:
        BadInput: every mistake in the file; an unknown or malformed variable or option.
    """
    values, origin = _from_file(directory / FILE)
    if directory == enclosing_project():
        values.setdefault("runs", _beside(directory, DEFAULT_RUNS))
    for variable, text in sorted((os.environ if environment is None else environment).items()):
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS and not is_ours(variable):
            name = variable.removeprefix(PREFIX).lower()
            if name in renamed.IGNORED:
                renamed.ignored(name, variable)
                continue
            if name in renamed.SETTINGS:
                name = renamed.SETTINGS[name]
                renamed.notice(variable, PREFIX + name.upper())
            values[name] = _parse(name, text, variable)
            origin[name] = variable
    for name, value in _meant(options or {}).items():
        if value is not None:
            option = "--" + name.replace("_", "-")
            values[name] = _parse(name, value, option)
            origin[name] = option
    settings = Settings(**values)
    return Sourced(settings, {name: origin.get(name, DEFAULT) for name in Settings.model_fields})


def _meant(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the provider that they mean: a kubeconfig among them says which.

    Raises:
        BadInput: another provider is asked for besides.
    """
    provider = options.get("provider")
    if options.get("kubeconfig") is None or provider == KUBECONFIG:
        return dict(options)
    if provider is not None:
        raise BadInput(f"--kubeconfig is for provider {KUBECONFIG}, not {provider}", hint="pass one of them")
    return {**options, "provider": KUBECONFIG}


def _from_file(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    if not lexists(file):
        loader.refuse_settings(file)
        return {}, {}
    document, problems = lines.read(file)
    document = _with_present_names(document)
    removed = [name for name in renamed.REFUSED if isinstance(document.content, dict) and name in document.content]
    problems = [*problems, *(document.problem((name,), renamed.REFUSED[name]) for name in removed)]
    parsed: Settings | None = None
    if not problems:
        parsed, problems = validate(document, Settings)
    if problems or parsed is None:
        raise refuse(problems)
    content = document.content or {}
    values = {name: getattr(parsed, name) for name in content}
    values = {name: _beside(file.parent, value) if isinstance(value, Path) else value for name, value in values.items()}
    shown = _beside(file.parent, Path(file.name))
    return values, {name: f"{shown}:{document.line_of((name,))}" for name in content}


def _beside(folder: Path, path: Path) -> Path:
    """Return a path that starts at a folder as one that starts at the working directory, which may lie deeper."""
    here = Path.cwd()
    return path if path.is_absolute() or folder == here else Path(os.path.relpath(folder / path, here))


def _with_present_names(document: lines.Document) -> lines.Document:
    """Return a settings file with every former name replaced, each of which is told."""
    if not isinstance(document.content, dict):
        return document
    content, places, written = dict(document.content), dict(document.lines), dict(document.written)
    for old, new in renamed.SETTINGS.items():
        if old in content and new not in content:
            places[(new,)] = places[(old,)]
            content[new] = content.pop(old)
            written |= {(new,): written.pop((old,))} if (old,) in written else {}
            renamed.notice(old, new, f"{document.file.name}:{places[(new,)]}")
    for old in renamed.IGNORED.keys() & content.keys():
        renamed.ignored(old, f"{document.file.name}:{places[(old,)]}")
        del content[old]
        written = {at: text for at, text in written.items() if at[0] != old}
    if "provider" in content:
        where = f"{document.file.name}:{places[('provider',)]}"
        content["provider"] = renamed.current_provider(content["provider"], where)
    return replace(document, content=content, lines=places, written=written)


SECRET = frozenset({"alert_webhook"})  # settings that nothing prints: who knows the address may post


def _parse(name: str, value: Any, origin: str) -> Any:
    if name in renamed.REFUSED:
        raise BadInput(f"{origin} is not a setting any more", hint=renamed.REFUSED[name])
    if name not in Settings.model_fields:
        known = ", ".join(f"{PREFIX}{n.upper()}" for n in Settings.model_fields)
        raise BadInput(f"{origin} is not a setting", hint=f"known: {known}")
    if name == "provider":
        value = renamed.current_provider(value, origin)
    try:
        return getattr(Settings.model_validate({name: value}), name)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = WANTED.get((first.get("ctx") or {}).get("pattern", ""), first["msg"].removeprefix("Value error, "))
        raise BadInput(
            f"{origin}: {message}{'' if name in SECRET else f', got {value!r}'}",
            hint="`vmatrix config` shows every setting",
        ) from error
