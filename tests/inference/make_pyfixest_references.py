"""Write ``pyfixest_references.json``: errors of pyfixest 0.60, clustered in two ways and by the
jackknife, of the panels in ``test_ways.py``.

    python tests/inference/make_pyfixest_references.py        needs pyfixest and pytest
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from panels_of_ways import panel  # noqa: E402

SEEDS = range(200)
HALF = [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]  # of a symmetric matrix


def main() -> None:
    import pyfixest

    warnings.simplefilter("ignore")
    found = {}
    for seed in SEEDS:
        small = seed % 2 == 1
        frame = panel(seed, firms=6, years=5, n=40) if small else panel(seed)
        weights = {"weights": "w"} if seed % 3 == 2 else {}
        fit = pyfixest.feols("y ~ x + z", frame, vcov={"CRV1": "firm + year"}, **weights)
        entry = {"two_ways": fit._vcov[HALF].tolist()}
        if not weights:
            fit = pyfixest.feols("y ~ x + z", frame, vcov={"CRV3": "firm"})
            entry["jackknife"] = fit._vcov[HALF].tolist()
        found[str(seed)] = entry
    lines = ",\n".join(f'"{seed}": {json.dumps(entry)}' for seed, entry in found.items())
    text = f'{{"pyfixest": "{pyfixest.__version__}", "covariances": {{\n{lines}\n}}}}'
    (HERE / "pyfixest_references.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
