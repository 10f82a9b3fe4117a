"""Every code block of the README and of the documentation runs, in order, one namespace and one
folder per page.

``python`` blocks are executed (with a prompt, as doctests); in ``console`` blocks and those of no
language, the lines that call ``karat`` are.  Warnings are errors.  What a ``python`` block prints
is the ``text`` block that follows it, but for line breaks and numbers, which are those of one
machine.  Pages whose blocks speak of data that the reader has get that data from ``reader_data``.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs.reader_data import ELSEWHERE, prepare

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if not {"_build", "gallery"} & set(p.parts)),
]
FENCE = re.compile(
    r"^```([^\n]*)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)
NUMBER = re.compile(r"[-−]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( (ms|s|MB|kB|GB|bytes)\b)?", re.IGNORECASE)


def blocks(page: Path) -> list[tuple[str, str, str | None, int]]:
    """Language, text, shown output and first line of each block that runs."""
    text = page.read_text()
    for there, here in ELSEWHERE.items():
        text = text.replace(there, here)
    found = [(*m.groups(), text[: m.start()].count("\n") + 2) for m in FENCE.finditer(text)]
    return [
        block
        for block in found
        if block[0] == "python" or (block[0] in ("console", "") and "karat " in block[1])
    ]


def without_numbers(printed: str) -> str:
    return " ".join(NUMBER.sub("#", printed).split())


def run_python(source: str, name: str, line: int, names: dict, shown: str | None) -> None:
    if not source.lstrip().startswith(">>>"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (line - 1) + source, name, "exec"), names)
        if shown is not None:
            assert without_numbers(printed.getvalue()) == without_numbers(shown), f"line {line}"
        return
    for example in doctest.DocTestParser().get_examples(source, name):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, name, "single"), names)
        as_shown = not example.want or doctest.OutputChecker().check_output(
            example.want, printed.getvalue(), doctest.ELLIPSIS
        )
        assert as_shown, f"{name}, line {line + example.lineno}: printed {printed.getvalue()!r}"


def run_console(source: str) -> None:
    karat = shutil.which(
        "karat", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    for line in source.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["karat"]:
            done = subprocess.run([karat, *words[1:]], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def _pages() -> list:
    """Pages with blocks; those that take long, or need a cluster, are left to ``make nightly``."""
    late = {"cube", "inference", "tutorial", "laptop-to-cluster"}
    return [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=[pytest.mark.nightly] if page.stem in late else [],
        )
        for page in PAGES
        if blocks(page)
    ]


@pytest.mark.parametrize("page", _pages())
def test_page(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = str(page.relative_to(ROOT))
    names = {"__name__": "__main__"}
    prepare(name, names)
    for language, source, shown, line in blocks(page):
        if language == "python":
            run_python(source, name, line, names, shown)
        else:
            run_console(source)
