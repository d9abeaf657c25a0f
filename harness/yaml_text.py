"""YAML that people write: read without a crash, and what is wrong with it in words about their file.

PyYAML's messages speak of tokens, nodes and constructors, and differ between its own parser and libyaml's. Documents
with lines, and what of YAML a file of the matrix may use, are the topic of `harness.spec.lines`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from harness.errors import BadInput

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # with libyaml, where PyYAML was built with it
DEEPEST = 100  # levels of nesting; libyaml's composer crashes at some thousands
HINT = "fix the line, or quote the value"
# What constructors raise for a tagged scalar that cannot be that: `!!timestamp x`, `!!bool x`, `!!int ""`, ...
UNUSABLE = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError)
TAB = "indent with spaces, not with tabs; quote a value that begins with @, ` or %"
INDENTED = "this line is not indented as those above it, or a quote or bracket above it is not closed"
SECOND = "the file has a second document, after `---`; keep one document in it"
# Of git, at the beginning of a line: what a merge left to a person. The line in between may be of a heading.
CONFLICT = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)
UNMERGED = "lines of a merge that is not finished; keep one side, and remove <<<<<<<, ======= and >>>>>>>"
# Words of PyYAML's and libyaml's messages -> ours, the first that fits.
WORDS: tuple[tuple[str, str], ...] = (
    ("depth|nesting|flow level", "nested too deeply"),
    ("another document", SECOND),
    ("could not determine a constructor for the tag", "a tag that is not supported: {tag}; write the value without it"),
    ("undefined tag handle|tag handle|scanning a tag|parsing a tag|URI", "a tag that cannot be read; quote the value"),
    ("undefined alias", "an alias of an anchor that does not exist; quote a value that begins with *"),
    ("duplicate anchor|second occur", "an anchor that exists already; give it another name"),
    ("scanning an (anchor|alias)|an anchor or alias", "a name of an anchor or alias is missing; quote the value"),
    ("mapping values are not allowed", "a colon where no key can stand; quote the value, or indent the line as a key"),
    ("block sequence entries are not allowed", "`- ` where no list can stand; begin the list on a line of its own"),
    ("mapping keys are not allowed|complex", "`? ` where no key can stand; quote the value"),
    ("cannot start any token|tab character", TAB),
    ("expected ':'", "a key without a colon, or a text of several lines without quotes"),
    ("invalid Unicode character escape", "an escape that is not a character; write the character itself"),
    ("unknown escape|escape sequence|hexadecimal|escaping", "a backslash in double quotes; use single quotes"),
    ("quoted scalar|unexpected end of stream|unexpected document indicator", "a quote that is not closed"),
    ("',' or '\\]'", "a list in brackets without a comma or without its ]"),
    ("',' or '}'", "a mapping in braces without a comma or without its }}"),
    ("block scalar|chomping or indentation|indentation indicator", "something else than a text after | or >"),
    ("comment or a line break|comment or line break", "something else than a line's end; quote the value"),
    ("'-' indicator|expected <block end>|expected key|block end|block mapping|block collection", INDENTED),
    ("node content", "a value is missing, or begins with a character that must be quoted"),
    ("document start|stream end", INDENTED),
    ("directive|YAML document|version number|%YAML", "a line that begins with %; quote it"),
    ("unhashable|acceptable key", "a key must be a word, not a list or a mapping"),
    ("not allowed|unacceptable character|control char", "a character that no text has, such as a control character"),
    ("UTF-?8|UTF-?16|decode|octet|surrogate|Unicode", "the text is not UTF-8"),
)
NOT_OF_ITS_TAG = "not a value of its tag"
TAGGED = re.compile(r"tag '(?:tag:yaml\.org,2002:)?([^']*)'")


def line_of(error: Exception, text: str) -> int:
    """Return the line that an error of the parser names, from 1 on; libyaml may point behind the last one."""
    if (conflict := CONFLICT.search(text)) is not None:
        return text.count("\n", 0, conflict.start()) + 1
    mark = getattr(error, "problem_mark", None)
    return min(mark.line, text.count("\n")) + 1 if mark is not None else 1


def words_of(error: Exception, text: str = "") -> str:
    """Return what is wrong with a text, in words about it; with the text itself, marks of a merge are told."""
    if CONFLICT.search(text):
        return UNMERGED
    if not isinstance(error, yaml.YAMLError):  # of a constructor, which speaks of Python
        return NOT_OF_ITS_TAG
    said = " ".join(str(part) for part in (getattr(error, "context", ""), getattr(error, "problem", "")) if part)
    said = said or str(error)
    tag = TAGGED.search(said)
    ours = next((word for pattern, word in WORDS if re.search(pattern, said)), "a text that is not YAML")
    return ours.format(tag=tag[1] if tag else "it")


def too_deep(text: str, most: int) -> int:
    """Return the line at which a text is nested deeper than so many levels, 0 when it nowhere is."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > most:
                return event.start_mark.line + 1 if event.start_mark is not None else 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return 0


def malformed(text: str, name: object) -> str:
    """Say why a text is not one document of YAML, whatever its tags mean; "" if it is one.

    Args:
        name: what messages call the text, such as its file.
    """
    try:
        if deep := too_deep(text, DEEPEST):
            return f"{name}:{deep}: nested too deeply; at most {DEEPEST} levels are allowed"
        yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError as error:
        return f"{name}:{line_of(error, text)}: malformed YAML: {words_of(error, text)}"
    return ""


def documents(text: str, name: object, *, loader: Any = LOADER, hint: str = HINT) -> list[Any]:
    """Return the documents of a text, without those that are empty.

    Args:
        name: what messages call the text, such as its file.

    Raises:
        BadInput: the text is not YAML, is nested deeper than DEEPEST, or has a tag that the loader does not know.
    """
    paths = [name] if isinstance(name, Path) else []
    try:
        if deep := too_deep(text, DEEPEST):
            raise BadInput(
                f"{name}:{deep}: nested too deeply; at most {DEEPEST} levels are allowed", hint=hint, paths=paths
            )
        return [found for found in yaml.load_all(text, Loader=loader) if found is not None]
    except UNUSABLE as error:
        said = f"{name}:{line_of(error, text)}: malformed YAML: {words_of(error, text)}"
        raise BadInput(said, hint=hint, paths=paths) from error


def document(text: str, name: object, *, loader: Any = LOADER, hint: str = HINT) -> Any:
    """Return the only document of a text, None of an empty one; raises what `documents` does, and for a second one."""
    found = documents(text, name, loader=loader, hint=hint)
    if len(found) > 1:
        raise BadInput(f"{name}: malformed YAML: {SECOND}", hint=hint)
    return found[0] if found else None
