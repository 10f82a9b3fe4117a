"""Find the places of a package where one module uses the private names of another.

A name with one leading underscore is private to the module that declares it, and a module with one
to the package that holds it.  So ``karat.core.construct`` is open to all of ``karat``, and
``karat.report._table`` to ``karat.report`` only. An attribute ``x._name`` is allowed on ``self``,
``cls`` and ``super()``, and where the same module declares ``_name`` (as a method, a class
variable, or by assignment to ``self``).  What a class inherits from another library is not its own.
Arguments ``f(_name=1)`` and modules in texts (``"numpy.linalg._umath_linalg"``) count, too.  Names
such as ``_repr_html_``, the methods of named tuples, ``os._exit`` and ``sys._getframe`` are
documented by Python, not private.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeGuard

OWN = {"self", "cls", "super"}
DOCUMENTED = {"_replace", "_asdict", "_fields", "_make", "_exit", "_getframe"}
BY_NAME = {"getattr", "setattr", "hasattr", "delattr"}
DOTTED = re.compile(r"[a-z]\w*(\.\w+)+")  # a text that may name a module


class Use(NamedTuple):
    """One use of a foreign private name."""

    module: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} uses {self.name}"


def uses(module: str, source: str) -> Iterator[Use]:
    """All uses of foreign private names in one module, for example ``uses("karat.io.csv",
    text)``.
    """
    tree = ast.parse(source)
    declared = set(_declared(tree))
    for node in ast.walk(tree):
        for name in _imported(node, module):
            yield Use(module, node.lineno, name)
        for base, attribute in _accessed(node):
            if is_private(attribute) and attribute not in declared and _name(base) not in OWN:
                yield Use(module, node.lineno, f"{ast.unparse(base)}.{attribute}")
        for name in _passed(node):
            if is_private(name) and name not in declared:
                yield Use(module, node.lineno, f"{name}=")
    for node, base, attribute in _inherited(tree):
        if is_private(attribute) and (attribute not in declared or base == "super"):
            yield Use(module, node.lineno, f"{base}.{attribute}")


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Dotted names and files of all modules of the package at ``root``."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        yield ".".join(parts), path


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_") and name not in DOCUMENTED


def _imported(node: ast.AST, module: str) -> Iterator[str]:
    """What an import statement takes from a package that the module is not part of."""
    if isinstance(node, ast.ImportFrom):
        assert not node.level, f"{module}: relative imports are not used here"
        found = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and DOTTED.fullmatch(node.value)
    ):
        found = [node.value]
    else:
        return
    for path in found:
        parts = path.split(".")
        for place, part in enumerate(parts):
            home = ".".join(parts[:place])
            if is_private(part) and not f"{module}.".startswith(f"{home}."):
                yield path
                break


def _accessed(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Object and attribute, of ``x._name`` and of ``getattr(x, "_name")``."""
    if isinstance(node, ast.Attribute):
        yield node.value, node.attr
    elif isinstance(node, ast.Call) and _name(node.func) in BY_NAME and len(node.args) > 1:
        name = node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield node.args[0], name.value


def _passed(node: ast.AST) -> Iterator[str]:
    """The names of the arguments of a call."""
    if isinstance(node, ast.Call):
        yield from (keyword.arg for keyword in node.keywords if keyword.arg is not None)


def _inherited(tree: ast.Module) -> Iterator[tuple[ast.Attribute, str, str]]:
    """Attributes of ``self`` and ``super()`` in classes whose bases all come from other
    libraries.
    """
    foreign = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and str(node.module).split(".")[0] not in ("karat", "typing")
        for alias in node.names
    }
    for kind in ast.walk(tree):
        if (
            isinstance(kind, ast.ClassDef)
            and kind.bases
            and all(_name(base) in foreign for base in kind.bases)
        ):
            for node in ast.walk(kind):
                if isinstance(node, ast.Attribute) and _name(node.value) in OWN:
                    yield node, _name(node.value), node.attr


def _name(node: ast.expr) -> str:
    """``f`` of ``f`` and of ``f()``, else nothing."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.id if isinstance(node, ast.Name) else ""


def _declared(tree: ast.Module) -> Iterator[str]:
    """Attributes that belong to the classes of this module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for entry in node.body:
                if isinstance(entry, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield entry.name
                elif isinstance(entry, ast.AnnAssign):
                    yield ast.unparse(entry.target)
                elif isinstance(entry, ast.Assign):
                    yield from map(ast.unparse, entry.targets)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and _name(node.value) in OWN
        ):
            yield node.attr
        elif _sets(node) and isinstance(node.args[1], ast.Constant):
            yield str(node.args[1].value)


def _sets(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether an attribute of an own object is set, against its being frozen."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "object.__setattr__"
        and _name(node.args[0]) in OWN
    )
