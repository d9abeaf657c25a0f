"""One run of an operation's playbook: with what is kept of the cluster before it, and keeping it after each play."""

from __future__ import annotations

import base64
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificate
from cryptography.x509.oid import NameOID

from harness.errors import BadInput, VmatrixError
from harness.machines.reach.ssh import close_connections, control_directory
from harness.machines.runner.call import AnsibleCall, Listener
from harness.machines.runner.playbook import run_playbook
from harness.machines.runner.playbook_output import task_of
from harness.operator.api.rules import variable
from harness.operator.decide.observed import DRILL
from harness.operator.execute import termination
from harness.operator.execute.inputs import ADOPT, BACKUP, RESET, OperationFolder
from harness.operator.execute.own_objects import OwnObjects
from harness.operator.execute.snapshots import SnapshotStore
from harness.operator.execute.termination import PlayProgress, SnapshotFact, Termination
from harness.operator.execute.workplace import Workplace, call_of, playbook_of, variables_of
from harness.sanitize import scrubber

CHANGED = re.compile(r"^changed: \[([^\]]+)\]")
TOLD = 5  # tasks; the log has all of them


def compare(call: AnsibleCall, run: Callable[[AnsibleCall], object], output: Callable[[], str]) -> None:
    """Run a playbook that changes nothing; then let it store what is kept of the cluster.

    Args:
        call: how Ansible is called.  run: runs the playbook.  output: returns what it has printed.

    Raises:
        BadInput: it would have changed something.
    """
    run(replace(call, arguments=(*call.arguments, "--check")))
    would = changes(output())
    if would:
        more = f" and {len(would) - TOLD} more" if len(would) > TOLD else ""
        raise BadInput(
            f"what runs differs from the object: {', '.join(would[:TOLD])}{more} would change something",
            hint="correct the object; with --check --diff, cluster.yml shows each difference. Nothing was changed",
        )
    run(call)


def changes(output: str) -> list[str]:
    """Return the tasks that changed something, each with its machine, in their order."""
    changed_tasks: dict[str, None] = {}
    task = ""
    for line in output.splitlines():
        task = task_of(line) or task
        if changed := CHANGED.match(line):
            changed_tasks.setdefault(f"[{task}] on {changed[1]}")
    return list(changed_tasks)


VERSION = variable("kubernetes")
PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def authorities(kept: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each authority's certificate in what is kept of a cluster, by `authority-` and its name.

    A snapshot is of use only to a cluster with the same ones.
    """
    texts = (text for content in kept.values() for text in _texts(content))
    fingerprints: dict[str, str] = {}
    for certificate in (load_pem_x509_certificate(pem.encode()) for text in texts for pem in PEM.findall(text)):
        if certificate.subject == certificate.issuer:  # not what it has signed
            names = [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
            fingerprints["-".join(("authority", *names))] = certificate.fingerprint(SHA256()).hex()
    return fingerprints


def _texts(content: bytes) -> Iterator[str]:
    """Yield each text in a file that is kept; an authority is decoded."""
    whole = content.decode("utf-8", "replace")
    try:
        parsed = yaml.safe_load(whole)
    except yaml.YAMLError:
        parsed = whole
    for name, text in _leaves("", parsed):
        if name.endswith("certificate-authority-data"):
            with suppress(ValueError):  # whoever reads the kubeconfig says what is wrong with it
                yield base64.b64decode(text).decode("utf-8", "replace")
        else:
            yield text


CREDENTIAL = re.compile(r"key|token|password|secret", re.IGNORECASE)  # in the name of a field of what is kept


def scrubber_of(variables: Mapping[str, Any], kept: Mapping[str, bytes]) -> Callable[[str], str]:
    """Return what masks them in a text, and whatever else looks like a secret.

    Args:
        variables: of the playbooks; what lies in a list or a mapping is named after all that it lies in.
        kept: files of the cluster's state: YAML, or a secret and nothing else but lines of comment.
    """
    named = dict(_leaves("", variables))
    credentials = {credential for content in kept.values() for credential in _credentials(content)}
    return scrubber(
        {**named, **{f"{number}_SECRET": credential for number, credential in enumerate(sorted(credentials))}}
    )


def _credentials(content: bytes) -> Iterator[str]:
    text = content.decode("utf-8", "replace").strip()
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        document = text
    if not isinstance(document, dict | list):
        yield "\n".join(line for line in text.splitlines() if not line.startswith("#")).strip()
        return
    yield from (value for name, value in _leaves("", document) if CREDENTIAL.search(name))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each text in a value with the names of all that it lies in."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name}_{key}" if name else str(key), inner)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _leaves(f"{name}_{number}", inner)
    elif isinstance(value, str):
        yield name, value


GRACE_SECONDS = 20.0  # for Ansible to end once it is told to; a pod has pod.GRACE_SECONDS in all
END_SECONDS = 60.0  # before a Job's deadline: whoever is over it is deleted with all that it would say
LEAST_SHARE = 0.5  # of a deadline that is shorter than that


class OperationRun:
    """A run, from its files to its end; `finish` is called once, however `run` ended."""

    def __init__(
        self,
        folder: OperationFolder,
        playbooks: Path | None,
        work: Path,
        own: OwnObjects,
        store: SnapshotStore | None = None,
    ) -> None:
        self._folder, self._own = folder, own
        self._playbook = playbook_of(folder.product, folder.entry, playbooks)
        self._call = call_of(folder.product, folder.operation, playbooks)
        self._variables = variables_of(folder.product, folder.operation, folder.variables)
        self._store = store
        self._taken: dict[str, SnapshotFact] = {}
        self._place = Workplace(work, store.path if store is not None else None)
        self._progress = PlayProgress(own.annotate)
        self._scrub = scrubber_of(self._variables, {})
        self._restored = False

    def run(self, kubeconfig: Path | None) -> None:
        """Run the playbook.

        Args:
            kubeconfig: of the infra cluster, if there is one.

        Raises:
            BadInput: the folder names no playbook, or a key is missing.
            ProductError, InfraError: the playbook failed, or the API of the infra cluster did.
        """
        folder, place = self._folder, self._place
        plain = folder.product is not None or Path(folder.entry).name == folder.entry
        if not plain or not self._playbook.is_file():
            hint = "spec.playbooks.image has to have what the product file names" if folder.product is not None else ""
            raise BadInput(f"there is no playbook {folder.entry} in {self._playbook.parent}", hint=hint)
        inputs = place.prepare(folder, kubeconfig)
        self._restore()
        if self._store is not None:
            self._store.begin(folder.operation)
        seconds = folder.deadline_seconds - self._own.elapsed()
        _show(f"{folder.operation} of {folder.cluster}: {folder.entry} of {termination.revision()}")
        self._progress.start()
        run = partial(
            run_playbook,
            inputs,
            self._playbook,
            timeout=max(seconds - END_SECONDS, seconds * LEAST_SHARE),
            log=place.log,
            listener=Listener(self._begin_play, self._begin_task, lambda line: _show(self._scrub(line))),
            grace=GRACE_SECONDS,
        )
        if folder.operation == ADOPT:
            read_log = partial(place.log.read_text, encoding="utf-8", errors="replace")
            compare(self._call, lambda call: run(call=call), read_log)
        else:
            run(call=self._call)
        if self._store is not None and folder.operation == BACKUP:
            self._taken = self._store.end({"kubernetesVersion": self._version(), **authorities(self._place.kept())})
        elif self._store is not None and folder.operation == DRILL:
            self._taken = dict(self._store.proven())

    def finish(self, error: VmatrixError | None) -> tuple[Termination, VmatrixError | None]:
        """Keep what there is to keep, and say how it ended; return both, as they are now.

        Args:
            error: what `run` failed with. Without one, what cannot be kept is an error of its own.
        """
        self._progress.stop()
        self._place.forget()
        close_connections(control_directory(self._folder.job, self._folder.namespace))
        if self._restored:
            try:
                self._keep(nothing=error is None and self._folder.operation == RESET)
            except VmatrixError as failure:
                _show(f"what the playbook keeps could not be written: {failure.summary}")
                error = error or failure
        output = self._place.log.read_text(encoding="utf-8", errors="replace") if self._place.log.is_file() else ""
        log = f"vmatrix operator log {self._folder.cluster} {self._folder.sequence}"
        end = termination.end_of(error, self._progress, self._place.events, output, log)
        end = replace(end, summary=self._scrub(end.summary), snapshot=self._taken)
        message = "\n".join(line for line in (f"{end.outcome}: {end.summary}".rstrip(": "), end.hint) if line)
        _show(message)
        try:
            self._own.keep_log(self._scrub(f"{output}{message}\n"), end)
        except VmatrixError as failure:
            _show(f"the log could not be kept: {failure.summary}")
        return end, error

    def _restore(self) -> None:
        """Have what is kept of the cluster, and nothing of an earlier run."""
        if self._own.cluster is not None:
            shutil.rmtree(self._place.state)
            self._place.state.mkdir(mode=0o700)
        self._place.log.unlink(missing_ok=True)
        self._own.restore(self._place.state)
        self._restored = True
        self._scrub = scrubber_of(self._variables, self._place.kept())

    def _version(self) -> str:
        return str(self._folder.variables.get(VERSION, ""))

    def _begin_play(self, name: str) -> None:
        """Say it; keep what the play before has left, if that can be done: the end is another chance."""
        self._progress.play, self._progress.task = name, ""
        try:
            self._keep()
        except VmatrixError as failure:
            _show(f"what the playbook keeps could not be written yet: {failure.summary}")

    def _begin_task(self, name: str) -> None:
        self._progress.task = name

    def _keep(self, *, nothing: bool = False) -> None:
        """Keep what the playbook has left, masked from now on; `nothing`: of a cluster that was reset."""
        if nothing:
            for name in self._place.kept():
                (self._place.state / name).unlink()
        kept = self._place.kept()
        self._scrub = scrubber_of(self._variables, kept)
        self._own.save(kept)


def _show(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
