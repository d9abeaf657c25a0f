"""What an expression of the code can be as a text, found without running it: constants, f-strings, names of these.

What is put into a text while the program runs is shown as an ellipsis. A name is followed to where it is given a
value: in the function, among the calls of the function, in the module, in the module that it comes from.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path

from harness.startup import unsearched

ANYTHING = "…"
MOST_STEPS = 6  # from name to name


@dataclass(frozen=True)
class Module:
    """A module as a tree, with who is inside of whom."""

    path: Path
    name: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...] = field(repr=False)
    inside: dict[ast.AST, ast.AST] = field(repr=False)

    @staticmethod
    def of(path: Path, folder: Path) -> Module:
        """Read a module."""
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
        inside: dict[ast.AST, ast.AST] = {}
        nodes: list[ast.AST] = [tree]
        for node in nodes:  # grows meanwhile: in the order of ast.walk
            children = tuple(ast.iter_child_nodes(node))
            inside.update(dict.fromkeys(children, node))
            nodes += children
        return Module(path, name, tree, tuple(nodes), inside)

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Return where each imported name comes from: a module, and its name there."""
        nodes = (node for node in self.nodes if isinstance(node, ast.ImportFrom))
        return {one.asname or one.name: (node.module or "", one.name) for node in nodes for one in node.names}

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Return the functions by name."""
        return {node.name: node for node in self.nodes if isinstance(node, ast.FunctionDef)}

    @cached_property
    def globals(self) -> dict[str, ast.expr]:
        """Return what is assigned to each name at the top."""
        return dict(_assigned(self.tree.body))

    def knows(self, name: str, home: Module) -> bool:
        """Tell whether a name can be that of another module here."""
        places = self.imports.values()
        return self is home or (home.name, name) in places or tuple(home.name.rsplit(".", 1)) in places

    def function_around(self, node: ast.AST) -> ast.FunctionDef | None:
        """Return the innermost function that a node is in."""
        while (node := self.inside.get(node, self.tree)) is not self.tree:
            if isinstance(node, ast.FunctionDef):
                return node
        return None


@dataclass(frozen=True)
class Code:
    """All modules, by where they are."""

    modules: tuple[Module, ...]

    @staticmethod
    def of(folder: Path) -> Code:
        """Read all modules below a folder."""
        with unsearched():
            return Code(tuple(Module.of(path, folder) for path in sorted(folder.rglob("*.py"))))

    @cached_property
    def named(self) -> dict[str, Module]:
        """Return the modules by name."""
        return {module.name: module for module in self.modules}

    @cached_property
    def calls(self) -> dict[str, list[tuple[Module, ast.Call]]]:
        """Return the calls of each name."""
        found: dict[str, list[tuple[Module, ast.Call]]] = {}
        for module in self.modules:
            for node in module.nodes:
                if isinstance(node, ast.Call):
                    found.setdefault(name_of(node.func), []).append((module, node))
        return found

    def texts(self, module: Module, node: ast.expr, steps: int = MOST_STEPS) -> list[str]:
        """Return the texts that an expression can be; empty if that cannot be told."""
        return list(dict.fromkeys(self._texts(module, node, steps)))

    def _texts(self, module: Module, node: ast.expr, steps: int) -> Iterator[str]:
        if steps == 0:
            return
        if isinstance(node, ast.Constant):
            yield str(node.value) if isinstance(node.value, str) else ""
        elif isinstance(node, ast.JoinedStr):
            yield from map("".join, product(*(self._part(module, part, steps, node) for part in node.values)))
        elif isinstance(node, ast.BinOp):
            sides = [self.texts(module, side, steps) or [ANYTHING] for side in (node.left, node.right)]
            yield from (left + right for left in sides[0] for right in sides[1])
        else:
            for where, one in self._others(module, node):
                yield from self._texts(where, one, steps - 1)

    def _part(self, module: Module, part: ast.expr, steps: int, whole: ast.JoinedStr) -> list[str]:
        """Return what a part of an f-string can be: constants of a module, and names if it has nothing else."""
        if isinstance(part, ast.Constant):
            return [str(part.value)]
        value = part.value if isinstance(part, ast.FormattedValue) else part
        bare = not any(isinstance(one, ast.Constant) for one in whole.values)
        if isinstance(value, ast.Name) and (bare or value.id.isupper()):
            return self.texts(module, value, steps - 1) or [ANYTHING]
        return [ANYTHING]

    def _others(self, module: Module, node: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
        """Yield the expressions that an expression takes its value from."""
        if isinstance(node, ast.IfExp):
            yield from ((module, one) for one in (node.body, node.orelse))
        elif isinstance(node, ast.BoolOp | ast.Dict):
            yield from ((module, one) for one in node.values)
        elif isinstance(node, ast.Tuple | ast.List):
            yield from ((module, one) for one in node.elts)
        elif isinstance(node, ast.Subscript):
            at = node.slice.value if isinstance(node.slice, ast.Constant) else None
            yield from (
                self._elements(module, node.value, at, MOST_STEPS) if isinstance(at, int) else [(module, node.value)]
            )
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(module, node)
        elif isinstance(node, ast.Name):
            yield from self._named(module, node)
        elif isinstance(node, ast.Call):
            yield from self._returned(module, node)

    def _elements(self, module: Module, node: ast.expr, at: int, steps: int) -> Iterator[tuple[Module, ast.expr]]:
        """Yield the element at a place of each tuple that an expression can be, or has as a value."""
        if isinstance(node, ast.Tuple | ast.List):
            yield from ((module, one) for one in node.elts[at : at + 1])
        elif steps:
            for where, one in self._others(module, node):
                yield from self._elements(where, one, at, steps - 1)

    def _named(self, module: Module, node: ast.Name) -> Iterator[tuple[Module, ast.expr]]:
        function = module.function_around(node)
        if function is not None:
            own = [value for name, value in _assigned(ast.walk(function)) if name == node.id]
            yield from ((module, value) for value in own)
            names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
            both = [*names, *(one.arg for one in function.args.kwonlyargs)]
            if own or node.id in both:
                at = names.index(node.id) if node.id in names else len(names)
                yield from self._given(module, function.name, node.id, at - ("self" in names[:1]))
                return
        yield from self._global(module, node.id)

    def _attribute(self, module: Module, node: ast.Attribute) -> Iterator[tuple[Module, ast.expr]]:
        """Yield a constant of another module, or what a field of a class of this module is given."""
        if isinstance(node.value, ast.Name) and node.value.id in module.imports:
            home = self.named.get(".".join(module.imports[node.value.id]))
            if home is not None:
                yield from self._global(home, node.attr)
                return
        for one in module.nodes:
            if isinstance(one, ast.ClassDef):
                names = [
                    f.target.id for f in one.body if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)
                ]
                if node.attr in names:
                    yield from self._given(module, one.name, node.attr, names.index(node.attr))

    def _given(self, home: Module, function: str, name: str, at: int) -> Iterator[tuple[Module, ast.expr]]:
        for module, call in self.calls.get(function, []):
            if not module.knows(function, home):
                continue
            yield from ((module, one.value) for one in call.keywords if one.arg == name)
            if len(call.args) > at >= 0:
                yield module, call.args[at]

    def _returned(self, module: Module, call: ast.Call) -> Iterator[tuple[Module, ast.expr]]:
        name = name_of(call.func)
        home, name = self._home(module, name)
        function = home.functions.get(name) if home is not None else None
        if home is not None and function is not None:
            returns = (one.value for one in ast.walk(function) if isinstance(one, ast.Return))
            yield from ((home, one) for one in returns if one is not None)
        elif name == "str":
            yield from ((module, one) for one in call.args)
        elif name == "format" and isinstance(call.func, ast.Attribute):
            yield module, call.func.value

    def _home(self, module: Module, name: str) -> tuple[Module | None, str]:
        """Return the module that a name comes from, and its name there."""
        if name in module.imports and name not in module.functions:
            home, name = module.imports[name]
            return self.named.get(home), name
        return module, name

    def _global(self, module: Module, name: str) -> Iterator[tuple[Module, ast.expr]]:
        home, name = self._home(module, name)
        if home is not None and name in home.globals:
            yield home, home.globals[name]


def name_of(node: ast.expr) -> str:
    """Return the last name of what is called."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _assigned(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from _pairs(target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, part in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, part)
    elif isinstance(target, ast.Tuple):
        for at, one in enumerate(target.elts):
            yield from _pairs(one, ast.Subscript(value, ast.Constant(at)))
