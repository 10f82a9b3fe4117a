"""Compare the engine, from raw (X, y), with one product D'D, one LU factorisation, and other
reducers.
"""

from __future__ import annotations

import numpy as np
import peers
from data import design, gaussian, heavy, monomials
from report import Line, Report, shape
from scipy import linalg
from sizes import Sizes
from timing import LONG_PAUSE, Timing, interleaved

import karat
from karat.problems import LeastSquares, Ridge


def yardstick(report: Report, sizes: Sizes) -> None:
    """(a) One million rows, well-conditioned and heavy-tailed, against D'D on a ready D."""
    for label, make in (("gaussian", gaussian), ("heavy-tailed", heavy)):
        X, y = make(sizes.rows, sizes.columns)
        D = design(X, y)
        found = interleaved(
            {"D'D": lambda D=D: D.T @ D, "karat": lambda X=X, y=y: karat.coreset(X, y)},
            sizes.repeats,
        )
        case = f"{label} {shape(*X.shape)}"
        report.add(_plain(case, "D'D on a ready D", found["D'D"]))
        asked = {"limit": 2.5, "goal": 1.5} if label == "gaussian" else {}
        report.karat(case, found["karat"], ratio=_ratio(found, "karat", "D'D"), of="D'D", **asked)


def against_peers(report: Report, sizes: Sizes) -> None:
    """(a) Other reducers on a ready feature matrix, each at the largest size that takes a
    reasonable time.
    """
    groups = {
        sizes.peer_rows: [peers.COREAX, peers.RECOMBINE, peers.LITERAL_5, peers.CONES, peers.TREE],
        sizes.slow_rows: [peers.NNLS, peers.HIGHS, peers.DCATCH],
        sizes.tiny_rows: [peers.LITERAL_6],
    }
    for n, names in groups.items():
        X, y = gaussian(n, sizes.columns)
        F, ones = monomials(X, y), np.ones(n)
        case = f"peers {shape(*X.shape)}"
        ready = {name: peers.prepare(name, F, ones) for name in names}
        things = {"karat": lambda X=X, y=y: karat.coreset(X, y)} | {
            k: v for k, v in ready.items() if v is not None
        }
        found = interleaved(
            things, sizes.repeats, sizes.budget, LONG_PAUSE, warm=peers.COREAX in names
        )
        report.karat(case, found["karat"])
        for name in names:
            if name not in found:
                report.add(Line(case, name, note="not installed, left out"))
                continue
            asked = (
                {"limit": 20.0, "at_least": True}
                if name in (peers.COREAX, peers.NNLS, peers.HIGHS)
                else {}
            )
            line = _plain(
                case, name, found[name], ratio=_ratio(found, name, "karat"), of="karat", **asked
            )
            line.error, line.size = (
                peers.moment_error(F, ones, found[name].result),
                len(found[name].result[0]),
            )
            line.note = "features ready, not timed"
            report.add(line)


def wide(report: Report, sizes: Sizes) -> None:
    """(b) Many features: against D'D and one LU of an m x m matrix."""
    limits = {30: (25.0, 10.0), 53: (30.0, 10.0)}
    for d in sizes.wide_columns:
        X, y = gaussian(sizes.wide_rows, d)
        D, m = design(X, y), LeastSquares().width(d)
        square = np.random.default_rng(1).standard_normal((m, m))

        def bound(D: np.ndarray = D, square: np.ndarray = square) -> None:
            D.T @ D
            linalg.lu_factor(square, check_finite=False)

        found = interleaved(
            {"bound": bound, "karat": lambda X=X, y=y: karat.coreset(X, y)}, sizes.repeats
        )
        case = f"wide {shape(*X.shape)}"
        report.add(_plain(case, f"D'D and one LU of size {m}", found["bound"]))
        limit, goal = limits.get(d, (None, None))
        report.karat(
            case,
            found["karat"],
            ratio=_ratio(found, "karat", "bound"),
            of="D'D + LU",
            limit=limit,
            goal=goal,
        )


def doubling(report: Report, sizes: Sizes) -> None:
    """(c) Time against n at a fixed number of columns."""
    tables = {n: gaussian(n, sizes.columns) for n in sizes.doubling}
    found = interleaved(
        {str(n): lambda t=t: karat.coreset(*t) for n, t in tables.items()}, sizes.repeats
    )
    last: Timing | None = None
    for n in sizes.doubling:
        now = found[str(n)]
        asked = (
            {}
            if last is None
            else {"ratio": now.seconds / last.seconds, "of": "half the rows", "limit": 2.2}
        )
        report.karat(f"doubling {shape(n, sizes.columns)}", now, **asked)
        last = now


def box(report: Report, sizes: Sizes) -> None:
    """(f) Ridge with absorb="box": a linear programme over all rows that keeps few."""
    X, y = gaussian(sizes.rows, sizes.columns)
    D = np.column_stack([X, y])
    problem = Ridge(alpha=1e4, fit_intercept=False, absorb="box")
    things = {"D'D": lambda: D.T @ D, "box": lambda: karat.coreset(X, y, problem)}
    found = interleaved(things, sizes.repeats)
    core = found["box"].result
    gram = D.T @ D
    exact = np.linalg.solve(gram[:-1, :-1] + problem.alpha * np.eye(sizes.columns), gram[:-1, -1])
    off = np.max(np.abs(problem.solve(core).coef - exact)) / np.max(np.abs(exact))
    case = f"box, alpha 1e4 {shape(*X.shape)}"
    report.add(_plain(case, "D'D on a ready D", found["D'D"]))
    note = (
        f"coefficients off by {off:.0e}, {core.certificate.passes} passes,"
        f" {core.certificate.method}"
    )
    report.karat(
        case, found["box"], ratio=_ratio(found, "box", "D'D"), of="D'D", limit=40.0, note=note
    )


def _ratio(found: dict[str, Timing], name: str, base: str) -> float:
    return found[name].seconds / found[base].seconds


def _plain(case: str, what: str, timing: Timing, **rest: object) -> Line:
    return Line(case, what, timing.seconds, timing.runs, **rest)  # type: ignore[arg-type]
