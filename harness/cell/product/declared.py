"""A product of kind `declared`: each phase is an edit of objects in the infra cluster, which a controller acts on."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.cell.product.chaos import Chaos
from harness.cell.product.declared_install import (
    TEMPLATE,
    apply_all,
    apply_in_guest,
    given,
    install_controllers,
    install_kinds,
    objects,
    rendered,
    served,
)
from harness.cell.product.declared_wait import Watched, addresses, deleted, jobs, keep_controllers, keep_logs
from harness.cell.product.protocol import OuterCluster, PhaseOutcome, PhaseRun, Tell
from harness.errors import HarnessBug, ProductError, VmatrixError
from harness.files import write_atomically
from harness.infra.deliveries import Commit, commit, texts_of
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import SECRET, Resource
from harness.model import Environment, Phase
from harness.paths import project_dir
from harness.proc import pasteable
from harness.spec.models import Product, ProductPhase, Timeouts
from harness.spec.models.product_declared import DeclaredOptions, DeletedObject, InObject, MadeMachines, Manifests
from harness.until import Deadline, NotYet

LONGEST = 200  # characters of a value in a message
ABSENT = "nothing"
UID = "{.metadata.uid}"


def refuse_different(watched: Watched, phase_run: PhaseRun) -> None:
    """Compare everything that the product's file names.

    Raises:
        ProductError: with all that differs.
    """
    differences = [
        *_expected(watched, phase_run),
        *_variables(watched, phase_run),
        *_machines(watched, phase_run.phase),
    ]
    if differences:
        hint = "the objects' status does not tell what the cell asked for"
        raise ProductError(differences[0], hint=hint, detail="\n".join(differences))


def _expected(watched: Watched, phase_run: PhaseRun) -> Iterator[str]:
    for variable, where in watched.options.expected.items():
        value, observed = phase_run.variables.get(variable), watched.value(where)
        if value is not None and str(observed) != str(value):
            yield f"{_place(watched, where)} is {observed!r}, and {variable} is {value!r}"


def _variables(watched: Watched, phase_run: PhaseRun) -> Iterator[str]:
    """Yield each variable that the cluster was not made with; they are compared as the JSON that an API keeps."""
    where = watched.options.variables
    if where is None:
        return
    observed = watched.value(where)
    known = observed if isinstance(observed, Mapping) else {}
    for name, value in sorted(phase_run.variables.items()):
        if name not in where.but and (name not in known or _json(known[name]) != _json(value)):
            has = _short(known[name]) if name in known else ABSENT
            yield f"{_place(watched, where)} has {has} for {name}, which is {_short(value)}"


def _machines(watched: Watched, phase: Phase) -> Iterator[str]:
    where = watched.options.machines
    if where is None:
        return
    left = sorted(name for name in phase.machines if name not in (*phase.removed, *phase.lost))
    names = watched.value(where)
    if not isinstance(names, list) or sorted(map(str, names)) != left:
        yield f"{_place(watched, where)} is {_short(names)}, and the machines of the cluster are {', '.join(left)}"


def _place(watched: Watched, where: InObject) -> str:
    return f"{where.path} of {where.kind or watched.options.object.kind}"


def read_values(watched: Watched, read: Mapping[str, InObject]) -> dict[str, Any]:
    """Return values of objects by their names in a template.

    Raises:
        ProductError: an object, or the value in it, is not there.
    """
    values = {name: watched.value(where) for name, where in read.items()}
    for name, value in values.items():
        if value is None:
            of = f"{_place(watched, read[name])} {read[name].name or watched.options.object.name}"
            raise ProductError(f"there is no {of}", hint=f"it is `read.{name}` of the phase")
    return values


def _json(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """Return plain data with whole numbers as an API server keeps them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _short(value: Any) -> str:
    text = _json(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def new_traces(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is there that was not, or is another: a line each."""
    return tuple(
        f"{name}: {before[name]}, then {value}" if name in before else f"{name} is new"
        for name, value in after.items()
        if before.get(name) != value
    )


@dataclass(frozen=True)
class DeclaredProduct:
    """Templates in a folder, and what product.yml says of the objects that come of them."""

    product: Product
    project: Path

    def prepare(self, tell: Tell, timeouts: Timeouts) -> None:
        """Have everything: that the templates are there was checked when product.yml was read."""

    def entries(self) -> tuple[Path, ...]:
        """Return that nothing of the cache is used."""
        return ()

    def command(self, phase: str, machines: Environment) -> str:
        """Return the kubectl command of a phase; the file has what the phase that was run last has applied."""
        edit, parts, target = self.product.phases[phase], list[str](), self._options.object
        for obj in edit.deleted:
            parts.append(f"kubectl --namespace {machines.namespace} delete {obj.kind.lower()} {obj.name}")
        if edit.apply is not None:
            file = pasteable([machines.files.applied])
            parts.append(f"kubectl --namespace {machines.namespace} apply --server-side --filename {file}")
        if edit.delete:
            parts.append(f"kubectl --namespace {machines.namespace} delete {target.kind.lower()} {target.name}")
        return " && ".join(parts)

    def run(self, phase_run: PhaseRun) -> PhaseOutcome:
        """Install what is needed, edit the objects, and wait until the controllers are done."""
        if phase_run.outer is None:
            raise HarnessBug("a declared phase has no infra cluster to apply its objects to")
        phase = _DeclaredPhase(phase_run, phase_run.outer, self._options, self._directory)
        phase_run.log.parent.mkdir(parents=True, exist_ok=True)
        phase_run.log.touch()
        before = phase.traces() if phase_run.again else {}
        phase.run(self.product.phases[phase_run.phase.name])
        changed = new_traces(before, phase.traces()) if phase_run.again else ()
        return PhaseOutcome(f"{self._options.object.kind} {self._options.object.name}", changed=changed)

    def make(self, phase_run: PhaseRun, planned: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        """Have the controllers make machines; return the machines' addresses by name.

        Args:
            phase_run: what comes first; it has no machines yet.  planned: what templates are given of each machine.
        """
        makes = self._options.makes
        if phase_run.outer is None or makes is None:
            raise HarnessBug("there is nothing to make machines of, or no infra cluster to make them in")
        phase_run.log.parent.mkdir(parents=True, exist_ok=True)
        phase_run.log.touch()
        try:
            return _DeclaredPhase(phase_run, phase_run.outer, self._options, self._directory).make(makes, planned)
        except VmatrixError as failure:
            failure.paths = (*failure.paths, phase_run.log)
            keep_controllers(phase_run.outer.cluster, phase_run.environment.namespace, phase_run.log)
            raise

    @property
    def _options(self) -> DeclaredOptions:
        if self.product.declared is None:
            raise HarnessBug(f"{self.product.name} is of kind declared and says nothing of its objects")
        return self.product.declared

    @property
    def _directory(self) -> Path:
        project = self.project if self.project.is_absolute() else project_dir() / self.project
        return project / self.product.directory


@dataclass(frozen=True)
class _DeclaredPhase:
    """One phase of one cell."""

    wanted: PhaseRun
    outer: OuterCluster
    options: DeclaredOptions
    directory: Path

    def run(self, edit: ProductPhase) -> None:
        environment, cluster = self.wanted.environment, self.outer.cluster
        namespace, log, deadline = environment.namespace, self.wanted.log, Deadline.after(self.wanted.timeout)
        watched = Watched(self.outer, namespace, self.options, self.wanted.on_task)
        selector = self.options.logs.jobs if self.options.logs is not None else None
        before = jobs(cluster, namespace, selector) if selector is not None else {}
        try:
            self._install(namespace)
            with self._disturbed(selector):
                if edit.deleted:
                    self._take_away(edit.deleted, watched, deadline)
                if edit.apply is not None:
                    self._apply(edit, watched, deadline)
                if edit.apply is not None or edit.deleted:
                    if edit.until is not None:
                        watched.wait_other(edit.until, deadline)
                    watched.wait_done(deadline)
                    if self.options.makes is not None:
                        deleted(watched, self.options.makes, self.wanted.phase.removed, deadline)
                if edit.delete:
                    self._delete(namespace)
                    watched.wait_gone(deadline)
            if self.wanted.phase.cluster:
                self._keep_kubeconfig(namespace)
                refuse_different(watched, self.wanted)
        except VmatrixError as failure:
            failure.paths = (*failure.paths, log)
            keep_controllers(cluster, namespace, log)
            raise
        finally:
            if selector is not None:
                now = jobs(cluster, namespace, selector)
                keep_logs(cluster, namespace, (name for uid, name in now.items() if uid not in before), log)

    def traces(self) -> dict[str, str]:
        """Return what shows afterwards that controllers had something to do: the object's generation, and Jobs."""
        watched = Watched(self.outer, self.wanted.environment.namespace, self.options, self.wanted.on_task)
        target, selector = self.options.object, self.options.logs.jobs if self.options.logs is not None else None
        obj = self.outer.cluster.get(watched.resource_at(), target.name, watched.namespace) or {}
        trace = {f"generation of {target.kind} {target.name}": str(dig(obj, "metadata", "generation") or "none")}
        made = jobs(self.outer.cluster, watched.namespace, selector) if selector is not None else {}
        return {**trace, **{f"Job {name}": uid for uid, name in made.items()}}

    @contextmanager
    def _disturbed(self, selector: str | None) -> Iterator[None]:
        """Have programs ended on request while the phase goes on; say whether it stood that."""
        blows = [blow for blow in self.outer.blows if blow.stage == self.wanted.stage]
        if not blows or selector is None:
            yield
            return
        environment = self.wanted.environment
        record = environment.files.chaos(self.wanted.stage)
        seconds = self.outer.timeouts.controllers
        with Chaos(self.outer.cluster, environment.namespace, selector, blows, record, seconds) as chaos:
            yield
            chaos.judge()

    def _given(self) -> dict[str, Any]:
        return given(self.wanted, self.outer, makes=self.options.makes is not None)

    def _rendered(self, source: str | Manifests, more: Mapping[str, Any] | None = None) -> list[Json]:
        seconds = self.outer.timeouts.controllers
        return objects(source, {**self._given(), "read": {}, "commit": {}, **(more or {})}, self.directory, seconds)

    def make(self, makes: MadeMachines, planned: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        """Apply the objects of which the controllers make machines; return these machines' addresses by name."""
        namespace, deadline = self.wanted.environment.namespace, Deadline.after(self.wanted.timeout)
        seconds = self.outer.timeouts.controllers
        self._install(namespace)
        values = {**given(self.wanted, self.outer, makes=True), "planned": list(planned)}
        apply_all(self.outer.cluster, namespace, objects(makes.apply, values, self.directory, seconds), deadline)
        watched = Watched(self.outer, namespace, self.options, self.wanted.on_task)
        return addresses(watched, makes, [str(machine["name"]) for machine in planned], deadline)

    def _install(self, namespace: str) -> None:
        kinds = [obj for source in self.options.install.cluster for obj in self._rendered(source)]
        install_kinds(self.outer, kinds)
        self.wanted.on_task("controllers")
        controllers = [obj for source in self.options.install.namespace for obj in self._rendered(source)]
        install_controllers(self.outer, namespace, controllers, kinds)

    def _apply(self, edit: ProductPhase, watched: Watched, deadline: Deadline) -> None:
        if edit.guest is not None and self.wanted.phase.delivery_into:
            apply_in_guest(self._guest(), self._rendered(edit.guest), deadline)
        read = {"read": read_values(watched, edit.read)}
        if edit.commit is not None:
            read["commit"] = asdict(self._commit(edit.commit))
        made, namespace = self._rendered(edit.apply or "", read), watched.namespace
        file = self.wanted.environment.files.applied
        file.parent.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump_all(made, sort_keys=False, width=200)
        write_atomically(file, text, mode=0o600)  # keys of machines are among the objects
        self._log(f"applied {file}: " + ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in made))
        apply_all(self.outer.cluster, namespace, made, deadline)

    def _commit(self, folder: str) -> Commit:
        """Commit the files of a folder; templates among them are given what those of objects are given."""
        values = self._given()
        texts = {
            name.removesuffix(TEMPLATE): rendered(f"{folder}/{name}", values, self.directory)
            if name.endswith(TEMPLATE)
            else text
            for name, text in texts_of(self.directory / folder).items()
        }
        made = commit(self.wanted.environment.files.repository, texts, self.wanted.stage)
        self._log(f"committed {made.revision}")
        return made

    def _take_away(self, objects: Sequence[DeletedObject], watched: Watched, deadline: Deadline) -> None:
        """Delete objects that are there, and wait until others of their names are."""
        guest = self._guest() if self.wanted.phase.delivery_into else None
        cluster, namespace = guest or self.outer.cluster, watched.namespace
        for obj in objects:
            at = InObject(apiVersion=obj.apiVersion, kind=obj.kind, path=UID)
            where = watched.resource_at(at) if guest is None else served(guest, obj.apiVersion, obj.kind, deadline)
            what = f"{obj.kind} {obj.name}"
            before = dig(cluster.get(where, obj.name, namespace), "metadata", "uid")
            if before is None:
                raise ProductError(f"there is no {what} to delete", hint="an earlier phase of the scenario makes it")
            cluster.delete(where, obj.name, namespace)
            self._log(f"deleted {what}")

            def look(where: Resource = where, name: str = obj.name, before: str = before) -> bool | NotYet:
                now = dig(cluster.get(where, name, namespace), "metadata", "uid")
                return now not in (None, before) or NotYet("it is not there" if now is None else "it is being deleted")

            watched.wait(look, f"another {what}", deadline)

    def _guest(self) -> Cluster:
        if self.wanted.guest is None:
            raise HarnessBug("there is no way to the guest cluster that the phase puts something into")
        return Cluster.from_kubeconfig(self.wanted.guest)

    def _delete(self, namespace: str) -> None:
        target = self.options.object
        watched = Watched(self.outer, namespace, self.options, self.wanted.on_task)
        self._log(f"deleted {target.kind} {target.name}")
        self.outer.cluster.delete(watched.resource_at(), target.name, namespace)

    def _keep_kubeconfig(self, namespace: str) -> None:
        place = self.options.kubeconfig
        secret = self.outer.cluster.get(SECRET, place.secret, namespace) or {}
        held = (secret.get("data") or {}).get(place.key)
        if held is None:
            trouble = (
                f"Secret {place.secret} has no key {place.key}" if secret else f"there is no Secret {place.secret}"
            )
            hint = "see `kubeconfig` of the product"
            raise ProductError(f"{trouble}, where the guest's kubeconfig should be", hint=hint)
        try:
            text = base64.b64decode(held, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ProductError(f"key {place.key} of Secret {place.secret} is not text: {error}") from error
        write_atomically(self.wanted.environment.files.kubeconfig, text, mode=0o600)

    def _log(self, line: str) -> None:
        with self.wanted.log.open("a", encoding="utf-8") as log:
            log.write(line + "\n")
