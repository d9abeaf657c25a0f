"""The house of docs/architecture.md is the one that stands: the index, the folders, the layers, and its sizes."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.unit.pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HARNESS = ROOT / "harness"
UNIT = ROOT / "tests" / "unit"
LONGEST_FUNCTION = 50  # lines
MOST_PARAMETERS = 8  # self and cls do not count
LONGEST_MODULE = 600  # lines
LEAST_MODULE = 40  # lines, below which what one neighbour alone imports belongs to that neighbour
VAGUE = frozenset({"found", "given", "one", "said", "seen", "wanted"})  # names that do not say what they hold
MOST_VAGUE = 1.0  # per cent of all names that are bound
FOLDED = (
    *("harness/artifacts", "harness/cell", "harness/cli", "harness/embedded", "harness/gitlab", "harness/history"),
    *("harness/infra", "harness/kube", "harness/machines", "harness/operator", "harness/plan", "harness/plugin"),
    *("harness/providers", "harness/report", "harness/schedule", "harness/session", "harness/spec", "harness/validate"),
)  # the packages where that rule holds

# What a newcomer asks: the path to open, and what has to be defined there.
QUESTIONS = {
    "Where is a provider added?": ("harness/providers/__init__.py", "named"),
    "Where is an option of `vmatrix run` defined?": ("harness/spec/options.py", "RunRequest"),
    "Where is a setting defined, with its option and its help?": ("harness/spec/settings.py", "Settings"),
    "Where are settings merged?": ("harness/spec/settings.py", "load_settings"),
    "Where is the project found?": ("harness/paths.py", "project_dir"),
    "Where do a project's files replace or amend the packaged ones?": ("harness/spec/layers.py", "read"),
    "Where does the path of a cell's log come from?": ("harness/rundir.py", "AttemptDir"),
    "Where is a machine's manifest rendered?": ("harness/machines/kubevirt/manifests.py", "machine"),
    "Where is it decided which cells run next?": ("harness/schedule/admission.py", "Admission"),
    "Where is it decided how much memory a cell counts by?": ("harness/schedule/sizes.py", "Sizes"),
    "Where does a failed check get its blame?": ("harness/session/cells.py", "Cells"),
    "Where are exit codes defined?": ("harness/errors.py", "VmatrixError"),
    "Where does a run get its exit code?": ("harness/session/exit_codes.py", "exit_code"),
    "Where is KubeVirt's admission?": ("harness/embedded/admission/vm.py", "validate_vm"),
    "Where is the kubeconfig of the infra cluster found?": ("harness/providers/kubeconfig.py", "KubeconfigDefinition"),
    "Where does a key of a kubeconfig get its type?": ("harness/kube/kubeconfig.py", "read_kubeconfig"),
    "Where is it decided which proxy leads to an API?": ("harness/kube/proxies.py", "proxy_of"),
    "Where is the number of seconds of a time-out?": ("matrix/timeouts.yml", "golden_stall"),
    "Where is a check that runs on a machine?": ("harness/validate/machine/node.py", "main"),
    "Where is it decided which certificates are bad?": ("harness/validate/topics/certificates.py", "bad_certificates"),
    "Where is it said what a guest must look like?": ("harness/validate/expected.py", "ExpectedGuest"),
    "Where is it decided what an object of an add-on must be like?": ("harness/validate/manifests.py", "deviations"),
    "Where does it come from what a person is to type?": ("harness/validate/commands.py", "on_machine"),
    "Where is it decided that a host was too busy?": ("harness/pressure.py", "Pressure"),
    "Where does a check fail, and with which message?": ("harness/validate/findings.py", "require"),
    "Where is it decided that two failures are equal?": ("harness/check_result.py", "CheckResult"),
    "Where does a line say what a silent run does?": ("harness/report/live.py", "doing"),
    "Where are a project's own checks found?": ("harness/spec/suites.py", "suites_of"),
    "Where are conformance specs chosen?": ("harness/validate/conformance/curated.py", "load_curated"),
    "Where are whole sets of upstream's specs?": ("harness/validate/conformance/upstream.py", "load_upstream"),
    "Where is it said why an image of a spec is missing?": ("harness/artifacts/e2e_images.py", "listed"),
    "Where is it decided that a figure is slower?": ("harness/validate/performance/comparison.py", "slower"),
    "Where is the JUnit file written?": ("harness/report/junit.py", "render"),
    "Where are expired cells found?": ("harness/cell/existing.py", "find"),
    "Where is a disk image imported?": ("harness/cell/golden.py", "ensure_golden"),
    "Where is an artifact's checksum verified?": ("harness/artifacts/download.py", "download"),
    "Where is GitLab's child pipeline created?": ("harness/gitlab/child.py", "render"),
    "Where is the covering array created?": ("harness/plan/cover.py", "cover"),
    "Where is the covering array proved?": ("harness/plan/verify.py", "verify"),
    "Where are cells selected by what changed?": ("harness/plan/changed.py", "effects"),
    "Where is a kind of product added?": ("harness/cell/product/kinds.py", "kind_of"),
    "Where are a product's objects applied and waited for?": ("harness/cell/product/declared.py", "DeclaredProduct"),
    "Where is a playbook run and its failure explained?": ("harness/machines/runner/playbook.py", "run_playbook"),
    "Where is a product's program run, and what is it told?": ("harness/cell/product/command.py", "run_command"),
    "Where is a leaked cell deleted?": ("harness/cell/teardown.py", "reap"),
    "Where are the permissions that vmatrix needs?": ("harness/infra/cluster/rights.py", "Right"),
    "Where are the fields of a ClusterDeployment?": (
        "harness/operator/api/clusterdeployment.py",
        "ClusterDeploymentSpec",
    ),
    "Where is an EtcdCluster read as a ClusterDeployment?": (
        "harness/operator/decide/etcdclusters.py",
        "as_deployment",
    ),
    "Where is a ClusterDeployment judged?": ("harness/operator/api/rules.py", "mistakes"),
    "Where is a declared cluster's next operation decided?": (
        "harness/operator/decide/operations.py",
        "next_operation",
    ),
    "Where are CAs of a declared cluster judged?": ("harness/operator/decide/authority.py", "judged"),
    "Where is it decided which networks a declared cluster gets?": (
        "harness/operator/decide/networks.py",
        "allocation",
    ),
    "Where is it decided who reaches a declared cluster's machines?": (
        "harness/operator/decide/isolation.py",
        "policy",
    ),
    "Where is it decided what leads to a cluster's API?": ("harness/operator/decide/endpoint.py", "filled_endpoint"),
    "Where is the certificate of a ClusterUser signed?": ("harness/operator/controllers/users.py", "signed"),
    "Where are the fields of a Delivery?": ("harness/operator/api/delivery.py", "DeliverySpec"),
    "Where is it decided which revision is built?": ("harness/operator/decide/delivery.py", "next_build"),
    "Where are an application's objects?": ("harness/operator/decide/application.py", "application_objects"),
    "Where does the phase of a Machine come from?": ("harness/operator/controllers/machine_phase.py", "phase_of"),
    "Where is an operation's Job made?": ("harness/operator/execute/objects.py", "objects_of"),
    "Where is the Job of a Delivery's build made, and its end read?": (
        "harness/operator/build/job.py",
        "build_objects",
    ),
    "Where is it decided which base images a Dockerfile may name?": ("harness/operator/build/dockerfile.py", "outline"),
    "Where is an image signed, and its signature checked?": ("harness/operator/build/signature.py", "verify"),
    "Where does an executor's pod run a playbook?": ("harness/operator/execute/operation_run.py", "OperationRun"),
    "Where is a command refused before anything is made?": ("harness/session/refusals.py", "refuse"),
    "Where are the SSH keys of machines made?": ("harness/machines/keys.py", "make_key_pair"),
    "Where is it decided which failed cells are run again?": ("harness/session/selection.py", "failures"),
    "Where is a failure in quarantine taken out of the exit code?": ("harness/session/exit_codes.py", "exit_code"),
    "Where is a plan divided into shards?": ("harness/schedule/shards.py", "shard"),
    "Where are the time limits of a cell's job in GitLab?": ("harness/gitlab/child.py", "job_times"),
    "Where is a flake rate computed?": ("harness/report/analysis/series.py", "flaky"),
    "Where is it decided that checks fail more often?": (
        "harness/report/analysis/regressions.py",
        "worse_of",
    ),
    "Where do time-outs scale?": ("harness/spec/models/timeouts.py", "Timeouts"),
    "Where is it decided that a value is out of support?": ("harness/spec/dates.py", "check_dates"),
    "Where is it decided that no cell can have a value?": ("harness/spec/feasibility.py", "check"),
    "Where are the reports of a run written?": ("harness/report/run_reports.py", "write_all"),
    "Where is the list of packages (SBOM) of an image made?": ("harness/operator/build/attestation.py", "sbom"),
    "Where does an error of the operating system become a message?": ("harness/system.py", "of"),
    "Where is a program of an instance that ended started again?": ("harness/infra/host/keeper.py", "Keeper"),
    "Where are secrets masked in what is kept?": ("harness/sanitize.py", "scrubber"),
    "Where is it decided whether a program is downloaded or built?": ("harness/artifacts/store.py", "Store"),
    "Where is a cell's id made?": ("harness/plan/cells.py", "cell_id"),
    "Where is a branch refused as the revision of a product?": ("harness/cell/product/cached.py", "_fetch"),
    "Where are plays refused that no machine is in?": ("harness/spec/product_kinds.py", "plays"),
    "Where is a phase refused that did nothing?": ("harness/cell/life.py", "Life"),
    "Where is an answer refused that no Kubernetes API gives?": ("harness/kube/api.py", "refuse_foreign"),
}
# Where people read what we write; the rooms that still say it otherwise, and what others quote of them.
READ = ("ci", "deploy", "docs", "examples", "harness", "matrix", "playbooks", "templates", "tests", "vm-templates")
TEXTS = {".css", ".in", ".j2", ".js", ".json", ".md", ".py", ".service", ".sh", ".toml", ".txt", ".yaml", ".yml"}
# "a file is no folder", but not "there is no folder" or "it is no longer there", over the end of a line, too.
IS_NO = re.compile(r"(?<![tT]here) is no(?= (?!longer\b|one\b)\w)")
# Folders of tests/unit about something else than a folder of harness/.
ELSEWHERE = {"bench", "chaos", "ci", "contract", "faults", "playbooks", "refusals", "slowness"}
# Tests about no single module of harness/, and what they are about.
NO_MODULE = {
    "test_ansible_programs.py": "tests/unit/ansible_programs.py",
    "test_programs.py": "tests/unit/programs.py",
    "test_docs.py": "documentation",
    "test_examples.py": "examples/",
    "test_fake_cluster.py": "tests/unit/fake_cluster.py",
    "test_extending.py": "docs/extending.md",
    "test_house.py": "docs/architecture.md",
    "test_kill_points.py": "the points of tests/kill",
    "test_timeouts.py": "matrix/timeouts.yml",
    "cli/test_anywhere.py": "every command outside of a project",
    "cli/test_bad_input.py": "exit code 2 of every command",
    "cli/test_former_options.py": "options that have another name now",
    "cli/test_surroundings.py": "variables, streams and limits around any command",
    "gitlab/test_clone.py": "harness/gitlab/jobs.yml",
    "gitlab/test_faults_page.py": "docs/gitlab-faults.md",
    "gitlab/test_template.py": "templates/vmatrix.yml and harness/gitlab/jobs.yml",
    "infra/test_runner.py": "deploy/runner and deploy/quota",
    "infra/kind/test_runtime_for_kind.py": "the container runtime of tests/kind",
    "operator/test_dashboard.py": "deploy/operator/grafana.json",
    "operator/api/test_fields.py": "every field of every kind",
    "operator/decide/test_edits.py": "every field of a ClusterDeployment, edited",
    "operator/decide/test_properties.py": "what holds for every decision",
    "report/test_damage.py": "any damage to results, in every reader",
    "report/test_foreign_texts.py": "any text, in every report",
    "report/test_left_out.py": "what reports leave out",
    "report/test_reports.py": "all files of a run's report",
    "report/analysis/test_clocks.py": "whatever compares times of several hosts",
    "report/analysis/test_judged.py": "whole analyses",
    "report/page/test_render.py": "the whole page",
    "schedule/test_simulation.py": "order and admission of whole plans",
    "spec/test_mistakes.py": "mistakes in all files of matrix/",
    "validate/conformance/test_seeds.py": "tests/bench/seeds.py",
}


def section(title: str) -> str:
    """Return the text of a section of the page."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def index(text: str) -> dict[str, tuple[str, str]]:
    """Return the index: question to path and name."""
    rows = re.findall(r"^\| (Where .+?\?) \| `([^`]+)` \| `([^`]+)` \|$", text, re.MULTILINE)
    return {question: (path, name) for question, path, name in rows}


def defined(path: Path) -> set[str]:
    """Return the classes and functions that a module defines, or all keys of a YAML file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yml":
        return set(keys(yaml.safe_load(text)))
    return {
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }


def keys(data: object) -> Iterator[str]:
    """Yield the keys of nested mappings."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield str(key)
            yield from keys(value)


@cache
def modules(root: Path = HARNESS) -> dict[Path, ast.Module]:
    """Return every module below a folder, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))}


def lines_of(path: Path) -> int:
    """Return how many lines a file has."""
    return len(path.read_text(encoding="utf-8").splitlines())


def too_long(parsed: Mapping[Path, ast.Module]) -> list[str]:
    """Return the modules with too many lines."""
    return [f"{path.name}: {count} lines" for path in parsed if (count := lines_of(path)) > LONGEST_MODULE]


def imported_by(tree: ast.Module, root: Path) -> Iterator[Path]:
    """Yield the files below a folder that a module imports, wherever in it."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            place = root.joinpath(*name.split("."))
            yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file())


def importers_in(root: Path, users: Mapping[Path, ast.Module]) -> dict[Path, set[Path]]:
    """Return the importers of each file below `root` that one of these modules imports."""
    importers: dict[Path, set[Path]] = {}
    for user, tree in users.items():
        for path in imported_by(tree, root):
            importers.setdefault(path, set()).add(user)
    return importers


@cache
def importers_here() -> dict[Path, set[Path]]:
    """Return the importers of each module of harness/, the checks among them."""
    return importers_in(ROOT, modules() | modules(ROOT / "tests" / "cells"))


def too_small(root: Path, folder: str, importers: Mapping[Path, set[Path]]) -> list[str]:
    """Return the modules below a folder of `root` that are a part of the one neighbour that imports them."""
    small = []
    for path in sorted((root / folder).rglob("*.py")):
        only, *others = importers.get(path, {root})
        if path.stem in ("__init__", "__main__") or others or only.parent != path.parent:
            continue
        if lines_of(path) < LEAST_MODULE:
            small.append(f"{path.relative_to(root)}: only {only.name} imports it")
    return small


def too_large(parsed: dict[Path, ast.Module]) -> list[str]:
    """Return the functions with too many lines or parameters."""
    large = []
    for path, tree in parsed.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                taken = len(names) - (names[:1] in (["self"], ["cls"]))
                if count > LONGEST_FUNCTION or taken > MOST_PARAMETERS:
                    large.append(f"{path.name}: {node.name}: {count} lines, {taken} parameters")
    return large


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds: parameters, and what is assigned, looped over or caught by `:=`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def vague_names(parsed: Mapping[Path, ast.Module]) -> tuple[float, list[str]]:
    """Return how many per cent of all bound names are vague, and the files with most of them, those first."""
    every = {path: [name for name in bound_names(tree) if name not in ("self", "_")] for path, tree in parsed.items()}
    counts = {path: sum(name in VAGUE for name in names) for path, names in every.items()}
    most = sorted((path for path, count in counts.items() if count), key=lambda path: (-counts[path], path))
    share = 100 * sum(counts.values()) / max(sum(map(len, every.values())), 1)
    return share, [f"{path.parent.name}/{path.name}: {counts[path]}" for path in most]


def unmirrored(unit: Path, harness: Path) -> list[str]:
    """Return the tests whose path names no module or package, and the folders that name no package."""
    wrong = []
    for folder in (unit, *sorted(path for path in unit.rglob("*") if path.is_dir() and any(path.rglob("test_*.py")))):
        inside = folder.relative_to(unit)
        if inside.parts[:1] and inside.parts[0] in ELSEWHERE:
            continue
        if not (harness / inside).is_dir():
            wrong.append(f"{inside}/")
            continue
        for test in sorted(folder.glob("test_*.py")):
            name = test.stem.removeprefix("test_")
            meant = (f"{name}.py", f"__{name}__.py", f"{name}/__init__.py")
            if not any((harness / inside / file).is_file() for file in meant):
                wrong.append(str(test.relative_to(unit)))
    return wrong


def unclear(text: str) -> list[str]:
    """Return where a text says "is no X", which is read as "there is no X", instead of "is not a X"."""
    words = re.sub(r"\s*\n[\s#]*", " ", text)
    return [words[max(0, found.start() - 40) : found.end() + 20] for found in IS_NO.finditer(words)]


def test_what_a_thing_is_not_is_said_so() -> None:
    files = [path for folder in READ for path in sorted((ROOT / folder).rglob("*")) if path.suffix in TEXTS]
    assert len(files) > 1500
    wrong = [
        f"{path.relative_to(ROOT)}: {part}"
        for path in files
        if path != Path(__file__)
        for part in unclear(path.read_text("utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("f'{path} is no folder'", 1),
        ("a machine that is\n    # no node", 1),
        ("There is no folder. there\n is no node; it is no longer there", 0),
        ("it is not a folder", 0),
    ],
)
def test_the_guard_of_what_a_thing_is_not(text: str, count: int) -> None:
    assert len(unclear(text)) == count


def test_the_index_is_what_a_newcomer_is_promised() -> None:
    assert index(section("Where is ...?")) == QUESTIONS
    assert len(QUESTIONS) >= 20


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_asked_for_is_defined_where_the_index_says(question: str) -> None:
    path, name = QUESTIONS[question]
    assert name in defined(ROOT / path)


def test_answers_name_what_stands_in_the_code() -> None:
    named = re.findall(r"\(`(harness/[\w/]+\.py)`: `(\w+)`\)", section("What happens when ...?"))
    assert len(named) == section("What happens when ...?").count("\n- **") >= 7
    assert [name for path, name in named if name not in defined(ROOT / path)] == []


def test_what_a_module_only_imports_is_not_defined_there(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from b import Settings\n\nclass Other:\n    def inner(self): ...\n")
    assert defined(tmp_path / "a.py") == {"Other"}


def test_the_page_names_every_room_and_no_other() -> None:
    named = set(re.findall(r"^ *- `(harness/[\w/]+)`", section("Folders"), re.MULTILINE))
    named |= set(re.findall(r"`(harness/[\w/]+)`:", section("Folders")))
    rooms = {str(path.parent.relative_to(ROOT)) for path in HARNESS.rglob("__init__.py")} - {"harness"}
    assert rooms <= named
    assert {path for path in named if not (ROOT / path / "__init__.py").is_file()} == set()


def test_the_page_names_every_module_outside_of_the_rooms() -> None:
    named = set(re.findall(r"`harness/(\w+\.py)`", section("Folders")))
    assert named == {path.name for path in HARNESS.glob("*.py")} - {"__init__.py"}


def test_the_layers_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    enforced = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    shown = section("Layers").split("```")[1].strip().splitlines()
    assert shown == [layer.replace("harness.", "") for layer in enforced]


def test_every_package_says_what_it_is() -> None:
    silent = [
        str(path.parent)
        for path, tree in modules().items()
        if path.name == "__init__.py" and not ast.get_docstring(tree)
    ]
    assert silent == []


def test_every_function_fits_on_a_screen(tmp_path: Path) -> None:
    assert too_large(modules()) == []
    nine = ", ".join(f"p{n}: int" for n in range(9))
    (tmp_path / "a.py").write_text(f"def wide({nine}) -> None: ...\n\ndef long():\n" + "    print()\n" * 50)
    (tmp_path / "b.py").write_text(f"class A:\n    def method(self, {nine[:-9]}): ...\n")
    assert too_large(modules(tmp_path)) == ["a.py: wide: 1 lines, 9 parameters", "a.py: long: 51 lines, 0 parameters"]


def test_every_module_is_one_topic(tmp_path: Path) -> None:
    assert len(modules()) > 300
    assert too_long(modules()) == []
    (tmp_path / "long.py").write_text("x = 1\n" * (LONGEST_MODULE + 1))
    (tmp_path / "full.py").write_text("x = 1\n" * LONGEST_MODULE)
    assert too_long(modules(tmp_path)) == ["long.py: 601 lines"]


def test_local_names_say_what_they_hold() -> None:
    share, most = vague_names(modules())
    assert share <= MOST_VAGUE, (
        f"{share:.2f} % of the names in harness/ are {', '.join(sorted(VAGUE))}; at most {MOST_VAGUE} % may be. "
        f"Name what they hold (pod, condition, mismatches, message). Most are in {'; '.join(most[:10])}"
    )


def test_the_guard_of_names_that_do_not_say_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "clear.py").write_text("def ready(self, pod):\n    names = [pod for pod in pod]\n    _ = names\n")
    (tmp_path / "vague.py").write_text("def f(given):\n    if found := [one for one in given]:\n        said = found\n")
    (tmp_path / "read.py").write_text("print(one, said)\n")  # which binds nothing
    share, most = vague_names(modules(tmp_path))
    assert most == [f"{tmp_path.name}/vague.py: 4"]
    assert share == pytest.approx(100 * 4 / 7)


@pytest.mark.parametrize("folder", FOLDED)
def test_no_module_is_a_piece_of_its_neighbour(folder: str) -> None:
    assert too_small(ROOT, folder, importers_here()) == []


def test_a_piece_of_a_neighbour_is_found_however_it_is_imported(tmp_path: Path) -> None:
    files = {
        "a/__init__.py": "from a.surface import go\n",  # a package's own surface is a neighbour as well
        "a/surface.py": "",
        "a/by_name.py": "x = 1\n",
        "a/by_module.py": "",
        "a/in_a_function.py": "",
        "a/of_two.py": "",
        "a/elsewhere.py": "",
        "a/unused.py": "",
        "a/large.py": "x = 1\n" * LEAST_MODULE,
        "a/__main__.py": "",
        "a/user.py": "from a.by_name import x\nfrom a import by_module, of_two, large, __main__\n\n"
        "def f():\n    import a.in_a_function\n",
        "b/user.py": "from a import elsewhere, of_two, user\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert too_small(tmp_path, "a", importers_in(tmp_path, modules(tmp_path))) == [
        "a/by_module.py: only user.py imports it",
        "a/by_name.py: only user.py imports it",
        "a/in_a_function.py: only user.py imports it",
        "a/surface.py: only __init__.py imports it",
    ]


def listed_modules(page: str) -> Iterator[tuple[str, str]]:
    """Yield the package and the module of each row of docs/decisions/modules-by-topic.md."""
    for section in page.split("\n## ")[1:]:
        package, _, table = section.partition("\n")
        yield from ((package, module) for module in re.findall(r"^\| (\w[\w/]*) \| (?!what was)", table, re.MULTILINE))


def test_former_modules_lead_to_modules_that_exist() -> None:
    page = (ROOT / "docs" / "decisions" / "modules-by-topic.md").read_text(encoding="utf-8")
    rows = list(listed_modules(page))
    assert len(rows) > 200
    places = [f"{package}/{module}" for package, module in rows]
    gone = [place for place in places if not any((ROOT / f"{place}{end}").is_file() for end in (".py", "/__init__.py"))]
    assert gone == [], "name what has it now"


def test_unit_tests_lie_where_their_modules_lie() -> None:
    assert sorted(unmirrored(UNIT, HARNESS)) == sorted(NO_MODULE)


def test_a_test_that_lies_elsewhere_is_found(tmp_path: Path) -> None:
    for path in ("harness/cell/disks.py", "harness/cell/ways/__init__.py", "unit/cell/test_disks.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    for path in (
        "unit/cell/test_ways.py",
        "unit/cell/test_disk.py",
        "unit/cells/test_disks.py",
        "unit/chaos/test_x.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert unmirrored(tmp_path / "unit", tmp_path / "harness") == ["cell/test_disk.py", "cells/"]


POSSESSIVE = re.compile(r"""(?:[\])}]|\\[wdsWDS])[*+?]\+|\(\?>""")


def test_no_expression_has_possessive_quantifiers() -> None:
    """They go wrong in Python 3.11.2, which Debian 12 has: what was taken is given back, or too much is."""
    files = (file for folder in ("harness", "playbooks", "ci") for file in (ROOT / folder).rglob("*.py"))
    lines = ((file, line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
    found = [f"{file.relative_to(ROOT)}: {line.strip()}" for file, line in lines if POSSESSIVE.search(line)]
    assert found == []
    assert POSSESSIVE.search('    r"([0-9]+)(?:-rc)?+"')
    assert POSSESSIVE.search('re.compile("[0-9]++")')
    assert POSSESSIVE.search(r're.compile(r"\d++")')
    assert not POSSESSIVE.search('re.compile("[*+?]+")')
