"""Kubeconfigs with one thing in each that has a meaning: what kubectl sends with it, or which key is refused.

The keys are those of client-go's tools/clientcmd/api/v1/types.go. tests/embedded/kube compares the table with kubectl.
"""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from harness.infra.host import pki
from harness.kube.kubeconfig import CONFIG, Named, Scalar

KEYS = {
    "": ("apiVersion", "kind", "preferences", "clusters", "users", "contexts", "current-context", "extensions"),
    "preferences": ("colors", "extensions"),
    "cluster": (
        *("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority"),
        *("certificate-authority-data", "proxy-url", "disable-compression", "extensions"),
    ),
    "user": (
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile", "as"),
        *("as-uid", "as-groups", "as-user-extra", "username", "password", "auth-provider", "exec", "extensions"),
    ),
    "context": ("cluster", "user", "namespace", "extensions"),
    "auth-provider": ("name", "config"),
    "exec": ("command", "args", "env", "apiVersion", "installHint", "provideClusterInfo", "interactiveMode"),
    "env": ("name", "value"),
}
WRONG: Mapping[Scalar, tuple[str, ...]] = {
    Scalar.TEXT: ("5", "1.5", "1e3", "true", "y", "[a]", "{a: b}"),
    Scalar.BOOLEAN: ('"false"', '"true"', "0", "1", "text", "[true]", "{a: true}"),
    Scalar.DATA: ("5", "true", "{a: b}", '"!"', '"YQ"', '"Y Q=="', '"YQ==YQ=="'),
    Scalar.TEXTS: ("a", "5", "[1]", "[[a]]", "[true]", "{a: b}"),
    Scalar.TEXT_BY_KEY: ("a", "[a]", "{a: 1}", "{a: [b]}"),
    Scalar.TEXTS_BY_KEY: ("a", "[a]", "{a: b}", "{a: [1]}", "{a: {b: c}}"),
}
EMPTY = "    {}\n"
V1 = "client.authentication.k8s.io/v1"
PROGRAM = f"apiVersion: {V1}, interactiveMode: Never"
Sent = tuple[tuple[str, str], ...]
BEARER: Sent = (("authorization", "Bearer t"),)
ADMIN: Sent = (("impersonate-user", "admin"),)


@dataclass(frozen=True)
class Row:
    """One kubeconfig.

    key: that is meant.  cluster, user, top: lines of YAML in the entry that is used, and of the file itself.
    sends: headers of the login; None: it is refused, by a message that has `refused` in it.
    stricter: whether kubectl takes what is refused here.  trusts: whether the server's authority is in the file.
    files: besides the kubeconfig.  plain: whether the server is one of http://.
    asks: whether kubectl asks a person for a name and a password first.
    """

    key: str
    user: str = ""
    cluster: str = ""
    top: str = ""
    sends: Sent | None = None
    refused: str = ""
    stricter: bool = False
    trusts: bool = True
    plain: bool = False
    asks: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the id of the test."""
        return " ".join((self.key, self.cluster, self.user, self.top)).replace("\n", " ")[:90].strip()


def sent(key: str, user: str = "", sends: Sent = BEARER, **more: Any) -> Row:
    """Return a row with a meaning; it logs in with the token `t` unless it says how."""
    return Row(key, user or ("token: t" if sends == BEARER else ""), sends=sends, **more)


def refused(key: str, user: str = "token: t", said: str = "", **more: Any) -> Row:
    """Return a row that is refused by the name of its key."""
    return Row(key, user, refused=said or key, **more)


def program(script: str, more: str = PROGRAM) -> str:
    return f"exec: {{command: sh, args: [-c, '{script}'], {more}}}"


def credential(status: str, version: str = V1) -> str:
    return f'printf %s "{{\\"kind\\":\\"ExecCredential\\",\\"apiVersion\\":\\"{version}\\",\\"status\\":{status}}}"'


GIVES = credential('{\\"token\\":\\"t\\"}')
EXPIRES = '{\\"token\\":\\"t\\",\\"expirationTimestamp\\":\\"%s\\"}'
LISTLESS = ("a", "5", "{a: b}", "[5]")
OIDC = "{client-id: a, idp-issuer-url: 'https://b'}"
ENV = "[{name: TOKEN, value: x}, {name: TOKEN, value: t}]"
TELL = f"{PROGRAM}, provideClusterInfo: true"


def told(word: str) -> str:
    return f"echo $KUBERNETES_EXEC_INFO | grep -q {word} && {GIVES}"


OF_TAGS = (  # values that kubectl takes, whatever their tags say
    *("!!timestamp 2020-01-01", "!!timestamp '2001-1-1 1:2:3'", "!!timestamp 2001-01-01t1:2:3.5+01:00"),
    *("!!timestamp 2001-1-1T01:02:03Z", "!!timestamp 0000-02-29", "!!timestamp [a]", "!!binary aGk=", "!!binary ''"),
    *("!!set {x}", "!!set [x]", "!!omap [a]", "!!pairs []", "!!str [a]", "!!map [a]", "!!seq {a: b}"),
    *("!!merge {a: b}", "!!merge x", "<<", "!foo x", "!!foo x", "!foo [a]", "!foo {a: 1}", "! 3", "! null"),
    *("!!python/name:os.system ''", "!!value x", "=", "0b_", "0x_", "0b_1", "0o7_", "9" * 5000, "1e400"),
    *(
        "!!int '3'",
        "!!float '1.5'",
        "!!float 3",
        "!!float 0x10",
        "!!float 0b1",
        "!!bool 'true'",
        "!!null ''",
        "!!null '~'",
    ),
    *("!!int 18446744073709551615", "&b !!int 3", "&c ! 3"),
)
NOT_OF_TAGS = (  # values that are not of their tag, or that JSON does not have
    *("!!timestamp x", "!!timestamp ''", "!!timestamp 2001-13-14", "!!timestamp 2001-01-01T01:02:03"),
    *("!!timestamp 2001-01-01 01:02:03Z", "!!timestamp 2001-01-01T01:02:03+1", "!!timestamp '2001-01-01 01:02:03 Z'"),
    *("!!timestamp 2001-02-29", '!!timestamp "2001-01-01\\n"', "!!binary x", "!!binary 'a Gk='"),
    *("!!int abc", "!!int ''", "!!int 3.5", "!!int '1:30'", "!!int '5 '", "!!int \uff15", "!!int 99999999999999999999"),
    *("!!float x", "!!float '1:30.5'", "!!float inf", "!!float 1e400", f"!!int {'9' * 400}"),
    *("!!bool 1", "!!null x", "&a [*a]", "{? [a] : b}", ".inf", "-.INF", ".nan", "!!float .inf"),
)
CLUSTERS = (
    sent("server", cluster="server: $SERVER/"),
    sent("server", cluster="server: $PLAIN", user="token: t", sends=(), plain=True),
    sent("server", cluster="server: $PLAIN", user="{token: t, as: admin}", sends=ADMIN, plain=True),
    sent("server", cluster="server: $PLAIN", user="{username: u, password: p}", sends=(), plain=True),
    sent("server", cluster="server: $PLAIN", user=program("exit 1"), sends=(), plain=True),
    refused("server", cluster="server: ''"),
    refused("server", cluster="server: ftp://127.0.0.1"),
    refused("server", cluster="server: https://me:secret@127.0.0.1:9", stricter=True),
    refused("server", cluster="server: 127.0.0.1:9", stricter=True),
    sent("tls-server-name", cluster="tls-server-name: x"),
    sent("tls-server-name", cluster="tls-server-name: ''"),
    refused("tls-server-name", cluster="tls-server-name: .x", stricter=True),
    sent("insecure-skip-tls-verify", cluster="insecure-skip-tls-verify: true", trusts=False),
    sent("insecure-skip-tls-verify", cluster="insecure-skip-tls-verify: yes", trusts=False),
    sent("insecure-skip-tls-verify", cluster="insecure-skip-tls-verify: y", trusts=False),
    sent("insecure-skip-tls-verify", cluster="insecure-skip-tls-verify: false"),
    sent("insecure-skip-tls-verify", cluster="insecure-skip-tls-verify: null"),
    refused("insecure-skip-tls-verify", cluster="insecure-skip-tls-verify: true"),
    *(refused("insecure-skip-tls-verify", cluster=f"insecure-skip-tls-verify: ! {v}") for v in ("true", "null", "''")),
    refused(
        "insecure-skip-tls-verify",
        cluster="certificate-authority: ca.crt\ninsecure-skip-tls-verify: true",
        trusts=False,
    ),
    sent("certificate-authority", cluster="certificate-authority: ca.crt", trusts=False),
    sent("certificate-authority", cluster="certificate-authority: ./ca.crt", trusts=False),
    refused("certificate-authority", cluster="certificate-authority: ca.crt"),
    refused("certificate-authority", cluster="certificate-authority: nope", trusts=False),
    refused("certificate-authority", cluster="certificate-authority: junk", trusts=False, files={"junk": "junk"}),
    refused("certificate-authority", cluster="certificate-authority: e", trusts=False, files={"e": ""}, stricter=True),
    sent("certificate-authority-data", cluster="certificate-authority-data: |\n  $CA_LINES", trusts=False),
    sent("certificate-authority-data", cluster="certificate-authority-data: >-\n  $CA", trusts=False),
    refused("certificate-authority-data", cluster="certificate-authority-data: >\n  $CA_LINES", trusts=False),
    refused("certificate-authority-data", cluster="certificate-authority-data: eA==", trusts=False),
    refused("certificate-authority-data", cluster="certificate-authority-data: $CA!", trusts=False),
    sent("certificate-authority-data", cluster="certificate-authority-data: $LEAF", trusts=False),
    refused("proxy-url", cluster="proxy-url: ftp://127.0.0.1:9"),
    refused("proxy-url", cluster="proxy-url: socks5h://127.0.0.1:9"),
    refused("proxy-url", cluster="proxy-url: '127.0.0.1:9'"),
    sent("proxy-url", cluster="proxy-url: ''"),
    sent("proxy-url", cluster="proxy-url: null"),
    sent("disable-compression", cluster="disable-compression: true"),
    sent("extensions", cluster="extensions: [{name: a, extension: {any: [1, 2020-01-01]}}]"),
    refused("extensions", cluster="extensions: [{name: a, extension: {}}, {name: a, extension: {}}]"),
    sent("extensions", cluster="unknown: [1]"),
    sent("extensions", cluster="unknown: !foo bar"),
    *(
        refused("a key that kubectl does not use", cluster=line)
        for line in ("unknown: !!bool x", "unknown: [.inf]", "!!null x: 1", "unknown: {!!timestamp x: 1}")
    ),
    *(sent("extensions", cluster=f"extensions: [{{name: a, extension: {{a: {value}}}}}]") for value in OF_TAGS),
    *(refused("extensions", cluster=f"extensions: [{{name: a, extension: {{a: {value}}}}}]") for value in NOT_OF_TAGS),
)
PAIR = "client-certificate: admin.crt\nclient-key: admin.key"
USERS = (
    sent("client-certificate", PAIR, ()),
    sent("client-certificate", f"{PAIR}\ntoken: t", BEARER),
    refused("client-certificate", "client-certificate: admin.crt", "client-key"),
    refused("client-certificate", "client-certificate: nope\nclient-key: admin.key"),
    refused("client-certificate", f"{PAIR}\nclient-certificate-data: $CERT"),
    refused("client-certificate", "client-certificate: admin.crt\nclient-key: kube-scheduler.key"),
    refused("client-certificate", "client-certificate: junk\nclient-key: junk", files={"junk": "junk"}),
    sent("client-certificate-data", "client-certificate-data: $CERT\nclient-key-data: $KEY", ()),
    sent("client-certificate-data", "client-certificate-data: $CERT\nclient-key: admin.key", ()),
    refused("client-certificate-data", "client-certificate-data: $CERT", "client-key"),
    refused("client-certificate-data", "client-certificate-data: eA==\nclient-key-data: eA=="),
    sent("client-key", "client-key: nope\ntoken: t", BEARER),
    refused("client-key", "client-certificate: admin.crt\nclient-key: nope"),
    refused("client-key", f"{PAIR}\nclient-key-data: $KEY"),
    refused("client-key", "client-certificate: admin.crt\nclient-key: locked.key", "client-certificate"),
    sent("client-key-data", "client-certificate: admin.crt\nclient-key-data: $KEY", ()),
    sent("client-key-data", "client-key-data: eA==\ntoken: t", BEARER),
    sent("token", "token: t"),
    sent("token", "token: 't'"),
    sent("token", "token: 2026-01-01", (("authorization", "Bearer 2026-01-01"),)),
    sent("token", "token: 12:30:45", (("authorization", "Bearer 12:30:45"),)),
    sent("token", "token: no\ntoken: t"),
    *(sent("token", f"token: {value}") for value in ("!foo t", "!!foo t", "! t", "!!str t", "!!binary dA==", "&a ! t")),
    *(
        sent("token", f"token: {text}", (("authorization", f"Bearer {text[2:]}"),))
        for text in ("! null", "! 3", "! true")
    ),
    sent("token", "token: <<", (("authorization", "Bearer <<"),)),
    sent("token", "token: !!timestamp 2026-01-01", (("authorization", "Bearer 2026-01-01"),)),
    *(
        refused("token", f"token: {value}")
        for value in ("!!int '3'", "!!float 3", "!!bool y", "!!timestamp t", "!foo [t]")
    ),
    *(refused("token", f"token: {value}") for value in ("!!null t", "!!binary t", "!foo {t: t}")),
    sent("token", "token: null\ntokenFile: token", (("authorization", "Bearer of-a-file"),)),
    refused("token", 'token: "a\\nb"'),
    refused("token", "token: a b", stricter=True),
    refused("token", 'token: "a\\0b"'),
    sent("tokenFile", "tokenFile: token", (("authorization", "Bearer of-a-file"),)),
    sent("tokenFile", "token: t\ntokenFile: token", (("authorization", "Bearer of-a-file"),)),
    refused("tokenFile", "token: t\ntokenFile: nope", stricter=True),
    refused("tokenFile", "tokenFile: nope"),
    refused("tokenFile", "tokenFile: empty", files={"empty": "\n"}),
    sent("as", "token: t\nas: admin", (*BEARER, *ADMIN)),
    sent("as", f"{PAIR}\nas: admin", ADMIN),
    sent("as", "as: admin\nusername: u\npassword: p", (("authorization", "Basic dTpw"), *ADMIN)),
    sent("as", f"as: admin\n{program(GIVES)}", (*BEARER, *ADMIN)),
    sent("as", "token: t\nas: jürgen", (*BEARER, ("impersonate-user", "jürgen"))),
    sent("as", "token: t\nas: ''"),
    refused("as", 'token: t\nas: "a\\r\\nImpersonate-Group: system:masters"'),
    sent("as-uid", "token: t\nas: admin\nas-uid: '7'", (*BEARER, *ADMIN, ("impersonate-uid", "7"))),
    refused("as-uid", "token: t\nas-uid: '7'"),
    sent(
        "as-groups",
        "token: t\nas: admin\nas-groups: [b, a, 'with, comma']",
        (
            *BEARER,
            *ADMIN,
            ("impersonate-group", "b"),
            ("impersonate-group", "a"),
            ("impersonate-group", "with, comma"),
        ),
    ),
    sent("as-groups", "token: t\nas: admin\nas-groups: []", (*BEARER, *ADMIN)),
    refused("as-groups", "token: t\nas-groups: [a]"),
    sent(
        "as-user-extra",
        "token: t\nas: admin\nas-user-extra: {example.org/scope: [a, b], '100%': [c], none: null}",
        (
            *BEARER,
            *ADMIN,
            ("impersonate-extra-example.org%2fscope", "a"),
            ("impersonate-extra-example.org%2fscope", "b"),
            ("impersonate-extra-100%25", "c"),
        ),
    ),
    refused("as-user-extra", "token: t\nas-user-extra: {a: [b]}"),
    refused("as-user-extra", "token: t\nas: admin\nas-user-extra: {1: [b]}", stricter=True),
    sent("username", "username: u\npassword: p", (("authorization", "Basic dTpw"),)),
    sent("username", "username: u", (("authorization", "Basic dTo="),)),
    refused("password", "password: p"),
    refused("username", "token: t\nusername: u"),
    refused("username", "tokenFile: token\nusername: u"),
    refused("password", "token: t\npassword: p"),
    refused("auth-provider", "auth-provider: {name: gcp}"),
    refused("auth-provider", "auth-provider: {name: azure}"),
    refused(
        "auth-provider",
        f"auth-provider: {{name: oidc, config: {OIDC}}}",
        stricter=True,
    ),
    refused("auth-provider", "auth-provider: {}"),
    refused("auth-provider", "token: t\nauth-provider: {name: gcp}"),
    sent("auth-provider", "token: t\nauth-provider: null"),
    sent("exec", "token: t\nexec: null"),
    sent("exec", program(GIVES)),
    refused("exec", "exec: {}"),
    refused("exec", f"{program(GIVES)}\nauth-provider: {{name: gcp}}", "auth-provider"),
    sent("exec", f"token: t\n{program('exit 1')}"),
    *(sent("exec", program(credential(EXPIRES % ends))) for ends in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")),
    sent("exec", f"{PAIR}\n{program('exit 1')}", ()),
    sent("exec", f"username: u\npassword: p\n{program('exit 1')}", (("authorization", "Basic dTpw"),)),
    sent("exec", program(credential('{\\"clientCertificateData\\":\\"$PEM\\",\\"clientKeyData\\":\\"$PEM\\"}')), ()),
    refused("exec", program(credential('{\\"token\\":\\"t\\",\\"clientKeyData\\":\\"x\\"}'))),
    refused("exec", program("exit 1")),
    refused("exec", program(credential("{}"))),
    sent(
        "command",
        f"exec: {{command: ./login, {PROGRAM}}}",
        files={"login": f"#!/bin/sh\n{GIVES}\n"},
    ),
    refused("command", f"exec: {{command: '', {PROGRAM}}}"),
    refused("command", f"exec: {{command: no-such-login, {PROGRAM}}}", "no-such-login"),
    sent("args", f"exec: {{command: sh, args: [-c, '{GIVES} # $0', null], {PROGRAM}}}"),
    sent(
        "env",
        program(
            credential('{\\"token\\":\\"$TOKEN\\"}'),
            f"{PROGRAM}, env: {ENV}",
        ),
    ),
    refused("env", program(GIVES, f"{PROGRAM}, env: [{{value: t}}]")),
    refused("env", program(GIVES, f"{PROGRAM}, env: {{A: b}}")),
    sent("apiVersion", program(credential('{\\"token\\":\\"t\\"}', f"{V1}beta1"), f"apiVersion: {V1}beta1")),
    refused("apiVersion", program(GIVES, "interactiveMode: Never")),
    refused("apiVersion", program(GIVES, f"apiVersion: {V1}alpha1, interactiveMode: Never")),
    refused("apiVersion", program(GIVES, f"apiVersion: {V1}beta1, interactiveMode: Never")),
    refused("interactiveMode", program(GIVES, f"apiVersion: {V1}")),
    refused("interactiveMode", program(GIVES, f"apiVersion: {V1}, interactiveMode: never")),
    refused("interactiveMode", program(GIVES, f"apiVersion: {V1}, interactiveMode: Always")),
    sent("interactiveMode", program(GIVES, f"apiVersion: {V1}, interactiveMode: IfAvailable")),
    sent("installHint", program(GIVES, f"{PROGRAM}, installHint: get it")),
    sent(
        "provideClusterInfo",
        program(
            told("certificate-authority-data"),
            TELL,
        ),
    ),
    refused("provideClusterInfo", program(told("server")), "exec"),
    sent(
        "provideClusterInfo",
        program(told("audience"), TELL),
        cluster="extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: me}}]",
    ),
    sent("extensions", "token: t\nextensions: [{name: a, extension: {}}]"),
    sent("unknown", "token: t\nimpersonate: admin\nTOKEN: no"),
)
MORE = "- name: other\n  context: {cluster: c, user: u}"
TOPS = (
    sent("apiVersion", top="apiVersion: v1"),
    refused("apiVersion", top="apiVersion: v2"),
    refused("apiVersion", top="apiVersion: apps/v1"),
    sent("kind", top="kind: Config"),
    refused("kind", top="kind: Deployment"),
    sent("preferences", top="preferences: {colors: true}"),
    sent("preferences", top="preferences: null"),
    refused("preferences", top="preferences: []"),
    sent("extensions", top="extensions: [{name: a, extension: {b: c}}]"),
    sent("unknown", top="unknown: {a: b}"),
    refused("clusters", top="clusters: {}"),
    refused("clusters", top="clusters: [7]"),
    refused("clusters", top="clusters: [{name: c, cluster: {server: 'https://a'}}, {name: c, cluster: {}}]"),
    refused("users", top="users: [{name: u, user: {token: t}}, {name: u}]"),
    refused("users", top="users: [{name: u, user: {token: t}}, {name: other, user: {token: 7}}]"),
    refused("users", top="users: [{name: u, user: {token: t}}, {name: 7, user: {}}]"),
    refused("users", top="users: []", said="no user 'u'", stricter=True),
    refused("contexts", top="contexts: [{name: x, context: {cluster: c, user: u}}, {name: x}]"),
    refused("contexts", top="contexts: [{name: x, context: {cluster: none, user: u}}]", said="no cluster 'none'"),
    sent("user", user="token: t", top="contexts: [{name: x, context: {cluster: c}}]", sends=(), asks=True),
    refused("namespace", top="contexts: [{name: x, context: {cluster: c, user: u, namespace: A/b}}]", stricter=True),
    refused("current-context", top="current-context: none", said="no context 'none'"),
    refused("current-context", top="current-context: null"),
    sent("current-context", top="---\ncurrent-context: none"),
)
TABLE = (*CLUSTERS, *USERS, *TOPS)
PATHS = {
    "preferences": "preferences",
    "cluster": "clusters[c].cluster",
    "user": "users[u].user",
    "context": "contexts[x].context",
}


def wrong_types() -> Iterator[tuple[str, str, str]]:
    """Yield each key that has a type by its place in the file, with a value of another type, and the file's text."""
    for name, place in PATHS.items():
        shape: Any = CONFIG[name] if name == "preferences" else CONFIG[f"{name}s"].shape
        yield from _of(shape, place, name, "")
    for key in ("apiVersion", "kind", "current-context"):
        for value in WRONG[Scalar.TEXT]:
            yield key, value, f"{key}: {value}\n"


def _of(shape: Mapping[str, Any], place: str, entry: str, inside: str) -> Iterator[tuple[str, str, str]]:
    for key, kind in shape.items():
        where = f"{inside}.{key}" if inside else key
        if isinstance(kind, Mapping):
            yield from _of(kind, place, entry, where)
            yield from ((f"{place}.{where}", value, _text(entry, where, value)) for value in ("a", "5", "[a]"))
        elif isinstance(kind, list):
            for one in kind[0]:
                for value in WRONG[Scalar.TEXT]:
                    text = _text(entry, where, f"[{{{one}: {value}}}]")
                    yield f"{place}.{where}[0].{one}", value, text
        elif isinstance(kind, Named):
            yield from (
                (f"{place}.{where}", value, _text(entry, where, value)) for value in ("a", "5", "{a: b}", "[5]")
            )
        else:
            yield from ((f"{place}.{where}", value, _text(entry, where, value)) for value in WRONG[kind])


def _text(entry: str, where: str, value: str) -> str:
    *outer, last = where.split(".")
    inner = f"{last}: {value}"
    for key in reversed(outer):
        inner = f"{key}: {{{inner}}}"
    if entry == "preferences":
        return f"preferences: {{{inner}}}\n"
    name = PATHS[entry].partition("[")[2][0]
    return f"{entry}s: [{{name: {name}, {entry}: {{{inner}}}}}]\n"


@dataclass
class ApiServer:
    """An API that remembers what requests log in with, and refuses whatever is not a request for its version."""

    folder: Path
    secure: ThreadingHTTPServer
    plain: ThreadingHTTPServer
    asked: list[tuple[str, Sent]]

    @property
    def port(self) -> int:
        return int(self.secure.server_address[1])

    def write(self, row: Row, folder: Path) -> Path:
        """Write a row's kubeconfig with its files into a folder."""

        def b64(name: str) -> str:
            return base64.b64encode((self.folder / name).read_bytes()).decode()

        folder.mkdir(parents=True, exist_ok=True)
        for name in ("ca.crt", "admin.crt", "admin.key", "kube-scheduler.key", "locked.key"):
            (folder / name).write_bytes((self.folder / name).read_bytes())
        (folder / "token").write_text("of-a-file\n")
        for name, text in row.files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        trust = "    certificate-authority-data: $CA\n" if row.trusts else ""
        server = "" if "server:" in row.cluster.replace("tls-server", "") else "    server: $SERVER\n"
        text = (
            f"clusters:\n- name: c\n  cluster:\n{server}{trust}{_indented(row.cluster)}"
            f"users:\n- name: u\n  user:\n{_indented(row.user) or EMPTY}"
            "contexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n" + row.top + "\n"
        )
        pem = "".join((self.folder / f"admin.{end}").read_text() for end in ("crt", "key")).replace("\n", "\\\\n")
        values = {
            "$CA_LINES": "\n      ".join(b64("ca.crt")[i : i + 64] for i in range(0, len(b64("ca.crt")), 64)),
            "$CA": b64("ca.crt"),
            "$CERT": b64("admin.crt"),
            "$KEY": b64("admin.key"),
            "$LEAF": b64("kube-apiserver.crt"),
            "$PEM": pem,
            "$SERVER": f"https://127.0.0.1:{self.port}",
            "$PLAIN": f"http://127.0.0.1:{self.plain.server_address[1]}",
        }
        for name, value in values.items():
            text = text.replace(name, value)
        path = folder / "kubeconfig"
        path.write_text(text, encoding="utf-8")
        return path


def _indented(lines: str) -> str:
    return "".join(f"    {line}\n" for line in lines.splitlines())


@contextmanager
def served(folder: Path) -> Iterator[ApiServer]:
    """Serve an API by TLS and without, with the certificates in a folder."""
    pki.ensure(folder, addresses=("127.0.0.1",), names=("x",), node="n")
    lock(folder / "admin.key", folder / "locked.key")
    asked: list[tuple[str, Sent]] = []

    class Recording(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            names = ("authorization", "impersonate-")
            seen = ((name.lower(), value) for name, value in self.headers.items() if name.lower().startswith(names))
            path = self.path.partition("?")[0]
            asked.append((path, tuple((name, value.encode("latin-1").decode()) for name, value in seen)))
            body = b'{"gitVersion": "v1.36.3"}'
            self.send_response(200 if path == "/version" else 307 if path.endswith("/redirect") else 403)
            if path.endswith("/redirect"):
                self.send_header("Location", "/version")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of clients that believe no certificate."""

    secure, plain = Server(("127.0.0.1", 0), Recording), Server(("127.0.0.1", 0), Recording)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "kube-apiserver.crt", folder / "kube-apiserver.key")
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    threads = [threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True) for one in (secure, plain)]
    for thread in threads:
        thread.start()
    try:
        yield ApiServer(folder, secure, plain, asked)
    finally:
        for one in (secure, plain):
            one.shutdown()
            one.server_close()


def lock(key: Path, target: Path) -> None:
    """Write a private key anew, with a password."""
    from cryptography.hazmat.primitives import serialization as forms

    loaded = forms.load_pem_private_key(key.read_bytes(), None)
    secret = forms.BestAvailableEncryption(b"secret")
    target.write_bytes(loaded.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, secret))
