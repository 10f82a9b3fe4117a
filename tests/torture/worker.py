"""One process of the campaign: names of cases come in on stdin, verdicts go out on stdout, one JSON
line each.

Whatever karat or a library below prints goes to a file, where the judge looks for it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import traceback
from pathlib import Path

MEMORY = 6 * 2**30


def main() -> None:
    seed, keep = int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2] else None
    rows = sys.argv[3] if len(sys.argv) > 3 else "real"
    out = os.fdopen(os.dup(1), "w", buffering=1)
    printed = Path(tempfile.mkdtemp()) / "printed"
    with printed.open("w") as sink:
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import pyarrow.csv
    import pyarrow.parquet

    import karat.problems

    from .cases import draw
    from .judge import judge
    from .reported import REPORTED, report

    karat.coreset_files, pyarrow.csv, pyarrow.parquet  # noqa: B018  (imported now, so that a case is not charged for it)
    out.write(
        json.dumps({"ready": str(Path(karat.__file__).parent), "version": karat.__version__}) + "\n"
    )
    for line in sys.stdin:
        name = line.strip()
        if not name:
            break
        try:
            known = name.removeprefix("reported/")
            verdict = (
                report(known, printed)
                if known in REPORTED
                else judge(draw(name, seed, rows), printed, keep)
            )
        except Exception as error:  # the campaign's own fault: say so, and go on
            where = "; ".join(
                f"{Path(f.filename).name}:{f.lineno}"
                for f in traceback.extract_tb(error.__traceback__)[-4:]
            )
            out.write(
                json.dumps({"name": name, "verdict": "oracle", "detail": f"{error!r} ({where})"})
                + "\n"
            )
            continue
        out.write(json.dumps(verdict.to_dict()) + "\n")


if __name__ == "__main__":
    main()
