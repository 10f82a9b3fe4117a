"""Who imports whom inside a package, at the head of a module or inside a function; imports for type
checkers do not count.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

CORE = {"numpy", "scipy", *sys.stdlib_module_names}  # what is always there


class Import(NamedTuple):
    """An import of ``target``: a module of the package, or the name of another one."""

    module: str
    target: str
    line: int
    inside: bool  # a function


@dataclass(frozen=True)
class Graph:
    """All imports of a package."""

    modules: frozenset[str]
    imports: tuple[Import, ...]

    def inside_functions(self) -> list[Import]:
        """Imports inside functions that no optional dependency makes necessary."""
        return [one for one in self.imports if one.inside and not self.needs_extra(one.target)]

    def needs_extra(self, target: str) -> bool:
        """Whether a module is an optional dependency, or imports one when it is imported itself."""
        if target not in self.modules:
            return target.split(".")[0] not in CORE
        at_head = {
            name: {one.target for one in self.imports if one.module == name and not one.inside}
            for name in self.modules
        }
        seen, waiting = set(), [target]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in self.modules:
                if name.split(".")[0] not in CORE:
                    return True
                continue
            waiting += at_head[name]
            if "." in name.removeprefix("karat."):  # the package is imported before its module
                waiting.append(name.rpartition(".")[0])
        return False

    def cycles(self, ignored: Mapping[tuple[str, str], str]) -> list[list[str]]:
        """Sets of modules that import each other, directly or through others; imports in
        ``ignored`` do not count.
        """
        edges = {
            (one.module, one.target) for one in self.imports if one.target in self.modules
        } - set(ignored)
        reached = {name: _reached(name, edges) for name in self.modules}
        found = {frozenset(b for b in reached[a] if a in reached[b]) for a in self.modules}
        return sorted(sorted(names) for names in found if names)


def _reached(start: str, edges: set[tuple[str, str]]) -> set[str]:
    """The modules that one imports, directly or through others."""
    after: dict[str, list[str]] = {}
    for module, target in edges:
        after.setdefault(module, []).append(target)
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = [name for name in after.get(waiting.pop(), []) if name not in seen]
        seen |= set(new)
        waiting += new
    return seen


def read_graph(root: Path) -> Graph:
    """The imports of the package at ``root``."""
    sources = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(
            encoding="utf-8"
        )
    return graph_of(sources)


def graph_of(sources: Mapping[str, str]) -> Graph:
    """The imports of modules, given by their names and texts."""
    modules = frozenset(sources)
    found = [
        one
        for module, text in sources.items()
        for one in _imports(module, ast.parse(text), modules, False)
    ]
    return Graph(modules, tuple(found))


def _imports(module: str, node: ast.AST, modules: frozenset[str], inside: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (Import(module, alias.name, child.lineno, inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield Import(
                    module, inner if inner in modules else str(child.module), child.lineno, inside
                )
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _imports(module, child, modules, inside or function)
