"""Kubeconfigs that lead nowhere, and credential programs that give nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.refusals.called import Refusal, Room
from tests.unit.refusals.lying import kubeconfig

WHERE = "--provider kubeconfig --kubeconfig kc"
SERVER = "https://127.0.0.1:9"
SERVERS = {
    "": "it is empty",
    " ": "it is empty",
    "ftp://127.0.0.1": "it must begin with http:// or https://",
    "file:///etc/passwd": "it must begin with http:// or https://",
    "127.0.0.1:6443": "it must begin with",
    "example.org": "it must begin with",
    "https://": "it names no host",
    "https:///x": "it names no host",
    "https://:6443": "it names no host",
    "https://a b": "a blank",
    "https://a\tb": "a blank",
    "https://a:port": "Port could not be cast",
    "https://a:99999": "Port out of range",
    "https://a:-1": "ort",
    "https://a:0": "port 0",
    "https://[::1": "Invalid IPv6",
    "https://[zz]": "",
    "https://256.1.1.1": "is not an address",
    "https://1.2.3.4.5": "is not an address",
    "https://a..b": "is not a host name",
    "https://-/": "",
    "https://a$b": "is not a host name",
    "https://" + "a" * 64: "is not a host name",
    "://a": "it must begin with",
    "https//a": "it must begin with",
    "HTTP": "it must begin with",
}
GOOD = ("https://-/",)
PROXIES = ("::::", "ftp://p:1", "http://", "http://p:99999", "socks4://p:1", "http://p p", "//p:1")
LEADS = "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
FILES = {
    "": "it is not a kubeconfig, but empty",
    "[1, 2]": "it is not a kubeconfig, but a list",
    "7": "it is not a kubeconfig, but a number",
    "text": "it is not a kubeconfig, but text",
    "clusters: [": "",
    "a: b: c": "",
    "\tx": "",
    "{}": "it has no current-context",
    "apiVersion: v1\nkind: Config\n": "it has no current-context",
    "current-context: x\n": "it has no context 'x' (it has none)",
    "current-context: x\ncontexts: {}\n": "line 2: contexts: it is a mapping, not a list",
    "current-context: x\ncontexts: 7\n": "line 2: contexts: it is a number, not a list",
    "current-context: x\ncontexts: [7]\n": "line 2: contexts[0]: it is a number, not a mapping",
    "current-context: x\ncontexts: [{name: z}]\n": "it has no context 'x' (it has z)",
    "current-context: x\ncontexts: [{name: x}]\n": "it has no cluster ''",
    "current-context: x\ncontexts: [{name: x, context: 7}]\n": "contexts[x].context: it is a number, not a mapping",
    "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n": "it has no cluster 'c'",
    f"{LEADS}clusters: [{{name: c}}]\n": "clusters[c].cluster.server: it is empty",
    f"{LEADS}clusters: [{{name: c, cluster: 1}}]\n": "clusters[c].cluster: it is a number, not a mapping",
}
CLUSTERS: dict[str, dict[str, Any]] = {
    "certificate-authority-data": {"certificate-authority-data": "!!!"},
    "authority-of-nothing": {"certificate-authority-data": "eA=="},
    "no-authority": {"certificate-authority": "nope.crt"},
    "authority-folder": {"certificate-authority": "."},
}
USERS: dict[str, dict[str, Any]] = {
    "certificate-of-nothing": {"client-certificate-data": "eA==", "client-key-data": "eA=="},
    "no-base64": {"client-certificate-data": "*", "client-key-data": "*"},
    "no-certificate": {"client-certificate": "nope", "client-key": "nope"},
    "token-file": {"tokenFile": "nope"},
}
NEVER_READ: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "authority-device": ({"certificate-authority": "/dev/zero"}, {"token": "t"}, "certificate-authority: /dev/zero"),
    "token-device": ({}, {"tokenFile": "/dev/zero"}, "tokenFile: /dev/zero is a device"),
    "key-folder": ({}, {"client-certificate": ".", "client-key": "."}, "is a folder"),
    "token-lines": ({}, {"token": "a\nb"}, "the token: it has a blank or a strange character"),
    "token-words": ({}, {"token": "a b"}, "the token: it has a blank or a strange character"),
    "removed": ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider: gcp is not supported"),
}
EXPIRED = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1"}


def program(script: str, **more: Any) -> dict[str, Any]:
    """Return a user whose credentials a program gives."""
    told = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    return {"exec": {**told, "interactiveMode": "Never", **more}}


def says(answer: Any) -> str:
    return f"echo '{json.dumps(answer)}'"


PLUGINS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": (program("", command="no-such-login"), "program no-such-login could not be started: No such file"),
    "missing-path": (program("", command="./login"), "login could not be started"),
    "hint": (program("", command="no-such-login", installHint="apt install it"), "no-such-login"),
    "fails": (program("echo not logged in >&2; exit 3"), "program sh ended with status 3"),
    "killed": (program("kill -9 $$"), "program sh ended with status -9"),
    "nothing": (program("true"), "gives no ExecCredential, but nothing"),
    "rubbish": (program("echo rubbish"), "gives no ExecCredential, but 8 bytes that are not JSON"),
    "list": (program("echo []"), "gives no ExecCredential"),
    "null": (program("echo null"), "gives no ExecCredential"),
    "half": (program("echo '{'"), "gives no ExecCredential"),
    "other-kind": (program(says({**EXPIRED, "kind": "Secret", "status": {}})), "gives no ExecCredential"),
    "no-status": (program(says(EXPIRED)), "gives no ExecCredential"),
    "old-version": (
        program(says({**EXPIRED, "apiVersion": "v0", "status": {"token": "t"}})),
        "answers in apiVersion 'v0'",
    ),
    "empty": (program(says({**EXPIRED, "status": {}})), "gives neither a token nor a certificate"),
    "empty-token": (program(says({**EXPIRED, "status": {"token": ""}})), "gives neither"),
    "number-token": (program(says({**EXPIRED, "status": {"token": 7}})), "gives neither"),
    "no-key": (
        program(says({**EXPIRED, "status": {"clientCertificateData": "x"}})),
        "gives a certificate or a key",
    ),
    "bad-pair": (
        program(says({**EXPIRED, "status": {"clientCertificateData": "x", "clientKeyData": "y"}})),
        "the credential program sh's certificate and key are not PEM, or do not belong together",
    ),
    "terminal": (program("true", interactiveMode="Always"), "wants a terminal"),
    "no-command": ({"exec": {"apiVersion": "v1"}}, "exec.command: it is empty"),
    "word": ({"exec": "login"}, "exec: it is text, not a mapping"),
    "list-command": ({"exec": {"command": ["a"]}}, "exec.command: it is a list, not text"),
}
COMMANDS = ("status", "reap --all")


def refusal(command: str, text: str, says: str) -> Refusal:
    return Refusal(f"{command} {WHERE}", says, files={"kc": text})


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("server", [server for server in SERVERS if server not in GOOD])
def test_a_server_that_cannot_be_one(room: Room, command: str, server: str) -> None:
    room.refuses(refusal(command, kubeconfig({"server": server}), SERVERS[server]))


@pytest.mark.parametrize("proxy", [*PROXIES, "p:3128"])
def test_a_proxy_that_cannot_be_one(room: Room, proxy: str) -> None:
    room.refuses(refusal("status", kubeconfig({"server": SERVER, "proxy-url": proxy}), "proxy-url"))


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_of_the_environment_that_cannot_be_one(room: Room, proxy: str) -> None:
    asked = refusal("status", kubeconfig({"server": "https://192.0.2.1:9"}), "of HTTPS_PROXY: ")
    room.refuses(replace(asked, env={"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "NO_PROXY": ""}, hint="HTTPS_PROXY"))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", FILES)
def test_a_file_that_is_none(room: Room, command: str, text: str) -> None:
    room.refuses(refusal(command, text, FILES[text]))


@pytest.mark.parametrize("name", CLUSTERS)
def test_an_authority_that_cannot_be_read(room: Room, name: str) -> None:
    room.refuses(refusal("status", kubeconfig({"server": SERVER, **CLUSTERS[name]}), "kubeconfig kc cannot be used"))


@pytest.mark.parametrize("name", USERS)
def test_a_login_that_cannot_be_read(room: Room, name: str) -> None:
    room.refuses(refusal("status", kubeconfig({"server": SERVER}, USERS[name]), ""))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NEVER_READ)
def test_a_login_that_no_request_can_have(room: Room, command: str, name: str) -> None:
    cluster, user, said = NEVER_READ[name]
    room.refuses(refusal(command, kubeconfig({"server": SERVER, **cluster}, user), said))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", PLUGINS)
def test_a_credential_program_that_gives_nothing(room: Room, command: str, name: str) -> None:
    user, said = PLUGINS[name]
    asked = refusal(command, kubeconfig({"server": SERVER}, user), said)
    room.refuses(replace(asked, starts=("sh", "no-such-login", "login")))


def test_a_credential_program_that_never_ends(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.kube.credentials.PROGRAM_SECONDS", 0.1)
    asked = refusal(
        "status", kubeconfig({"server": SERVER}, program("while :; do sleep 600; done")), "did not end within"
    )
    room.refuses(replace(asked, starts=("sh",)))


def test_the_hint_of_a_missing_credential_program_is_the_files(room: Room) -> None:
    user, said = PLUGINS["hint"]
    asked = refusal("status", kubeconfig({"server": SERVER}, user), said)
    room.refuses(replace(asked, hint="apt install it", starts=("no-such-login",)))
