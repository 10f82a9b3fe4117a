"""Do the wrong coresets of one version fall to verify of another?

python -m tests.torture --src OLD --keep DIR       saves the wrong coresets of OLD
python -m tests.torture.refute DIR --src NEW       verifies each with NEW: every one must be refuted
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from .arithmetic import dense
from .cases import draw
from .pool import ROOT
from .ways import problem_of, verify


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--src", type=Path, default=ROOT / "src")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    src = str(options.src.resolve())
    if os.environ.get("PYTHONPATH", "").split(os.pathsep)[0] != src:  # start again with that karat
        env = os.environ | {"PYTHONPATH": f"{src}{os.pathsep}{ROOT}"}
        command = [
            sys.executable,
            "-m",
            "tests.torture.refute",
            str(options.folder.resolve()),
            "--src",
            src,
        ]
        return subprocess.run(
            [*command, "--seed", str(options.seed)], env=env, cwd=ROOT, check=False
        ).returncode
    accepted = []
    files = sorted(options.folder.glob("*.rows.npz"))
    for path in files:
        family, number = path.name.removesuffix(".rows.npz").rsplit("-", 1)
        name = f"{family}/{number}"
        try:
            if verified(name, path, options.seed):
                accepted.append(name)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:100]}")
    print(f"{len(files)} wrong coresets, {len(accepted)} accepted by verify: {' '.join(accepted)}")
    return int(bool(accepted))


def verified(name: str, path: Path, seed: int) -> bool:
    """Whether verify says ok of a saved coreset."""
    import karat

    case, rows = draw(name, seed), np.load(path)
    stored = path.with_name(path.name.replace(".rows.", ".core."))
    if stored.exists():
        return bool(verify(karat.load(stored), case).ok)
    like = karat.coreset(
        case.X[:50], None if case.y is None else case.y[:50], problem=problem_of(case.spec)
    )
    kept, y = rows["indices"], None if case.y is None else case.y[rows["indices"]]
    groups = None if case.groups is None else case.groups[kept]
    core = replace(
        like,
        indices=kept,
        weights=rows["weights"],
        X=dense(case.X)[kept],
        y=y,
        groups=groups,
        n_rows=case.count,
    )
    return bool(verify(core, case).ok)


if __name__ == "__main__":
    sys.exit(main())
