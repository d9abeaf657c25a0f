"""What each kind of product asks of product.yml, on its plain data; `crossref` calls it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shutil import which
from typing import Any

from harness.errors import BadInput
from harness.files import read_text
from harness.paths import MATRIX, packaged_dir
from harness.spec import product_files
from harness.spec.declared import EACH, field, find, texts
from harness.spec.lines import Finding, below
from harness.spec.playbook_files import Configuration, PlaybookFiles, configuration
from harness.spec.playbook_variables import template_mistake
from harness.spec.plays import Groups, Unclear, made_later, mentions, patterns

FILES = ("install", "requirements", "config")
FOLDERS = ("offline",)
PACKAGED = "playbooks"  # the folder of the packaged playbooks
VARS_FOLDERS = ("group_vars", "host_vars")
KUBECONFIG = "cluster_kubeconfig_path"  # the variable that says where the product has to leave one


def playbook(phase: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    """Find a phase without a playbook, or with one that is not there."""
    if phase.get("playbook") is None:
        yield ("playbook",), "missing; this key is required"
    named = field(phase, "playbook")
    if named is not None and not is_there((directory / named).is_file):
        yield ("playbook",), f"the playbook {directory / named} does not exist; create it, or remove the phase"


def ansible_options(content: Any, directory: Path) -> Iterator[Finding]:
    """Find files of `ansible` that are not there; `content` is the product's."""
    for key in (*FILES, *FOLDERS):
        for at, name in texts(content, "ansible", key):
            path = directory / name
            if not is_there(path.is_dir if key in FOLDERS else path.is_file):
                yield at, f"the {'folder' if key in FOLDERS else 'file'} {path} does not exist"
    for at, name in texts(content, "ansible", "path"):
        program = (directory / name).expanduser() / "ansible-playbook"
        if not is_there(lambda program=program: program.is_file() and os.access(program, os.X_OK)):  # type: ignore[misc]
            yield at, f"no program {program}; `path` is the folder of ansible-playbook, such as .venv/bin"
    folders: set[str] = set()
    for at, name in texts(content, "ansible", "inventories", EACH):
        path = directory / name
        if not is_there(path.exists):
            yield at, f"the inventory {path} does not exist"
        if path.name in VARS_FOLDERS and path.name in folders:
            yield at, f"a second folder {path.name}; Ansible reads one beside an inventory"
        folders.add(path.name)


def plays(content: Any, directory: Path, topologies: Any, sources: Path | None) -> Iterator[Finding]:
    """Find the first phase whose plays are about none of the machines that it has; a deployment is about all.

    Args:
        content: the product's.  sources: the folder of its sources, if it is there.
    """
    inventories = [name for _, name in texts(content, "ansible", "inventories", EACH)]
    if any(Path(name).name not in VARS_FOLDERS for name in inventories):
        return  # they may have groups of their own
    groups = _groups(content, topologies)
    none = {str(at[-1]) for at, names in find(content, "groups", EACH) if names == []}  # their topologies are left out
    kinds = {frozenset(word for _, word in texts(group_list, EACH)) for _, group_list in _group_lists(topologies)}
    kinds = {kind for kind in kinds if not kind <= none}
    for at, name in texts(content, "phases", EACH, "playbook"):
        try:
            named = list(patterns(directory / name, str(sources) if sources is not None else ""))
            reached = frozenset().union(*(groups.within(hosts) for hosts in named))
        except Unclear:
            continue
        left = sorted({", ".join(sorted(kind)) for kind in kinds if not kind & reached})
        shown_hosts = ", ".join(dict.fromkeys(pattern for hosts in named for pattern in hosts))
        if not named or not left or (reached and at[-2] != "deploy") or _made(shown_hosts, groups, directory, sources):
            continue
        names = ", ".join(groups.names)
        yield (
            at,
            f"no play of {name} is about machines of {left[0]}: its plays name {shown_hosts}, "
            f"the inventory has {names}; give the product's own names under `groups`",
        )
        return


def files(content: Any, directory: Path, sources: Path | None) -> Iterator[Finding]:
    """Find files, roles and collections that the playbooks of phases name and that are not there: one a phase."""
    if directory.resolve() == (packaged_dir() / PACKAGED).resolve():
        return  # what ships is whole
    own = any(True for key in ("path", "install", "requirements") for _ in find(content, "ansible", key))
    config = next((directory / name for _, name in texts(content, "ansible", "config")), None)

    for at, name in texts(content, "phases", EACH, "playbook"):
        playbook = directory / name

        def ask(playbook: Path = playbook) -> Configuration:
            env = {"ANSIBLE_CONFIG": str((config or playbook.parent / "ansible.cfg").absolute())}
            return configuration(Path(sys.executable).parent, playbook.parent, env, ssh=False)

        search = PlaybookFiles(str(sources) if sources is not None else "", ask, later=own)
        lacking = next(search.missing(playbook), None)
        if lacking is not None:
            yield at, lacking


def kubeconfig(content: Any, directory: Path, sources: Path | None) -> Iterator[Finding]:
    """Find a product that cannot leave a kubeconfig, because nothing in its files says where to."""
    deploys = [at for at, _ in find(content, "phases", "deploy", "playbook")]
    elsewhere = any(True for _ in find(content, "ansible", "requirements"))  # roles that are not here yet
    if deploys and not elsewhere and _has_plays(content, directory) and not mentions((KUBECONFIG,), directory, sources):
        yield (
            deploys[0],
            f"no file of {directory} mentions {KUBECONFIG}, so no cluster could be reached after the deployment; "
            "write the admin kubeconfig to the path in that variable (docs/product.md)",
        )


def _has_plays(content: Any, directory: Path) -> bool:
    try:
        named = texts(content, "phases", "deploy", "playbook")
        return any(True for _, name in named for _ in patterns(directory / name, ""))
    except Unclear:
        return True


def _made(pattern_words: str, groups: Groups, directory: Path, sources: Path | None) -> bool:
    missing = [word for word in re.findall(r"[\w.-]+", pattern_words) if word not in groups.names]
    return made_later(missing, directory, sources)


def _groups(content: Any, topologies: Any) -> Groups:
    names: dict[str, frozenset[str]] = {}
    ours = {word for _, group_list in _group_lists(topologies) for _, word in texts(group_list, EACH)}
    for group in sorted(ours):
        names_of_group = [*texts(content, "groups", group), *texts(content, "groups", group, EACH)]
        for name in (group, *(word for _, word in names_of_group)):
            names[name] = names.get(name, frozenset()) | {group}
    machines = "|".join(re.escape(word) for _, word in texts(topologies, "topologies", EACH, "machines", EACH, "name"))
    return Groups(names, re.compile(rf"(?:{machines or '(?!)'})-\d+"))


def _group_lists(topologies: Any) -> Iterator[tuple[Any, Any]]:
    return find(topologies, "topologies", EACH, "machines", EACH, "groups")


def is_there(asked: Callable[[], bool]) -> bool:
    """Ask about a path that a person wrote: one that cannot be (too long, a null byte) is not there."""
    try:
        return asked()
    except (OSError, ValueError):
        return False


def program(phase: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    """Find a phase without a program, or with one that cannot be run."""
    if phase.get("command") is None:
        yield ("command",), "missing; this key is required"
    for at, folder in texts(phase, "working_directory"):
        if not is_there((directory / folder).is_dir):
            yield at, f"the directory {directory / folder} does not exist"
    for at, name in islice(texts(phase, "command", EACH), 1):
        why = _not_run(name, directory)
        if at == ("command", 0) and why:
            yield at, why


def _path_of_printers() -> str:
    """Return the PATH of programs that print objects: vmatrix's own come first."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


def _not_run(program: str, directory: Path, path: str | None = None) -> str:
    """Say why a program cannot be run; "" when it can."""
    if "/" not in program:
        path_of_program = which(program, path=path) if "\0" not in program else None
        return (
            ""
            if path_of_program
            else f"no folder of the PATH has the program {program}; install it, or write ./{program}"
        )
    file = directory / program
    if not is_there(file.exists):
        return f"the program {file} does not exist; create it, or remove the phase"
    if not file.is_file():
        return f"the program {file} is not a file"
    return "" if os.access(file, os.X_OK) else f"the program {file} is not executable; run `chmod +x {file}`"


def edit(phase: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    """Find a phase that edits nothing, or applies what is not there."""
    edits = phase.get("apply") is not None or bool(phase.get("deleted"))
    if not edits and phase.get("delete") is not True:
        yield ("apply",), "missing; a phase has `apply: TEMPLATE`, `delete: true`, or both; or `deleted`"
    for at, name in texts(phase, "commit"):
        folder = directory / name
        if not is_there(lambda folder=folder: any(file.is_file() for file in folder.iterdir())):  # type: ignore[misc]
            yield at, f"the folder {folder} does not exist, or has no file; it has the files that are committed"
    for key, used in (
        ("until", edits),
        *((name, phase.get("apply")) for name in ("read", "commit", "guest")),
    ):
        if not used and phase.get(key) is not None:
            yield (key,), "it is of no use to a phase that applies nothing; add `apply: TEMPLATE`"
    for at, name in (*texts(phase, "apply"), *texts(phase, "guest")):
        yield from below(at, _template(name, directory))


def declared_options(product: Any, directory: Path) -> Iterator[Finding]:
    """Find a product that does not say which object it is about, and files to install that are not there."""
    if isinstance(product, Mapping) and product.get("declared") is None:
        yield ("declared",), "missing; a product of kind declared says here which object it edits (docs/product.md)"
    for where in ("cluster", "namespace"):
        for at, name in texts(product, "declared", "install", where, EACH):
            yield from below(at, _template(name, directory))
        for at, name in texts(product, "declared", "install", where, EACH, "command", EACH):
            if at[-1] == 0 and "{{" not in name and (why := _not_run(name, directory, _path_of_printers())):
                yield at, why
    for at, name in texts(product, "declared", "makes", "apply"):
        yield from below(at, _template(name, directory))


def _template(name: str, directory: Path) -> Iterator[Finding]:
    file = directory / name
    if not is_there(file.is_file):
        yield (), f"the file {file} does not exist"
        return
    if file.suffix != ".j2" or file.is_relative_to(packaged_dir() / MATRIX):  # those are parsed by our tests
        return
    try:
        wrong = template_mistake(read_text(file))
    except BadInput as error:
        yield (), error.summary
        return
    if wrong:
        yield (), f"{file}:{wrong}"


DEFAULT, DECLARED = "ansible", "declared"
OPTIONS = (DEFAULT, DECLARED)  # the kinds with options in a key of that name
GROUPS = ("control_plane", "etcd", "node")
RESERVED = ("all", "ungrouped")  # Ansible's own groups


def check(content: Any, project: Path, topologies: Any = None) -> Iterator[Finding]:
    """Find what is wrong with a product's groups, sources, files and phases.

    Args:
        content: of product.yml.  project: what its paths are relative to.  topologies: the content of topologies.yml.
    """
    for at, groups in find(content, "product", "groups"):
        yield from below(at, wrong_groups(groups))
    for at, product in find(content, "product"):
        yield from below(at, _product(product, project, topologies))


def _product(product: Any, project: Path, topologies: Any) -> Iterator[Finding]:
    entry = next((entry for _, entry in find(product, "sources")), None)
    folder = product_files.folder(entry, project)
    if folder is None and entry is None:
        yield from _marks_without_sources(product)
    there = folder is not None and is_there(folder.is_dir)
    if folder is not None and not there and not product_files.fetched_later(entry, folder):
        yield ("sources",), f"the folder {folder} does not exist; {product_files.VARIABLE} or `path` names it"
    product = product_files.put(product, folder if there else None)
    for at, name in texts(product, "directory"):
        if product_files.marked(name):  # it is judged once it is there
            return
        directory = project / name
        if not is_there(directory.is_dir):
            yield at, f"the directory {directory} does not exist"
            return
        yield from _globs(product, project)
        yield from _files(product, directory, topologies, folder if there else None)


def _globs(product: Any, project: Path) -> Iterator[Finding]:
    """Find paths of changes that no change can have: outside of the project, or of a phase's file that is not there.

    What has no effect may be missing: then nothing is tested less, and the packaged list names files of vmatrix's own.
    """
    in_phases, without_effect = ("phases", EACH, "paths", EACH), ("without_effect", EACH)
    for key, needed in ((in_phases, True), (without_effect, False)):
        for at, glob in texts(product, *key):
            path = Path(glob)
            if product_files.marked(glob) or path.is_relative_to(packaged_dir()):  # of the packaged product
                continue
            if path.is_absolute() or ".." in path.parts:
                yield at, f"{glob!r} leads out of the project; name files by their paths in it, such as deploy/*.sh"
            elif needed and not set("*?[") & set(glob) and not _in_one_of(glob, project, packaged_dir()):
                yield at, f"the file {project / glob} does not exist; correct the path, or remove it"


def _in_one_of(path: str, *roots: Path) -> bool:
    return any(is_there((root / path).exists) for root in roots)


def _files(product: Any, directory: Path, topologies: Any, sources: Path | None) -> Iterator[Finding]:
    kind = next((word for _, word in texts(product, "kind")), DEFAULT)
    findings: list[Finding] = []
    for where, phase in find(product, "phases", EACH):
        if kind in KINDS and isinstance(phase, Mapping) and not product_files.marked(phase):
            findings += below(where, _ways(phase, directory, kind))
    marked = any(product_files.marked(part) for _, part in find(product, "phases"))
    for other in (name for name in OPTIONS if name != kind):
        findings += ((at, f"belongs to kind {other}; this product is of kind {kind}") for at, _ in find(product, other))
    if kind == DECLARED:
        findings += declared_options(product, directory)
    elif kind == DEFAULT and not any(product_files.marked(part) for _, part in find(product, DEFAULT)):
        findings += ansible_options(product, directory)
    yield from findings
    if kind == DEFAULT and not findings and not marked:
        yield from files(product, directory, sources)
        yield from plays(product, directory, topologies, sources)
        yield from kubeconfig(product, directory, sources)


def _marks_without_sources(product: Any) -> Iterator[Finding]:
    if isinstance(product, Mapping):
        for key, inner in product.items():
            if key not in product_files.NOT_PATHS and product_files.marked(inner):
                message = f"{product_files.MARK} stands for the folder of `sources`, which this product does not have"
                yield (str(key),), f"{message}; add `sources`"


def wrong_groups(groups: Any) -> Iterator[Finding]:
    """Find what is wrong with a product's names of the groups of topologies."""
    if not isinstance(groups, Mapping) or not groups:
        return
    for missing in (group for group in GROUPS if group not in groups):
        yield (), f"lacks {missing}, a group of every topology; add `{missing}: NAME`, or `{missing}: []` without one"
    for ours in (group for group in GROUPS if group in groups):
        for at, name in (*texts(groups, ours), *texts(groups, ours, EACH)):
            if name in RESERVED:
                yield at, f"{name} is a group of Ansible's own, which has other machines; use another name"
            elif name in GROUPS and name != ours:
                yield at, f"{name} is the name of another group of topologies, which has other machines"


def _ways(phase: Mapping[str, Any], directory: Path, kind: str) -> Iterator[Finding]:
    """Check a phase by the product's kind, or say that it is written for another one."""
    own = KINDS[kind]
    for name, other in KINDS.items():
        if name != kind and phase.get(other.key) is not None:
            both = f"the phase has `{own.key}`, too, as the product's kind asks; remove `{other.key}`"
            wrong = f"is for products of kind `{name}`; write `{own.key}`, or set `kind: {name}` of the product"
            yield (other.key,), both if phase.get(own.key) is not None else wrong
            return
        if name != kind:
            for key in (key for key in other.others if key in phase):
                yield (key,), f"belongs to kind {name}; this product is of kind {kind}"
    yield from own.check(phase, directory)


@dataclass(frozen=True)
class Way:
    """What a kind of product asks of a phase.

    key: that which says what is run.  others: further keys that mean nothing to other kinds.
    check: finds what is wrong with a phase.
    """

    key: str
    others: tuple[str, ...]
    check: Callable[[Mapping[str, Any], Path], Iterator[Finding]]


KINDS: Mapping[str, Way] = {
    "ansible": Way("playbook", ("args",), playbook),
    "command": Way("command", ("working_directory", "environment"), program),
    "declared": Way("apply", ("delete", "until", "read", "commit", "deleted", "images", "guest"), edit),
}
