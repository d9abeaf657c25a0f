"""An operation's objects on a real API server, and its executor here, with a token of the executors' account."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.kube.client import Cluster
from harness.kube.in_cluster import config_of
from harness.kube.resources import CONFIG_MAP, SECRET, SERVICE_ACCOUNT
from harness.operator.api.resources import CLUSTER
from harness.operator.execute.inputs import Execution, executor_name, state_name
from harness.operator.execute.objects import make
from harness.operator.execute.termination import Termination
from tests.unit.operator.execute.operations import execution, host, write_folder

NAME = "prod"
SECONDS = 300.0  # against hanging: a run takes about four
Plays = list[list[dict[str, Any]]]


@dataclass
class Lab:
    """A cluster's operations in a namespace. administrator: the kubeconfig that `api` was opened from."""

    api: Cluster
    namespace: str
    administrator: Path
    folder: Path

    def owner(self) -> dict[str, Any]:
        """Return the Cluster that all of it belongs to, made first if need be."""
        body = {"apiVersion": CLUSTER.api_version, "kind": "Cluster"}
        return self.api.ensure(CLUSTER, {**body, "metadata": {"name": NAME, "namespace": self.namespace}})

    def execution(self, **changes: Any) -> Execution:
        """Return an operation on one machine."""
        return execution(**{"namespace": self.namespace, "hosts": (host("cp-0"),), **changes})

    def make(self, **changes: Any) -> Execution:
        """Make an operation's objects."""
        made = self.execution(**changes)
        make(self.api, made, self.owner())
        return made

    def kubeconfig(self) -> Path:
        """Return a kubeconfig with a token of the executors' account, as their pods have one."""
        path = f"{SERVICE_ACCOUNT.path(self.namespace, executor_name(NAME))}/token"
        answer = self.api.request("POST", path, body={"spec": {"expirationSeconds": 3600}})
        own = yaml.safe_load(self.administrator.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        content = config_of(own, {"token": answer["status"]["token"]}, namespace=self.namespace)
        target = self.folder / "account.kubeconfig"
        target.write_text(json.dumps(content), encoding="utf-8")
        return target

    def account(self) -> Cluster:
        """Return a client that may do what an executor may."""
        return Cluster.from_kubeconfig(self.kubeconfig())

    def state(self) -> dict[str, bytes]:
        """Return what is kept of the cluster."""
        found = self.api.get(SECRET, state_name(NAME), self.namespace)
        assert found is not None
        return {name: base64.b64decode(content) for name, content in (found.get("data") or {}).items()}

    def start(self, made: Execution, plays: Plays, *, work: str = "work", with_playbook: bool = True) -> Executor:
        """Start an executor whose inputs are those in the operation's ConfigMap; its machine is this host."""
        found = self.api.get(CONFIG_MAP, made.job, self.namespace)
        assert found is not None
        inputs, playbooks, report = self.folder / "in", self.folder / "playbooks", self.folder / "report"
        write_folder(inputs, made, local=True)
        assert (inputs / "operation.json").read_text(encoding="utf-8") == found["data"]["operation.json"]
        playbooks.mkdir(exist_ok=True)
        (playbooks / "ansible.cfg").touch()
        content = [
            {"name": name, "hosts": "all", "gather_facts": False, "tasks": tasks}
            for name, tasks in zip(("First", "Second"), plays, strict=False)
        ]
        if with_playbook:
            (playbooks / made.entry).write_text(yaml.safe_dump(content), encoding="utf-8")
        words = ["--from", inputs, "--playbooks", playbooks, "--work", self.folder / work, "--report", report]
        words += ["--kubeconfig", self.kubeconfig()]
        argv = [Path(sys.executable).with_name("vmatrix"), "operator", "execute", *words]
        started = subprocess.Popen(
            [str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return Executor(started, report)

    def run(self, made: Execution, plays: Plays, *, work: str = "work") -> Executor:
        """Run an executor to its end."""
        executor = self.start(made, plays, work=work)
        executor.wait()
        return executor


@dataclass
class Executor:
    """An executor's process."""

    process: subprocess.Popen[str]
    report: Path
    said: str = ""

    def wait(self) -> int:
        """Wait for its end; return its exit status."""
        said, _ = self.process.communicate(timeout=SECONDS)
        self.said += said
        return self.process.returncode

    @property
    def end(self) -> Termination:
        """Return what it said of its end."""
        found = Termination.parse(self.report.read_text(encoding="utf-8"))
        assert found is not None, self.said
        return found
