"""The figures of the README are those of the last ``make bench``."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_has_the_measured_figures():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks" / "readme.py")
    readme = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme)
    text = (ROOT / "README.md").read_text()
    assert readme.filled(text, json.loads(readme.MEASURED.read_text())) == text
