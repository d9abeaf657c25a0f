"""A kubeconfig, read as kubectl reads it: the type of every key, files that are merged, and what a context leads to.

The rules are those of client-go (https://github.com/kubernetes/client-go, tools/clientcmd): types.go of api/v1 for the
keys, loader.go for files and paths, validation.go for what excludes each other. Keys that it does not know are ignored.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from harness.errors import BadInput
from harness.files import read_bytes, read_text
from harness.kube.failures import Json
from harness.kube.kubectl_yaml import KubectlLoader, construct_boolean, tag_of
from harness.urls import WEB, wrong_host, wrong_token, wrong_url
from harness.yaml_text import NOT_OF_ITS_TAG, UNUSABLE, words_of

Files = Path | tuple[Path, ...]  # one file; or those of $KUBECONFIG, the first of which that has an entry counts
NAMESPACE = "default"  # where a context names none
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"  # RFC 1123
PROXIES = (*WEB, "socks5")
EXEC_API = "client.authentication.k8s.io"
EXEC_VERSIONS = (f"{EXEC_API}/v1", f"{EXEC_API}/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
REMOVED = {  # Kubernetes 1.26 took these out; client-go has no other but oidc
    "azure": "use kubelogin as a credential program: https://azure.github.io/kubelogin",
    "gcp": "use gke-gcloud-auth-plugin as a credential program: `gcloud container clusters get-credentials`",
}


class Scalar(Enum):
    """The type of a key that is not a mapping of known keys, and how a message names it."""

    TEXT = "text"
    BOOLEAN = "true or false"
    DATA = "text in base64"
    TEXTS = "a list of texts"
    TEXT_BY_KEY = "a mapping of texts"
    TEXTS_BY_KEY = "a mapping of lists of texts"
    ANYTHING = "anything"


@dataclass(frozen=True)
class Named:
    """A list of entries with a name, no two of which have the same. content: the key beside `name`."""

    content: str
    shape: Any


TEXT, BOOLEAN, DATA = Scalar.TEXT, Scalar.BOOLEAN, Scalar.DATA
EXTENSIONS = Named("extension", Scalar.ANYTHING)
CLUSTER: Mapping[str, Any] = {
    "server": TEXT,
    "tls-server-name": TEXT,
    "insecure-skip-tls-verify": BOOLEAN,
    "certificate-authority": TEXT,
    "certificate-authority-data": DATA,
    "proxy-url": TEXT,
    "disable-compression": BOOLEAN,
    "extensions": EXTENSIONS,
}
EXEC: Mapping[str, Any] = {
    "command": TEXT,
    "args": Scalar.TEXTS,
    "env": [{"name": TEXT, "value": TEXT}],
    "apiVersion": TEXT,
    "installHint": TEXT,
    "provideClusterInfo": BOOLEAN,
    "interactiveMode": TEXT,
}
USER: Mapping[str, Any] = {
    "client-certificate": TEXT,
    "client-certificate-data": DATA,
    "client-key": TEXT,
    "client-key-data": DATA,
    "token": TEXT,
    "tokenFile": TEXT,
    "as": TEXT,
    "as-uid": TEXT,
    "as-groups": Scalar.TEXTS,
    "as-user-extra": Scalar.TEXTS_BY_KEY,
    "username": TEXT,
    "password": TEXT,
    "auth-provider": {"name": TEXT, "config": Scalar.TEXT_BY_KEY},
    "exec": EXEC,
    "extensions": EXTENSIONS,
}
CONTEXT: Mapping[str, Any] = {"cluster": TEXT, "user": TEXT, "namespace": TEXT, "extensions": EXTENSIONS}
CONFIG: Mapping[str, Any] = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "preferences": {"colors": BOOLEAN, "extensions": EXTENSIONS},
    "clusters": Named("cluster", CLUSTER),
    "users": Named("user", USER),
    "contexts": Named("context", CONTEXT),
    "current-context": TEXT,
    "extensions": EXTENSIONS,
}
SECTIONS = ("clusters", "users", "contexts")
MAY_BE_ABSENT = frozenset({"auth-provider", "exec"})  # which mean something else when they are there and empty
EMPTY: Mapping[Scalar, Any] = {
    TEXT: "",
    BOOLEAN: False,
    DATA: b"",
    Scalar.TEXTS: (),
    Scalar.TEXT_BY_KEY: {},
    Scalar.TEXTS_BY_KEY: {},
    Scalar.ANYTHING: None,
}


@dataclass(frozen=True)
class KubeconfigEntry:
    """A cluster, a user or a context of a kubeconfig.

    file: that has it.  where: in the file, such as `users[admin].user`.  content: by key; what is absent is empty.
    lines: of the file's keys, by where they are.
    """

    file: Path
    where: str
    content: Json
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)

    def path(self, key: str) -> Path:
        """Return the path that a key names; one that is not absolute starts at the folder of the file."""
        return self.file.parent.absolute() / str(self.content[key])

    def wrong(self, key: str, why: str, hint: str, detail: str = "") -> BadInput:
        """Return the error of a key that cannot be used."""
        where = f"{self.where}.{key}"
        line = self.lines.get(where, self.lines.get(self.where))
        return unusable(self.file, f"{_line(line)}{where}: {why}", hint, detail)


@dataclass(frozen=True)
class KubeContext:
    """What a context leads to. user: with nothing in it where the context names none."""

    file: Path
    cluster: KubeconfigEntry
    user: KubeconfigEntry
    namespace: str

    @property
    def secure(self) -> bool:
        """Tell whether the server is spoken to by TLS; without it nobody logs in, as with kubectl."""
        return urlsplit(str(self.cluster.content["server"])).scheme == "https"


def unusable(file: Path, why: str, hint: str = "check the file and the context's name", detail: str = "") -> BadInput:
    """Return the error of a kubeconfig that leads nowhere."""
    return BadInput(f"kubeconfig {file} cannot be used: {why}", hint=hint, detail=detail)


def read_kubeconfig(files: Files, context: str | None = None) -> KubeContext:
    """Read a kubeconfig and return what a context (None: its current one) leads to.

    Raises:
        BadInput: a file is missing or malformed, it has no such context, or a key of the context's cluster or user has
            no meaning; kubectl refuses the same.
    """
    merged = _merged(files_in(files))
    chosen = merged.context(context)
    cluster = merged.named("clusters", "cluster", chosen)
    user = merged.named("users", "user", chosen) if chosen.content["user"] else _nobody(chosen)
    _judge_cluster(cluster)
    _judge_user(user)
    return KubeContext(chosen.file, cluster, user, _namespace(chosen))


def namespace_of(files: Files) -> str:
    """Return the namespace of a kubeconfig's current context. Raises BadInput if it has no such context."""
    return _namespace(_merged(files_in(files)).context(None))


def files_in(files: Files) -> tuple[Path, ...]:
    """Return the files of a kubeconfig."""
    return (files,) if isinstance(files, Path) else files


def files_of(environment: Mapping[str, str], home: Path) -> Files:
    """Return the files that kubectl would read: those of $KUBECONFIG, else the one in the home folder.

    Raises:
        BadInput: KUBECONFIG has the content of a file, as a variable of a CI that should be a file has.
    """
    if "\n" in environment.get("KUBECONFIG", "").strip():
        raise BadInput(
            "KUBECONFIG has several lines: the content of a file, not its name",
            hint="write them to a file and name that; in GitLab, make it a CI/CD variable of type File",
        )
    named = dict.fromkeys(filter(None, environment.get("KUBECONFIG", "").split(os.pathsep)))
    files = tuple(map(Path, named)) or (home / ".kube" / "config",)
    return files[0] if len(files) == 1 else files


def _nobody(context: KubeconfigEntry) -> KubeconfigEntry:
    return KubeconfigEntry(context.file, "users[].user", {key: _empty(key, shape) for key, shape in USER.items()})


def _namespace(context: KubeconfigEntry) -> str:
    namespace = str(context.content["namespace"]) or NAMESPACE
    if not re.fullmatch(LABEL, namespace):
        hint = "a namespace has up to 63 lower-case letters, digits and hyphens"
        raise context.wrong("namespace", f"{namespace!r} is not the name of a namespace", hint)
    return namespace


@dataclass(frozen=True)
class _Merged:
    """Several files as one: of entries with the same name, and of current contexts, the first counts."""

    files: tuple[Path, ...]
    sections: Mapping[str, Mapping[str, KubeconfigEntry]]
    current: str

    def context(self, name: str | None) -> KubeconfigEntry:
        """Return a context, None: the current one."""
        name = name or self.current
        if not name:
            hint = "check the file, or name one of its contexts with the setting `context`"
            raise unusable(self.files[0], "it has no current-context", hint)
        return self._entry("contexts", name, "context", self.files[0])

    def named(self, section: str, key: str, context: KubeconfigEntry) -> KubeconfigEntry:
        """Return the entry that a context names by a key."""
        return self._entry(section, str(context.content[key]), key, context.file)

    def _entry(self, section: str, name: str, noun: str, file: Path) -> KubeconfigEntry:
        entry = self.sections[section].get(name)
        if entry is None:
            known = ", ".join(self.sections[section]) or "none"
            raise unusable(file, f"it has no {noun} {name!r} (it has {known})")
        return entry


def _merged(files: tuple[Path, ...]) -> _Merged:
    there = [file for file in files if os.path.lexists(file)]
    if not there:
        hint = "pass --kubeconfig PATH or bring the infra up first"
        raise BadInput(f"kubeconfig {', '.join(map(str, files))} does not exist", hint=hint)
    sections: dict[str, dict[str, KubeconfigEntry]] = {section: {} for section in SECTIONS}
    current = ""
    for file in there:
        reader = _Reader(file)
        config = reader.config()
        for section in SECTIONS:
            content = CONFIG[section].content
            for name, entry in config[section].items():
                where = f"{section}[{name}].{content}"
                sections[section].setdefault(name, KubeconfigEntry(file, where, entry, reader.lines))
        current = current or str(config["current-context"])
    return _Merged(tuple(there), sections, current)


class _Reader:
    """Reads one file: every key of it has the type that client-go's has, or the file is refused.

    Attributes: lines: of the keys, by where they are.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines: dict[str, int] = {}

    def config(self) -> Json:
        """Return the file's content by key; lists of named entries by name."""
        try:
            self._loader = KubectlLoader(read_text(self.file))
            node = self._loader.document()
            if node is None or tag_of(node) == "null":
                raise unusable(self.file, "it is not a kubeconfig, but empty")
            if not isinstance(node, yaml.MappingNode):
                raise unusable(self.file, f"it is not a kubeconfig, but {_kind_of(node)}")
            config = self._mapping(node, CONFIG, "")
            if self._loader.misfits:
                hint = "remove the key, or correct the value"
                raise self._wrong(
                    self._loader.misfits[0], "below a key that kubectl does not use", NOT_OF_ITS_TAG, hint
                )
        except UNUSABLE as error:
            mark = getattr(error, "problem_mark", None)
            line = _line(mark.line + 1 if mark is not None else None)
            raise unusable(self.file, f"{line}it is not YAML: {words_of(error)}", "check the file") from error
        for key, known in (("apiVersion", "v1"), ("kind", "Config")):
            if config[key] not in ("", known):
                where = f"{_line(self.lines.get(key))}{key}"
                raise unusable(self.file, f"{where} is {config[key]!r}, not {known}", "is it the right file?")
        return config

    def _value(self, node: yaml.Node, shape: Any, where: str) -> Any:
        self.lines[where] = node.start_mark.line + 1
        if isinstance(shape, Named):
            return self._entries(node, shape, where)
        if isinstance(shape, list):
            return [self._value(item, shape[0], f"{where}[{place}]") for place, item in self._listed(node, where)]
        if isinstance(shape, Mapping):
            return self._mapping(node, shape, where)
        return self._scalar(node, shape, where)

    def _mapping(self, node: yaml.Node, shape: Mapping[str, Any], where: str) -> Json:
        pairs = self._pairs(node, where)
        return {
            key: _empty(key, kind)
            if key not in pairs or tag_of(pairs[key]) == "null"
            else self._value(pairs[key], kind, f"{where}.{key}" if where else key)
            for key, kind in shape.items()
        }

    def _entries(self, node: yaml.Node, shape: Named, where: str) -> Json:
        entries: Json = {}
        for place, item in self._listed(node, where):
            pairs = self._pairs(item, f"{where}[{place}]")
            named = pairs.get("name")
            name = self._scalar(named, TEXT, f"{where}[{place}].name") if named is not None else ""
            if name in entries:
                raise self._wrong(item, f"{where}[{place}].name", f"{name!r} is there twice", "rename or remove one")
            content = pairs.get(shape.content)
            inside = f"{where}[{name}].{shape.content}"
            absent = content is None or tag_of(content) == "null"
            entries[name] = _empty("", shape.shape) if absent else self._value(content, shape.shape, inside)  # type: ignore[arg-type]
        return entries

    def _scalar(self, node: yaml.Node, shape: Scalar, where: str) -> Any:
        tag = tag_of(node)
        if tag == "null":
            return EMPTY[shape]
        if "\0" in (node.value if tag == "str" else ""):
            raise self._wrong(node, where, "it has a NUL character", "remove it")
        if shape is TEXT and tag == "str":
            return str(node.value)
        if shape is BOOLEAN and tag == "bool":
            return construct_boolean(self._loader, node)  # type: ignore[arg-type]
        if shape is DATA and tag == "str":
            return self._data(node, where)
        if shape is Scalar.ANYTHING:
            return self._anything(node, where)
        return self._texts(node, shape, where)

    def _texts(self, node: yaml.Node, shape: Scalar, where: str) -> Any:
        tag = tag_of(node)
        if shape is Scalar.TEXTS and tag == "seq":
            return tuple(self._scalar(item, TEXT, f"{where}[{place}]") for place, item in self._listed(node, where))
        if shape in (Scalar.TEXT_BY_KEY, Scalar.TEXTS_BY_KEY) and tag == "map":
            inner = TEXT if shape is Scalar.TEXT_BY_KEY else Scalar.TEXTS
            pairs = self._pairs(node, where)
            for key, _ in node.value:
                if tag_of(key) != "str":
                    raise self._wrong(key, where, f"a key of it is {_kind_of(key)}, not text", "put the key in quotes")
            return {key: self._scalar(item, inner, f"{where}[{key}]") for key, item in pairs.items()}
        raise self._wrong(node, where, f"it is {_kind_of(node)}, not {shape.value}", _remedy(shape, tag))

    def _anything(self, node: yaml.Node, where: str) -> Any:
        try:
            return self._loader.construct_object(node, deep=True)
        except UNUSABLE as error:
            raise self._wrong(node, where, words_of(error), "write text, numbers, lists and mappings") from error

    def _data(self, node: yaml.Node, where: str) -> bytes:
        text = str(node.value).replace("\n", "").replace("\r", "")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            hint = "put the output of `base64 -w0 FILE` there"
            raise self._wrong(node, where, f"it is not base64: {error}", hint) from error

    def _listed(self, node: yaml.Node, where: str) -> Iterator[tuple[int, yaml.Node]]:
        if tag_of(node) == "null":
            return
        if not isinstance(node, yaml.SequenceNode):
            raise self._wrong(node, where, f"it is {_kind_of(node)}, not a list", "begin each entry with `- `")
        yield from enumerate(node.value)

    def _pairs(self, node: yaml.Node, where: str) -> dict[str, yaml.Node]:
        """Return a mapping's values by key; of a key that is there twice, the last counts."""
        if tag_of(node) == "null":
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(node, where, f"it is {_kind_of(node)}, not a mapping", "write its keys as `key: value`")
        self._loader.flatten_mapping(node)
        return {str(key.value): value for key, value in node.value if isinstance(key, yaml.ScalarNode)}

    def _wrong(self, node: yaml.Node, where: str, why: str, hint: str) -> BadInput:
        return unusable(self.file, f"{_line(node.start_mark.line + 1)}{where}: {why}", hint)


def _line(number: int | None) -> str:
    return f"line {number}: " if number is not None else ""


def _empty(key: str, shape: Any) -> Any:
    if key in MAY_BE_ABSENT:
        return None
    if isinstance(shape, Named):
        return {}
    if isinstance(shape, list):
        return []
    if isinstance(shape, Mapping):
        return {inner: _empty(inner, kind) for inner, kind in shape.items()}
    return EMPTY[shape]


def _kind_of(node: yaml.Node) -> str:
    """Return what a value is, without showing it: it may be a secret."""
    names = {"str": "text", "bool": "true or false", "int": "a number", "float": "a number", "null": "empty"}
    return {**names, "seq": "a list", "map": "a mapping"}.get(tag_of(node), f"a value with the tag {node.tag}")


def _remedy(shape: Scalar, tag: str) -> str:
    if shape is BOOLEAN:
        return "write true or false, without quotes"
    if shape in (TEXT, DATA) and tag in ("int", "float", "bool"):
        return "put it in quotes"
    return f"write {shape.value}"


@contextmanager
def _reading(entry: KubeconfigEntry, key: str) -> Iterator[None]:
    """Let the error of a file that cannot be read name the key that names the file."""
    try:
        yield
    except BadInput as error:
        raise entry.wrong(key, error.summary, error.hint) from error


def material(entry: KubeconfigEntry, key: str) -> bytes:
    """Return a certificate or a key, b"" if there is none: `KEY-data` of the kubeconfig, or the file that KEY names.

    Raises:
        BadInput: the file cannot be read.
    """
    data = bytes(entry.content[f"{key}-data"])
    if data or not entry.content[key]:
        return data
    with _reading(entry, key):
        return read_bytes(entry.path(key))


def token_in(entry: KubeconfigEntry) -> str:
    """Return the token in the file that `tokenFile` names, "" where none is named.

    Raises:
        BadInput: the file cannot be read.
    """
    if not entry.content["tokenFile"]:
        return ""
    with _reading(entry, "tokenFile"):
        return read_text(entry.path("tokenFile")).strip()


def _judge_cluster(cluster: KubeconfigEntry) -> None:
    """Refuse a cluster that kubectl refuses, and addresses that cannot be one."""
    settings = cluster.content
    _judge_address(cluster, "server", WEB)
    if settings["proxy-url"]:
        _judge_address(cluster, "proxy-url", PROXIES)
    name = str(settings["tls-server-name"])
    if name and (wrong := wrong_host(name)):
        raise cluster.wrong("tls-server-name", wrong, "name one of the names in the server's certificate")
    _refuse_both(cluster, "certificate-authority", "certificate-authority-data")
    authority = "certificate-authority" if settings["certificate-authority"] else "certificate-authority-data"
    if settings["insecure-skip-tls-verify"] and settings[authority]:
        why = f"it cannot be true beside {authority}: is the server to be verified, or not?"
        raise cluster.wrong("insecure-skip-tls-verify", why, "remove one of them")
    material(cluster, "certificate-authority")


def _judge_address(cluster: KubeconfigEntry, key: str, schemes: Sequence[str]) -> None:
    text = str(cluster.content[key])
    if wrong := wrong_url(text, schemes):
        shown = f"{without_login(text)!r}: " if text else ""
        raise cluster.wrong(key, f"{shown}{wrong}", f"correct `{key}` of the cluster in the file")
    if key == "server" and urlsplit(text).username is not None:
        raise cluster.wrong(key, "it has a user in it", "name `username` and `password` of the user in the file")


def without_login(url: str) -> str:
    """Return a URL without user and password."""
    return re.sub(r"//[^/@]*@", "//", url)


def _refuse_both(entry: KubeconfigEntry, *keys: str) -> None:
    keys_set = [key for key in keys if entry.content[key]]
    if len(keys_set) > 1:
        raise entry.wrong(
            keys_set[1], f"it is there beside {keys_set[0]}, and one of them counts", "remove one of them"
        )


def _judge_user(user: KubeconfigEntry) -> None:
    """Refuse a user that kubectl refuses, and what no request can have."""
    settings = user.content
    for basic in ("username", "password"):
        for token in ("token", "tokenFile"):
            _refuse_both(user, token, basic)
    if settings["password"] and not settings["username"]:
        raise user.wrong("password", "nobody is named whose it is", "name the user as `username`, or remove it")
    if settings["client-certificate"] or settings["client-certificate-data"]:
        _judge_certificate(user)
    _judge_impersonation(user)
    if settings["auth-provider"] is not None:
        name = settings["auth-provider"]["name"]
        hint = REMOVED.get(name, "use a credential program: `exec`")
        raise user.wrong("auth-provider", f"{name or 'it'} is not supported", hint)
    if settings["exec"] is not None:
        _judge_exec(user)
    from_file = token_in(user)
    if settings["tokenFile"] and not settings["token"] and not from_file:
        raise user.wrong("tokenFile", f"{user.path('tokenFile')} is empty", "log in again")
    for key, token in (("token", str(settings["token"])), ("tokenFile", from_file)):
        if wrong := wrong_token(token):
            raise user.wrong(key, f"the token: {wrong}", "a token is one word")


def _judge_certificate(user: KubeconfigEntry) -> None:
    for stem in ("client-certificate", "client-key"):
        _refuse_both(user, stem, f"{stem}-data")
        if not user.content[stem] and not user.content[f"{stem}-data"]:
            raise user.wrong(stem, "the certificate has no key", "name `client-key` or `client-key-data` as well")
        material(user, stem)


def _judge_impersonation(user: KubeconfigEntry) -> None:
    settings = user.content
    for key in ("as-uid", "as-groups", "as-user-extra"):
        if settings[key] and not settings["as"]:
            raise user.wrong(key, "nobody is impersonated whose it could be", "name the user as `as`, or remove it")
    values = [
        ("as", settings["as"]),
        ("as-uid", settings["as-uid"]),
        *(("as-groups", group) for group in settings["as-groups"]),
    ]
    values += [("as-user-extra", value) for extra in settings["as-user-extra"].values() for value in extra]
    for key, value in values:
        if any((ord(c) < ord(" ") and c != "\t") or c == "\x7f" for c in value):
            raise user.wrong(key, "it has a control character, which no header can have", "remove it")


def _judge_exec(user: KubeconfigEntry) -> None:
    command = user.content["exec"]
    if not command["command"]:
        raise user.wrong("exec.command", "it is empty", "name the program that gives credentials")
    if command["apiVersion"] not in EXEC_VERSIONS:
        known = " or ".join(EXEC_VERSIONS)
        what = f"{command['apiVersion']!r} is not supported" if command["apiVersion"] else "it is empty"
        raise user.wrong("exec.apiVersion", what, f"name the version that the program speaks: {known}")
    mode = command["interactiveMode"] or ("IfAvailable" if command["apiVersion"] == EXEC_VERSIONS[1] else "")
    if mode not in INTERACTIVE_MODES:
        what = f"{mode!r} is not a mode" if mode else "it is empty"
        raise user.wrong("exec.interactiveMode", what, f"name one of {', '.join(INTERACTIVE_MODES)}")
    for place, variable in enumerate(command["env"]):
        if not variable["name"] or "=" in variable["name"]:
            what = "it has the character =" if variable["name"] else "it is empty"
            raise user.wrong(f"exec.env[{place}].name", what, "name the variable, or remove the entry")
