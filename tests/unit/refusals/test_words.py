"""Options and arguments that cannot be: one table, as a user would type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from harness.machines.kubevirt.manifests import GOLDEN_NAMESPACE
from harness.paths import PROJECT
from harness.schedule.reservations import RESERVATIONS_NAMESPACE
from tests.unit.refusals.called import Refusal, Room

REPEATS = ("0", "-1", "x", "1.5", "1001")
NUMBERS = ("-5", "0", "x", "1.5x", "nan", "")
USAGE = [
    *(Refusal(f"doctor --memory {n}", "--memory") for n in ("-5", "0", "x", "1.5")),
    *(Refusal(f"run --repeat {n}", "--repeat") for n in REPEATS),
    *(Refusal(f"report --port {n}", "--port") for n in ("-1", "65536", "x")),
    *(Refusal(f"report --days {n}", "--days") for n in ("0", "-1", "x")),
    *(Refusal(f"history compact --days {n}", "--days") for n in ("-1", "x")),
    *(Refusal(f"proxy cell cp-0 {n}", "") for n in ("0", "65536", "-1", "x")),
    *(
        Refusal(f"{command} --nope", "No such option")
        for command in (
            "run",
            "list",
            "status",
            "reap",
            "doctor",
            "explain x",
            "plan",
            "report",
            "config",
            "schema",
            "init",
        )
    ),
    *(
        Refusal(f"{group} nope", "No such command")
        for group in ("artifacts", "image", "infra", "gitlab", "history", "operator")
    ),
    *(
        Refusal(f"{group} --nope", "No such option")
        for group in ("artifacts", "image", "infra", "gitlab", "history", "operator")
    ),
    *(
        Refusal(words, "Missing argument")
        for words in ("login", "login cell", "proxy", "kubeconfig", "kubectl", "history add")
    ),
]
SELECT = ("((", "a and", "or", "not", "a b", "a and and b", "()", "a)", "'")
RUN_IDS = ("BAD", "abcde", "abcdefg", "abc/de", "abc de", "../../", "ABCDEF", "-", "......", "äbcdef")
PARALLEL = ("0", "-1", "x", "1.5", "auto2", "AUTO", "1e3")
SHARDS = ("0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3", "/")
GIVEN = {
    "--provider": (("moon", ""), ("EMBEDDED", ""), ("kubeconfig2", "")),
    "--timeout-scale": (("0", "greater than 0"), ("-1", "greater than 0"), ("101", "less than or equal to 100")),
    "--max-machines": (("0", "greater than 0"), ("-3", "greater than 0")),
    "--max-cpus": (("0", "greater than 0"), ("-3", "greater than 0")),
    "--max-memory-mib": (("0", "greater than 0"), ("-3", "greater than 0")),
    "--infra-name": tuple((name, "expected at most 32 lower-case letters") for name in ("No", "a" * 40, "a_b")),
    "--namespace": (
        *((name, "expected a namespace: at most 63") for name in ("No", "a" * 64, "a_b", "a.b", "-a")),
        *((name, "Kubernetes's own, and cells") for name in ("kube-system", "kube-public", "kube-node-lease")),
        *((name, "and cells cannot share it") for name in ("kubevirt", "cdi", "openshift-cnv")),
        *((name, "vmatrix's own, and cells") for name in (GOLDEN_NAMESPACE, RESERVATIONS_NAMESPACE)),
    ),
    "--access": (("magic", "Input should be"),),
    "--keep": (("sometimes", "Input should be"), ("true", "Input should be")),
    "--repeat": (("2 --run-id abcdef", "ids of their own"), ("2 --rerun-failed last", "ids of their own")),
    "--shell": (("", "needs a terminal"),),
}
VARIABLES = {
    "TIMEOUT_SCALE": ("abc", "0", "-1", "nan", "inf", ""),
    "EXPIRY_HOURS": ("abc", "0", "-1", "169", "nan"),
    "MAX_MACHINES": ("abc", "0", "-1", "1.5"),
    "MAX_CPUS": ("abc", "0", "-1"),
    "MAX_MEMORY_MIB": ("abc", "0", "-1", "1.5"),
    "PROVIDER": ("moon", "Kind", ""),
    "ACCESS": ("magic", ""),
    "BINDING": ("glue", ""),
    "KVM": ("maybe",),
    "KUBEVIRT": ("real",),
    "NETWORK_POLICY": ("perhaps", "2"),
    "KEEP_ON_FAILURE": ("perhaps",),
    "INFRA_UP": ("perhaps", "2", ""),
    "ARTIFACT_SOURCE": ("magic",),
    "REPORT_HISTORY": ("memory",),
    "REPORT_PACKAGE": ("a b", "", "/"),
    "REPORT_KEEP_DAYS": ("0", "-1", "x", "4000"),
    "INFRA_NAME": ("No", "a_b", "", "-a"),
    "OUTER_NETWORKS": ("10.0.0.0/33", "nonsense", "10.0.0.1/8"),
    "NETWORK_POLICY_EGRESS": ("10.0.0.0/33", "nonsense"),
    "NETWORK_POLICY_INGRESS": ("10.0.0.0/33", "nonsense"),
    "MIRROR_HTTP": ("mirror", "ftp://m", "http://", "http://m:99999", "http://m m", "//m", ""),
    "REGISTRY": ("http://m:5000", "m:port", "m m:5000", "m:0", "", "::1:5000"),
    "IMAGE_URL": ("images", "https://", "file:///x", ""),
    "IMAGE_MIRROR": ("mirror", "ftp://m"),
    "NOPE": ("x",),
    "RUNZ": ("x",),
    "TIMEOUTSCALE": ("1",),
}
TABLE = [
    *(Refusal(f"run --run-id {word}".replace(" de", "_BLANK_de"), "is not 6 lower-case letters") for word in RUN_IDS),
    *(Refusal(f"run --parallel {word}", "--parallel") for word in PARALLEL),
    *(Refusal(f"run --tier smoke --shard {word}", "") for word in SHARDS),
    *(Refusal(f"run -k {word.replace(' ', '_BLANK_')}", "is not an expression", 'for example -k "') for word in SELECT),
    *(Refusal(f"run {option} {word}", says) for option, each in GIVEN.items() for word, says in each),
    *(
        Refusal("config", f"VMATRIX_{name}", "", env={f"VMATRIX_{name}": value})
        for name, values in VARIABLES.items()
        for value in values
    ),
    *(Refusal(f"history add {path}", "does not exist", "run directories") for path in ("/nope", "nope", "nope.jsonl")),
    *(
        Refusal(f"infra {verb} --infra-name {name}", "instance name")
        for verb in ("up", "down", "status", "describe")
        for name in ("No", "a_b", "-")
    ),
    *(
        Refusal(f"infra {verb} --provider embedded --infra-name {name}", "instance name")
        for verb in ("up", "down", "status", "describe")
        for name in ("No", "a_b", "a" * 33)
    ),
    *(
        Refusal(f"infra {verb} --provider moon", "provider 'moon' does not exist")
        for verb in ("up", "down", "status", "describe")
    ),
    *(
        Refusal(f"infra {verb} --provider kubeconfig", "is not brought up")
        for verb in ("up", "down", "status", "describe")
    ),
    *(
        Refusal(words, "is not up", "vmatrix infra up", 4)
        for words in (
            "status",
            "reap --all",
            "reap --expired",
            "login c m",
            "proxy c m",
            "kubeconfig c",
            "kubectl c get pods",
            "infra describe",
            "infra env",
        )
    ),
    *(
        Refusal(f"reap {words}", "")
        for words in (
            "",
            "--all --run abcdef",
            "--all --cell x",
            "--all --expired",
            "--run A/B",
            "--cell x=y",
            "--run -",
            "--cell _",
        )
    ),
    *(Refusal(f"artifacts build {name}", "no artifact") for name in ("nope", "nope@1", "@", "@1")),
    *(Refusal(f"image build {name}", "") for name in ("nope", "/", "..")),
    *(Refusal(f"schema {name}", "unknown schema") for name in ("nope", "..", "axis")),
    *(Refusal(f"report --format {name}", "unknown format") for name in ("nope", "html,nope", ",")),
    *(Refusal(f"report --since {day}", "--since") for day in ("yesterday", "2026-13-01", "2999-01-01", "2026")),
]


@pytest.mark.parametrize("case", USAGE, ids=str)
def test_what_no_option_takes(room: Room, case: Refusal) -> None:
    room.refuses(case)


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_what_cannot_be(room: Room, case: Refusal) -> None:
    room.refuses(case)


QUARANTINE = """quarantine:
  - {cell: "*", check: "%s", issue: "https://tracker.example/1", reason: r, until: UNTIL}
"""
IMAGES = """extends: default
images:
  - {name: debian-13, source: {kind: build, recipe: %s}}
"""
MATRICES = [
    *(
        (command, "quarantine.yml", QUARANTINE % glob, f"{glob!r} matches no check")
        for command in ("list", "run", "explain x", "plan")
        for glob in ("nodes: nope_*", "cluster: test_nopes")
    ),
    *(
        (
            command,
            "images.yml",
            IMAGES % recipe,
            f"unknown recipe (a folder of vm-templates/images with recipe.yml) '{recipe}'",
        )
        for command in ("list", "run", "explain x", "plan")
        for recipe in ("debian-99", "nope")
    ),
]


@pytest.mark.parametrize(("command", "file", "text", "says"), MATRICES, ids=lambda value: value[:40])
def test_what_the_matrix_names_and_nobody_has(room: Room, command: str, file: str, text: str, says: str) -> None:
    until = f"{datetime.now(UTC) + timedelta(days=5):%Y-%m-%d}"
    room.refuses(
        Refusal(command, says, files={f"matrix/{file}": text.replace("UNTIL", until)}, env={PROJECT: "{WORK}"})
    )


PACKAGE = {
    "VMATRIX_REPORT_HISTORY": "package",
    "CI_PROJECT_ID": "1",
    "CI_JOB_TOKEN": "t",
    "CI_API_V4_URL": "http://127.0.0.1:9",
}
TOGETHER = [
    *(
        Refusal(f"list --origin {words}", "--origin lists the values of the matrix", "leave out")
        for words in ("x", "--tier smoke", "--failed last", "--json --infra-profile embedded")
    ),
    Refusal("schema tiers --stdout --directory x", "--stdout writes no file", "leave out --stdout or --directory"),
    *(
        Refusal(
            f"{command} --provider {provider} --kubeconfig kc",
            f"--kubeconfig is for provider kubeconfig, not {provider}",
        )
        for command in ("run", "status", "reap --all", "login c m", "doctor", "bisect c")
        for provider in ("embedded", "kind")
    ),
    *(Refusal(f"{words} --kubeconfig kc", "kubeconfig kc does not exist") for words in ("status", "reap --all")),
    Refusal("run --kubeconfig kc", "provider kubeconfig needs the setting mirror_http and registry"),
    *(
        Refusal(f"init --{beginning} --name ours", "--name is for a product of your own playbooks")
        for beginning in ("packaged", "from script", "from kubespray")
    ),
    *(
        Refusal(f"init --packaged --name {name}", "is not a name", "one line")
        for name in ("_EMPTY_", "_BLANK_", "a" * 101)
    ),
    Refusal("init --packaged --gitlab _EMPTY_", "'' is not a path of a GitLab project", "`none`"),
    *(
        Refusal(f"report --url {url}", "--url", "published page")
        for url in ("nope", "javascript:alert(1)", "//h", "ftp://h")
    ),
    Refusal("report --infra-profile nope", "there is no infra profile 'nope'", "known: embedded"),
    *(
        Refusal("history show", "CI_API_V4_URL cannot be used", env={**PACKAGE, "CI_API_V4_URL": url})
        for url in ("x", "ftp://x", "http://", "http://a b")
    ),
    *(
        Refusal("history show", f"{name} cannot be used", "one word", env={**PACKAGE, name: token})
        for name in ("CI_JOB_TOKEN", "MATRIX_HISTORY_TOKEN")
        for token in ("a\nb", "a b", "\u00e4")
    ),
    Refusal("config", "VMATRIX_CHAOS: 'nope' is not executor@TASK", env={"VMATRIX_CHAOS": "nope"}),
]


@pytest.mark.parametrize("case", TOGETHER, ids=str)
def test_what_does_not_go_together(room: Room, case: Refusal) -> None:
    room.refuses(case)


# Words of commands and of their options that no list of numbers or names has.
NESTED = "(" * 5000 + "a" + ")" * 5000
REGISTRIES = (
    "Reg/UP",
    "-x",
    "host//a",
    "a..b/x",
    "host:99999",
    "host:0",
    "http://host",
    "a_b.example/x",
    "h/" + "a" * 260,
)
STRANGE = [
    Refusal("lsit", "No such command 'lsit'. Did you mean 'list'?"),
    Refusal("infra upp", "No such command 'upp'. Did you mean 'up'?"),
    *(Refusal(f"{command} -k {NESTED}", "is not an expression", "nodes and not dns") for command in ("run", "check x")),
    *(Refusal(f"operator run --lease-seconds {n}", "--lease-seconds") for n in ("nan", "inf", "-1", "0", "1e9")),
    *(Refusal(f"operator run --timeout-scale {n}", "--timeout-scale") for n in ("nan", "inf", "-1", "0")),
    *(Refusal(f"history compact --days {n}", "--days") for n in ("nan", "inf")),
    *(Refusal(f"operator image --push {name}", "is not a registry", "HOST[:PORT][/PATH]") for name in REGISTRIES),
    *(Refusal(f"operator manifests --registry {name}", "is not a registry") for name in REGISTRIES),
    *(
        Refusal(f"operator image --push host --tag {tag}", "is not a tag")
        for tag in ("-a", ".a", "a:b", "a/b", "a" * 129)
    ),
    *(Refusal(f"operator manifests --image {name}", "is not an image") for name in ("a:b:c", "A", "a/b:", "a..b//c")),
    *(Refusal(f"operator run --executor-image {name}", "is not an image") for name in ("a:b:c", "A", "a/b:")),
    Refusal("operator run --buildkit-image A", "is not an image"),
]


@pytest.mark.parametrize("case", STRANGE, ids=str)
def test_a_word_that_nothing_takes(room: Room, case: Refusal) -> None:
    room.refuses(case)
