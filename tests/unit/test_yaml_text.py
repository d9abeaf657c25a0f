"""What is wrong with a text of YAML is said in words about it, whichever parser reads it; no text is a crash."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel, Field

from harness import yaml_text
from harness.errors import BadInput
from harness.spec import lines
from harness.spec.base import Model, Variables
from harness.spec.models import FILES
from harness.spec.models.facts import FactsFile
from harness.spec.settings import load_settings
from harness.spec.shape import FREE, validate


class Varied(Model):
    """Fields of every sort."""

    x: int = 0
    name: str = ""
    seconds: float = 0.0
    vars: Variables = Field(default_factory=dict)


def models_of(annotation: Any, seen: set[type[BaseModel]] | None = None) -> set[type[BaseModel]]:
    """Return the models that an annotation is made of."""
    found = seen if seen is not None else set()
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in found:
            found.add(annotation)
            for field in annotation.model_fields.values():
                models_of(field.annotation, found)
        return found
    for inner in get_args(annotation):
        models_of(inner, found)
    return found


# Parsers' words, which no message has.
FOREIGN = re.compile(
    r"but found|constructor|token|scanning|parsing a|expected <|node\b|simple key|mark\b|scalar|stream|Error|octet|"
    r"tag:yaml|composer|context"
)
# A text -> words of its message.
WRONG = {
    "a: 1\n---\nb: 2\n": "second document",
    "a: !vault |\n  3036\n": "a tag that is not supported: !vault",
    "a: !!python/object/apply:os.system [id]\n": "a tag that is not supported: python/object/apply:os.system",
    "a: !!python/name:os.system\n": "a tag that is not supported: python/name:os.system",
    "a: !e!x 1\n": "a tag that cannot be read",
    "a: *nobody\n": "an alias of an anchor that does not exist",
    "a: b: c\n": "a colon where no key can stand",
    "a: - b\n": "`- ` where no list can stand",
    "a:\n\t- b\n": "indent with spaces, not with tabs",
    "a: @b\n": "quote a value that begins with @",
    "a: `b`\n": "quote a value that begins with @",
    "a: b\nc\nd: e\n": "a key without a colon",
    'a: "b\n': "a quote that is not closed",
    "a: 'b\n": "a quote that is not closed",
    'a: "\\w"\n': "a backslash in double quotes",
    "a: [b, c\n": "a list in brackets",
    "a: {b: c\n": "a mapping in braces",
    "a: |x\n  b\n": "something else than",
    "a:\n  - b\n c: d\n": "not indented as those above",
    "a: 1\n b: 2\n": "a colon where no key can stand",
    "- a\nb: c\n": "not indented as those above",
    "%a\n": "a line that begins with %",
    "a: \x07\n": "a character that no text has",
    "a: !!timestamp x\n": "not a value of its tag",
    "a: !!int x\n": "not a value of its tag",
    "a: !!float x\n": "not a value of its tag",
    "a: !!bool x\n": "not a value of its tag",
    "a: !!binary é\n": "",
    "a: 2026-13-45\n": "not a value of its tag",
    "a: &x 1\nb: &x\n": "",
    "? [a]\n: b\n": "",
    "a: &\n": "",
    "a: *\n": "",
    "a: ,\n": "",
    "a: ]\n": "",
    "a: }\n": "",
    "a: %x\n": "",
    "a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n": "lines of a merge",
    "a:\n- b\n<<<<<<< HEAD\n- c\n": "lines of a merge that is not finished; keep one side",
    ">>>>>>> other\na: 1\n": "lines of a merge",
    'a: "\\ud800"\n': "an escape that is not a character",
    "}": "",
    "]": "",
    "a: 'b' c\n": "",
    "'a'b: c\n": "",
    "--- a\n... b\n": "",
    "%YAML 9.9\n---\na: b\n": "",
    "%TAG ! x\n": "",
    '"a': "",
    "a: !<x\n": "",
    "a: >9x\n": "",
    "key: value\n  other: value\n": "",
    "? a\n? b: [\n": "",
}


def refusal(text: str, loader: type) -> BadInput | None:
    """Return how a text is refused."""
    try:
        yaml_text.document(text, "f.yml", loader=loader)
    except BadInput as refused:
        return refused
    return None


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("loader", [yaml_text.LOADER, yaml.SafeLoader])
def test_what_is_wrong_is_said_in_words_about_the_text(text: str, loader: type) -> None:
    refused = refusal(text, loader)
    if refused is None:
        assert WRONG[text] == "", "it is wrong"
        return
    assert refused.summary.startswith("f.yml:")
    assert WRONG[text] in refused.summary
    assert not FOREIGN.search(refused.summary)
    assert refused.exit_code == 2
    assert refused.hint


@pytest.mark.parametrize("text", WRONG)
def test_a_file_with_lines_says_the_same(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f.yml"
    file.write_text(text, encoding="utf-8")
    for problem in lines.read(file)[1]:
        assert not FOREIGN.search(problem.message), problem
        assert problem.line >= 1
    if WRONG[text] and "\x07" not in text:
        assert any(WRONG[text] in problem.message for problem in lines.read(file)[1])


DEEP = {
    "list": "[" * 10_000 + "]" * 10_000,
    "mapping": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "open": "[" * 100_000,
    "block": "".join(" " * depth + "a:\n" for depth in range(2000)),
    "dashes": "- " * 5000 + "a\n",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("loader", [yaml_text.LOADER, yaml.SafeLoader])
def test_no_depth_is_a_crash(text: str, loader: type) -> None:
    with pytest.raises(BadInput, match=r"f\.yml:\d+: .*nested too deeply"):
        yaml_text.documents(text, "f.yml", loader=loader)


def test_a_merge_that_is_not_finished_is_told_where_it_begins(tmp_path: Path) -> None:
    text = "a: 1\n\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n"
    with pytest.raises(BadInput, match=r"f\.yml:3: malformed YAML: lines of a merge"):
        yaml_text.document(text, "f.yml")
    (tmp_path / "f.yml").write_text(text, encoding="utf-8")
    assert [problem.line for problem in lines.read(tmp_path / "f.yml")[1]] == [3]


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_a_billion_laughs_are_refused_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "f.yml").write_text(LAUGHS, encoding="utf-8")
    problems = lines.read(tmp_path / "f.yml")[1]
    assert any("values after expanding aliases" in problem.message for problem in problems)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "---\n---\n"])
def test_an_empty_text_has_no_document(text: str) -> None:
    assert yaml_text.document(text, "f.yml") is None


@pytest.mark.parametrize("text", ["a: 1\n", "\ufeffa: 1\n", "a: 1\r\n", "---\na: 1\n...\n", "--- {a: 1}\n"])
def test_common_forms_are_read(tmp_path: Path, text: str) -> None:
    assert yaml_text.document(text, "f.yml") == {"a": 1}
    (tmp_path / "f.yml").write_bytes(text.encode())
    document, problems = lines.read(tmp_path / "f.yml")
    assert (document.content, problems) == ({"a": 1}, [])


# What is written below `vars:` -> what YAML 1.1 takes it for; "": as it is written.
SCALARS = {
    **dict.fromkeys(("1.30", "1_000", "1_0.5", ".5", "5.", "1.0e+3", ".inf", "-.inf", ".nan", "+1.5"), "number"),
    **dict.fromkeys(("010", "0x1F", "0b1", "1:30", "190:20:30", "+5", "1:30.5", "-0"), "number"),
    **dict.fromkeys(("yes", "no", "on", "off", "Yes", "NO", "On", "OFF"), "truth"),
    **dict.fromkeys(("2026-01-02", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05"), "date"),
    **dict.fromkeys(("1.36", "1.5", "7", "-3", "0", "true", "false", "True", "null", "~", "", "1.36.3", "y", "n"), ""),
    **dict.fromkeys(("'1.30'", '"yes"', "v1.30", "1e3", "0o17", "08", "a", "'2026-01-02'", "1.36.0"), ""),
}


@pytest.mark.parametrize("text", SCALARS)
@pytest.mark.parametrize("where", ["vars: {{cluster_x_version: {}}}", "vars:\n  x_list:\n  - a: {}\n"])
def test_a_scalar_below_vars_is_what_was_written_or_refused_with_its_line(
    tmp_path: Path, text: str, where: str
) -> None:
    file = tmp_path / "f.yml"
    file.write_text("x: 1\n" + where.format(text) + "\n", encoding="utf-8")
    document, problems = lines.read(file)
    assert problems == []
    _, found = validate(document, Varied)
    if SCALARS[text]:
        (problem,) = found
        assert (problem.line, f"YAML takes {text} for " in problem.message) == (2 if "{{" in where else 4, True)
        assert "put it in quotes" in problem.message
    else:
        assert found == []


@pytest.mark.parametrize("text", [text for text in SCALARS if SCALARS[text]])
def test_a_scalar_that_must_be_a_text_is_repeated_as_it_was_written(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f.yml"
    file.write_text(f"name: {text}\n", encoding="utf-8")
    _, (problem,) = validate(lines.read(file)[0], Varied)
    assert problem.message == f"expected a string, got {text} without quotes; put it in quotes"


@pytest.mark.parametrize(("text", "value"), [("1.50", 1.5), ("0x10", 16.0), ("1_000", 1000.0), ("0", 0.0)])
def test_a_number_where_a_number_is_meant_is_taken(tmp_path: Path, text: str, value: float) -> None:
    file = tmp_path / "f.yml"
    file.write_text(f"seconds: {text}\n", encoding="utf-8")
    made, problems = validate(lines.read(file)[0], Varied)
    assert problems == []
    assert made is not None
    assert made.seconds == value


@pytest.mark.parametrize(("text", "value"), [("010", 8), ("-07", -7), ("1:30", 90), ("1:02:03", 3723), ("0_7", 7)])
def test_a_number_that_is_another_one_to_yaml_is_refused(tmp_path: Path, text: str, value: int) -> None:
    file = tmp_path / "f.yml"
    for fields, lines_of in ((f"seconds: {text}\n", [1]), (f"seconds: {text}\nx: {text}\nnope: 1\n", [1, 2, 3])):
        file.write_text(fields, encoding="utf-8")
        made, problems = validate(lines.read(file)[0], Varied)
        assert made is None
        assert [problem.line for problem in problems] == lines_of
        assert problems[0].message == f"YAML takes {text} for {value}; write that"


def test_every_field_with_free_values_has_a_name_below_which_scalars_are_judged() -> None:
    free = {
        name
        for model in (*FILES.values(), FactsFile)
        for inner in models_of(model)
        for name, field in inner.model_fields.items()
        if "JsonValue" in str(field.annotation)
    }
    assert free
    assert free <= FREE


# What reads YAML without harness/yaml_text.py and harness/spec/lines.py, and whose text that is.
OTHER_READERS = {
    "artifacts/catalogue.py": "a file of the package",
    "artifacts/e2e_images.py": "a file of the package",
    "cli/options.py": "an inventory that a run wrote",
    "gitlab/child.py": "a file of the package",
    "artifacts/upstream_releases.py": "looks for places in a file that was read already",
    "gitlab/issues.py": "whether a row that it adds is read as it was written",
    "infra/host/pki.py": "a kubeconfig that an instance wrote",
    "infra/kind/kubevirt.py": "a kubeconfig that kind wrote",
    "infra/kind/releases.py": "looks for places in a file that was read already",
    "infra/pods.py": "a file of the package",
    "operator/controllers/guest.py": "a kubeconfig that the operator keeps",
    "operator/decide/users.py": "a kubeconfig that the operator keeps",
    "operator/decide/variables.py": "a file of the package",
    "operator/execute/operation_run.py": "looks for credentials; text that is not YAML is one",
    "spec/new_project.py": "a file of the package",
    "spec/playbook_variables.py": "a file of the package",
    "spec/plays.py": "playbooks, which only Ansible judges",
    "spec/variables.py": "a file of the package",
    "validate/facts/cluster.py": "what kubeadm wrote in the guest",
    "validate/facts/files.py": "what a program on a machine reported",
    "validate/facts/programs.py": "what a program on a machine reported",
    "validate/phases/credentials.py": "a kubeconfig that was opened already",
    "validate/topics/api_server.py": "a kubeconfig that was opened already",
    "validate/topics/customised.py": "what a program on a machine reported",
    "validate/topics/kubeadm.py": "a kubeconfig that was opened already",
}


def test_whoever_reads_yaml_of_a_person_reads_it_here() -> None:
    harness = Path(yaml_text.__file__).parent
    readers = {
        str(path.relative_to(harness))
        for path in harness.rglob("*.py")
        if not path.is_relative_to(harness / "validate" / "machine")  # they know nothing of harness
        if re.search(r"yaml\.(safe_load|load|compose|parse)(_all)?\(", path.read_text(encoding="utf-8"))
    }
    assert readers - {"yaml_text.py", "spec/lines.py"} == OTHER_READERS.keys()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_file_in_utf_16_is_refused_in_one_line_that_says_so(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "vmatrix.yml"
    bom = codecs.BOM_UTF16_LE if encoding.endswith("-le") else codecs.BOM_UTF16_BE if encoding.endswith("-be") else b""
    file.write_bytes(bom + "provider: kind\n".encode(encoding))
    with pytest.raises(BadInput) as refused:
        load_settings(tmp_path, environment={})
    assert f"{file}:1: is UTF-16 text; only UTF-8 is read: iconv -f UTF-16 -t UTF-8" in refused.value.summary
