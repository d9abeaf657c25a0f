"""Around an application that a product delivers: commits of a cell, the git server that has them, a client that asks.

The harness commits the files of a phase to a repository in the attempt's directory, and templates put that as a bundle
into a ConfigMap. In a pod, `python3 -m harness.infra.deliveries git NAMESPACE CONFIGMAP PORT` serves what the
ConfigMap has when it is asked (https://git-scm.com/docs/http-protocol), without credentials. `... client NAMESPACE
SERVICE SECONDS` asks an application for "/" twice a second, and prints a line for each request. `... dns-client` does
so by the Service's name in DNS, without any right in the cluster that it runs in.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, NoReturn
from urllib.parse import parse_qs, urlsplit

from harness import proc
from harness.errors import BadInput, ProductError, VmatrixError
from harness.kube.client import Cluster
from harness.kube.in_cluster import in_cluster_kubeconfig
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, SERVICE

GIT_SECONDS = 60.0  # against hanging: one command on a few small files
BRANCH, BUNDLE, ANSWER = "main", "bundle", "answer"
CLIENT_LABEL = "vmatrix.dev/delivery-client"  # of the pod with the client; its container has the name of CLIENT
GIT, CLIENT, DNS_CLIENT = "git", "client", "dns-client"
ISOLATED = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "vmatrix"), ("EMAIL", "vmatrix@example.invalid"))
}


@dataclass(frozen=True)
class Commit:
    """A revision of a cell's repository: its full SHA, and the whole repository as a bundle in base64."""

    revision: str
    bundle: str


def git(*words: str | Path) -> str:
    """Run git without anybody's configuration; return what it printed.

    Raises:
        InfraError: it is not installed, or fails.
    """
    with proc.failing_as_infra("the cell's repository cannot be used", hint="apt-get install git"):
        return proc.run([GIT, *words], timeout=GIT_SECONDS, env={**ISOLATED, **AUTHOR}).stdout.strip()


def commit(repository: Path, files: Mapping[str, str], stage: str) -> Commit:
    """Commit exactly these files on top of what is there, tag that with the stage, and return it.

    The same files as before are the same revision.

    Args:
        repository: the folder, made when it is not there.  files: their texts, by path.
    """
    if not (repository / ".git").is_dir():
        git("init", "--quiet", f"--initial-branch={BRANCH}", repository)
    inside = ("-C", repository)
    for name in git(*inside, "ls-files").splitlines():
        (repository / name).unlink()
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(*inside, "add", "--all")
    if git(*inside, "status", "--porcelain"):
        git(*inside, "commit", "--quiet", "--message", stage)
    git(*inside, "tag", "--force", stage)
    with TemporaryDirectory(prefix="vmatrix-bundle-") as folder:
        made = Path(folder) / BUNDLE
        git(*inside, "bundle", "create", "--quiet", made, BRANCH)
        bundle = base64.b64encode(made.read_bytes()).decode()
    return Commit(git(*inside, "rev-parse", BRANCH), bundle)


@dataclass(frozen=True)
class Pushed:
    """The revision that a stage has pushed, and what its application answers: the revision and its file `answer`."""

    stage: str
    revision: str
    answer: str


def pushed(repository: Path, stage: str) -> Pushed:
    """Return what a stage has pushed.

    Raises:
        InfraError: it has pushed nothing.
    """
    revision = git("-C", repository, "rev-parse", "--verify", f"refs/tags/{stage}^{{commit}}")
    return Pushed(stage, revision, f"{revision} {git('-C', repository, 'show', f'{revision}:{ANSWER}')}")


def texts_of(folder: Path) -> dict[str, str]:
    """Return the texts of a folder's files, by their paths in it.

    Raises:
        BadInput: one is not a text.
    """
    texts = {}
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        try:
            texts[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"{path} is not a text", hint="files that a phase commits are texts or templates") from error
    return texts


class GitServer(BaseHTTPRequestHandler):
    """Clones and fetches of one repository, whatever the path before git's own."""

    repository: ClassVar[Path]
    cluster: ClassVar[Cluster]
    source: ClassVar[tuple[str, str]]  # name and namespace of the ConfigMap
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        """Tell of the references: of what the ConfigMap has now."""
        url = urlsplit(self.path)
        if not url.path.endswith("/info/refs") or parse_qs(url.query).get("service") != ["git-upload-pack"]:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            self._take()
        except VmatrixError as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, error.summary[:200])
            return
        self._answer("advertisement", b"001e# service=git-upload-pack\n0000", b"", "--http-backend-info-refs")

    def do_POST(self) -> None:
        """Hand out objects."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer("result", b"", gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)

    def _take(self) -> None:
        """Fetch what the ConfigMap has."""
        config = self.cluster.get(CONFIG_MAP, *self.source) or {}
        content = dig(config, "binaryData", BUNDLE)
        if content is None:
            raise ProductError(f"ConfigMap {self.source[0]} has no {BUNDLE} yet")
        with TemporaryDirectory() as folder:
            path = Path(folder) / BUNDLE
            path.write_bytes(base64.b64decode(content))
            git("-C", self.repository, "fetch", "--quiet", "--force", path, f"+{BRANCH}:{BRANCH}")

    def _answer(self, kind: str, head: bytes, body: bytes, *words: str) -> None:
        """Answer with what git says to a request; it is binary, so it goes through files."""
        with TemporaryDirectory() as folder:
            asked, said = Path(folder) / "asked", Path(folder) / "said"
            asked.write_bytes(body)
            script = 'asked=$1 said=$2; shift 2; exec git upload-pack --stateless-rpc "$@" <"$asked" >"$said"'
            argv: list[str | Path] = ["sh", "-c", script, "sh", asked, said, *words, self.repository]
            env = {**ISOLATED, "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
            proc.run(argv, timeout=GIT_SECONDS, env=env)
            content = head + said.read_bytes()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"application/x-git-upload-pack-{kind}")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def git_server(
    cluster: Cluster, namespace: str, config_map: str, address: tuple[str, int], folder: Path
) -> ThreadingHTTPServer:
    """Return a server of the repository in a ConfigMap; its copy is below `folder`."""
    repository = folder / "repository.git"
    git("init", "--quiet", "--bare", f"--initial-branch={BRANCH}", repository)
    git("-C", repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    handler = type(
        "Handler", (GitServer,), {"repository": repository, "cluster": cluster, "source": (config_map, namespace)}
    )
    return ThreadingHTTPServer(address, handler)


PAUSE_SECONDS = 0.5  # the resolution of outages
LONGEST_ANSWER = 1024  # bytes
NO_SERVICE = "there is no Service"  # how a request's reason begins then


@dataclass(frozen=True)
class Request:
    """One request: when it was sent (Unix time), what was answered, and why nothing was ("": it was)."""

    at: float
    answer: str
    why: str


def request(cluster: Cluster, namespace: str, service: str, seconds: float) -> Request:
    """Ask the first port of a Service by its name, as it is now."""
    at = time.time()
    try:
        service_object = cluster.get(SERVICE, service, namespace)
        address, ports = dig(service_object, "spec", "clusterIP"), dig(service_object, "spec", "ports")
        if not address or not ports:
            return Request(at, "", f"{NO_SERVICE} {service}")
        return _asked(at, str(address), int(ports[0]["port"]), seconds)
    except (VmatrixError, OSError, http.client.HTTPException) as error:
        return Request(at, "", f"{type(error).__name__}: {error}"[:200])


def request_by_name(namespace: str, service: str, seconds: float) -> Request:
    """Ask port 80 of a Service by its name in DNS, as it is now."""
    at = time.time()
    try:
        return _asked(at, f"{service}.{namespace}.svc", http.client.HTTP_PORT, seconds)
    except socket.gaierror as error:
        unknown = error.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
        return Request(at, "", f"{NO_SERVICE} {service}" if unknown else f"DNS: {error}"[:200])
    except (OSError, http.client.HTTPException) as error:
        return Request(at, "", f"{type(error).__name__}: {error}"[:200])


def _asked(at: float, address: str, port: int, seconds: float) -> Request:
    link = http.client.HTTPConnection(address, port, timeout=seconds)
    try:
        link.request("GET", "/")
        reply = link.getresponse()
        text = reply.read(LONGEST_ANSWER).decode(errors="replace").strip()
    finally:
        link.close()
    return Request(at, text, "") if reply.status == HTTPStatus.OK else Request(at, "", f"status {reply.status}")


def read_requests(log: str) -> tuple[Request, ...]:
    """Return the requests in the client's log; a last line that was cut off is skipped."""
    whole, _, _ = log.rpartition("\n")
    rows = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
    return tuple(Request(float(row["at"]), str(row["answer"]), str(row["why"])) for row in rows)


def main(argv: Sequence[str]) -> None:
    """Run one of the programs until the pod ends."""
    program, namespace, name, number = argv
    if program == DNS_CLIENT:
        _ask_forever(lambda: request_by_name(namespace, name, float(number)))
    with TemporaryDirectory() as folder:
        kubeconfig = in_cluster_kubeconfig(Path(folder) / "kubeconfig", os.environ)
        if kubeconfig is None:
            raise BadInput("this runs in a pod with a service account", hint="see matrix/products/operator")
        cluster = Cluster.from_kubeconfig(kubeconfig)
        if program == GIT:
            git_server(cluster, namespace, name, ("", int(number)), Path(folder)).serve_forever()
        _ask_forever(lambda: request(cluster, namespace, name, float(number)))


def _ask_forever(ask: Callable[[], Request]) -> NoReturn:
    """Print a line for each request."""
    while True:
        asked = ask()
        sys.stdout.write(json.dumps({"at": asked.at, "answer": asked.answer, "why": asked.why}) + "\n")
        sys.stdout.flush()
        time.sleep(max(0.0, PAUSE_SECONDS - (time.time() - asked.at)))


if __name__ == "__main__":
    main(sys.argv[1:])
