"""A build's three programs on this host, without a cluster: each with the rights that its container has."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import proc
from harness.artifacts.listening import free_port
from harness.artifacts.own import push
from harness.artifacts.registry import writable
from harness.artifacts.store import Store
from harness.kube.client import Json
from harness.operator.api.delivery import Delivery
from harness.operator.build import job
from harness.operator.build.job import REPORT_FORM, BuildReport, BuildSettings, build_objects
from harness.operator.execute.objects import USER
from tests.embedded.deliveries.git_servers import GitServers

ROOT_RIGHTS = ("setpriv", "--bounding-set=-all,+setuid,+setgid", "--inh-caps=-all", "--no-new-privs")
# Of no user's; it reads a Python and a checkout that may be root's alone, where a pod has an image for everybody.
READS = "-all,+dac_read_search"
USER_RIGHTS = (
    *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"),
    *(f"--inh-caps={READS}", f"--ambient-caps={READS}", f"--bounding-set={READS}"),
)
SECONDS = 60.0
MAIN = """
import os, sys
from pathlib import Path
from harness.operator.build.program import Places, main
os.umask(0o022)
root = Path(sys.argv[2])
names = ("inputs", "workspace", "secrets", "tools", "sockets", "state", "report")
sys.exit(main(sys.argv[1], Places(*(root / name for name in names))))
"""


@dataclass
class BuildHost:
    """What a pod of a build has, as folders below `root`; and a registry that it pushes to."""

    root: Path
    registry: str
    servers: GitServers
    daemon: proc.Service | None = field(default=None)

    def prepare(self) -> None:
        """Lay out the programs and the folders."""
        store = Store()
        tools = self.root / "tools"
        tools.mkdir(parents=True)
        image = store.catalogue.image(push.BUILDER)
        for path, source in image.files.items():
            program, _, file = source.partition("/")
            version = image.versions.get(program, job.BUILDKIT_VERSION)
            shutil.copy(store.obtain(program, version).file(file), tools / Path(path).name)
        for name in ("workspace", "sockets", "state", "home"):
            (self.root / name).mkdir()
            os.chown(self.root / name, USER, USER)
        (self.root / "inputs").mkdir()

    def start(self) -> None:
        """Start the daemon."""
        words = [*proc.ending_with_us(), *ROOT_RIGHTS, *self._program("daemon")]
        self.daemon = proc.spawn(words, log=self.root / "daemon.log", env=self._environment())

    def stop(self) -> None:
        """End the daemon."""
        if self.daemon is not None:
            self.daemon.stop(grace=5.0)
            self.daemon = None

    def _program(self, name: str) -> list[str]:
        return [sys.executable, "-c", MAIN, name, str(self.root)]

    def _environment(self) -> dict[str, str]:
        return {"HOME": str(self.root / "home"), "TMPDIR": str(self.root / "home"), "PYTHONPATH": os.getcwd()}

    def delivery(self, source: Mapping[str, Any], build: Mapping[str, Any]) -> Delivery:
        """Return a Delivery."""
        whole = {"image": f"{self.registry}/app", "insecure": True, **build}
        body: Json = {
            "metadata": {"name": "app", "namespace": "n", "uid": "u"},
            "spec": {"source": source, "build": whole},
        }
        return Delivery.model_validate(body)

    def tell(self, delivery: Delivery, revision: str, registries: Sequence[str] = ()) -> None:
        """Write what the pod of a revision is told."""
        settings = BuildSettings(f"{self.registry}/vmatrix:1", registries=registries)
        config, _ = build_objects(delivery, revision, settings)
        for name, text in config["data"].items():
            (self.root / "inputs" / name).write_text(text, encoding="utf-8")

    def secret(self, name: str, data: Mapping[str, bytes]) -> None:
        """Mount a Secret."""
        folder = self.root / "secrets" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for key, value in data.items():
            (folder / key).write_bytes(value)

    def run(self, name: str) -> tuple[BuildReport, str]:
        """Run a program; return its report and its output."""
        report = self.root / "report"
        report.write_text("", encoding="utf-8")
        os.chown(report, USER, USER)
        # ssh refuses a user without a name, which only the image gives this one
        rights = USER_RIGHTS if name == "build" else ()
        words = [*rights, *self._program(name)]
        done = proc.run(words, timeout=SECONDS, check=False, env=self._environment(), on_line=lambda _: None)
        text = report.read_text(encoding="utf-8")
        assert text, done.stdout
        return REPORT_FORM.validate_json(text), done.stdout

    def deliver(self, delivery: Delivery, revision: str, registries: Sequence[str] = ()) -> tuple[BuildReport, str]:
        """Fetch and build a revision; return the last report, and all output."""
        self.tell(delivery, revision, registries)
        fetched, first = self.run("fetch")
        proc.run(["chown", "--recursive", f"{USER}:{USER}", self.root / "workspace"], timeout=SECONDS)
        if fetched.outcome == "failed":
            return fetched, first
        built, second = self.run("build")
        return built, first + second

    def tags(self, repository: str = "app") -> list[str]:
        """Return the tags of a repository."""
        done = proc.run(["curl", "-s", f"http://{self.registry}/v2/{repository}/tags/list"], timeout=10.0)
        return sorted(json.loads(done.stdout).get("tags") or [])


@contextmanager
def build_host(folder: Path) -> Iterator[BuildHost]:
    """Give a host with a running daemon, a registry and git servers as long as the body runs."""
    folder.chmod(0o755)
    with ExitStack() as stack:
        registry = stack.enter_context(writable(folder / "registry", Store()))
        (folder / "git").mkdir()
        servers = GitServers(folder / "git", https_port=free_port(), ssh_port=free_port())
        stack.callback(servers.stop)
        servers.start()
        made = BuildHost(folder / "pod", registry, servers)
        made.prepare()
        stack.callback(made.stop)
        made.tell(made.delivery({"git": servers.https("app")}, {}), "0" * 40)  # for the daemon's own file
        made.start()
        yield made
