"""Real git servers: git's own backend behind HTTPS with a user, and sshd with a host key of its own, on high ports.

`python -m tests.embedded.deliveries.git_servers ADDRESS PORT FOLDER` serves the repositories in FOLDER/repositories
over HTTPS; it is a program, so that it can run in another network namespace than the test.
"""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from harness import proc
from harness.artifacts.listening import listens
from harness.kube.certificates import authority, leaf, pem_of
from harness.until import Deadline, NotYet, until

USER, PASSWORD = "deliverer", "an-open-secret"
GIT = str(shutil.which("git"))
READY_SECONDS = 20.0
COMMAND_SECONDS = 60.0
AUTHOR = {
    "GIT_AUTHOR_NAME": "Author",
    "GIT_AUTHOR_EMAIL": "author@example.test",
    "GIT_COMMITTER_NAME": "Author",
    "GIT_COMMITTER_EMAIL": "author@example.test",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
SSH_SERVER = Path("/usr/sbin/sshd")
SSHD = """\
ListenAddress {address}:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
ForceCommand /usr/bin/git shell -c "$SSH_ORIGINAL_COMMAND"
"""


class Backend(BaseHTTPRequestHandler):
    """Requests that git's own CGI program answers, for who knows the password."""

    root = Path()
    protocol_version = "HTTP/1.0"

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        """Answer."""
        self._answer(b"")

    def do_POST(self) -> None:
        """Answer."""
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, content: bytes) -> None:
        wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != wanted:
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        url = urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": url.path,
            "QUERY_STRING": url.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(content)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": USER,
        }
        done = subprocess.run([GIT, "http-backend"], input=content, capture_output=True, env=environment, check=False)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n") if b": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def serve(address: str, port: int, folder: Path) -> None:
    """Serve until this process is ended."""
    Backend.root = folder / "repositories"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = ThreadingHTTPServer((address, port), Backend)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def certificate(folder: Path, address: str) -> None:
    """Write a server's certificate and key, and the authority that vouches for it."""
    now, day = datetime.now(UTC), timedelta(days=1)
    issuer = authority("git", now, day)
    made, key = leaf(issuer, "git", now=now, lifetime=day, names=[address])
    (folder / "ca.crt").write_bytes(pem_of(issuer[0]))
    (folder / "server.crt").write_bytes(pem_of(made))
    (folder / "server.key").write_bytes(pem_of(key))


@dataclass
class GitServers:
    """Servers of the repositories in a folder.

    Attributes: prefix (words before the commands of the servers, such as those of `ip netns exec`).
    """

    folder: Path
    address: str = "127.0.0.1"
    https_port: int = 8443
    ssh_port: int = 2222
    prefix: Sequence[str] = ()
    services: list[proc.Service] = field(default_factory=list)

    def start(self) -> None:
        """Make keys and certificates, and start both servers."""
        assert SSH_SERVER.exists(), "apt-get install --yes openssh-server"
        self.folder.chmod(0o755)
        for name in ("repositories", "trees"):
            (self.folder / name).mkdir(exist_ok=True)
        certificate(self.folder, self.address)
        for name in ("host_key", "user_key", "other_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        shutil.copyfile(self.folder / "user_key.pub", self.folder / "authorized_keys")
        text = SSHD.format(address=self.address, port=self.ssh_port, folder=self.folder)
        (self.folder / "sshd_config").write_text(text, encoding="utf-8")
        Path("/run/sshd").mkdir(exist_ok=True)
        module = [sys.executable, "-m", "tests.embedded.deliveries.git_servers", self.address]
        commands = {
            "https": [*module, str(self.https_port), str(self.folder)],
            "ssh": [str(SSH_SERVER), "-D", "-e", "-f", str(self.folder / "sshd_config")],
        }
        for name, command in commands.items():
            argv = [*self.prefix, *proc.ending_with_us(), *command]
            self.services.append(proc.spawn(argv, log=self.folder / f"{name}.log", env={"PYTHONPATH": os.getcwd()}))
        if not self.prefix:
            until(self._listen, deadline=Deadline.after(READY_SECONDS), what="git servers", interval=0.1)

    def _listen(self) -> bool | NotYet:
        ports = (self.https_port, self.ssh_port)
        silent = [port for port in ports if listens(f"{self.address}:{port}") is not True]
        return NotYet(f"nobody listens at {silent}") if silent else True

    def stop(self) -> None:
        """End both."""
        for service in self.services:
            service.stop(grace=2.0)

    def https(self, name: str) -> str:
        """Return a repository's address."""
        return f"https://{self.address}:{self.https_port}/{name}.git"

    def ssh(self, name: str) -> str:
        """Return a repository's address."""
        return f"ssh://root@{self.address}:{self.ssh_port}{self.folder}/repositories/{name}.git"

    def https_secret(self, password: str = PASSWORD) -> dict[str, bytes]:
        """Return what opens it over HTTPS."""
        trusted = (self.folder / "ca.crt").read_bytes()
        return {"username": USER.encode(), "password": password.encode(), "ca.crt": trusted}

    def ssh_secret(self, *, host: str = "host_key", key: str = "user_key") -> dict[str, bytes]:
        """Return what opens it over SSH."""
        public = (self.folder / f"{host}.pub").read_text(encoding="ascii")
        known = f"[{self.address}]:{self.ssh_port} {public}"
        return {"ssh-privatekey": (self.folder / key).read_bytes(), "known_hosts": known.encode()}


@dataclass
class Repository:
    """A repository with its work tree."""

    bare: Path
    tree: Path

    @staticmethod
    def create(servers: GitServers, name: str) -> Repository:
        """Make an empty one."""
        bare, tree = servers.folder / "repositories" / f"{name}.git", servers.folder / "trees" / name
        run("git", "init", "-q", "--bare", "-b", "main", str(bare))
        run("git", "clone", "-q", str(bare), str(tree))
        run("git", "checkout", "-q", "-B", "main", cwd=tree)
        return Repository(bare, tree)

    def commit(self, files: Mapping[str, bytes | None], message: str = "Change") -> str:
        """Write files (None: removed), commit and push; return the revision."""
        for name, content in files.items():
            path = self.tree / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755 if content.startswith((b"\x7fELF", b"#!")) else 0o644)
        run("git", "add", "-A", cwd=self.tree)
        run("git", "commit", "-q", "--allow-empty", "-m", message, cwd=self.tree)
        run("git", "push", "-q", "origin", "HEAD", cwd=self.tree)
        return self.head()

    def head(self) -> str:
        """Return the newest revision."""
        return run("git", "rev-parse", "HEAD", cwd=self.tree).strip()

    def git(self, *words: str) -> str:
        """Run git in the work tree."""
        return run("git", *words, cwd=self.tree)


def run(*words: str, cwd: Path | None = None) -> str:
    """Run a command; return what it printed."""
    return proc.run(list(words), timeout=COMMAND_SECONDS, cwd=cwd, env=AUTHOR).stdout


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
