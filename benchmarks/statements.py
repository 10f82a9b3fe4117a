"""Count the statements of Python packages, docstrings left out:

``python benchmarks/statements.py src/karat/engine ...``.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path


def statements(source: str) -> int:
    """Statements of a module; a docstring is none."""
    tree = ast.parse(source)
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documented = sum(
        1
        for node in ast.walk(tree)
        if isinstance(node, owners) and ast.get_docstring(node, clean=False) is not None
    )
    return sum(1 for node in ast.walk(tree) if isinstance(node, ast.stmt)) - documented


if __name__ == "__main__":
    for folder in sys.argv[1:] or ["src/karat"]:
        files = sorted(Path(folder).rglob("*.py"))
        print(
            f"{folder}: {sum(statements(path.read_text()) for path in files):,} statements in"
            f" {len(files)} files"
        )
