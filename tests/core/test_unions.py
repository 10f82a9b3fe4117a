"""What unions inherit: the claim of rows put together, or reduced again, is at least that of every
part, field by field.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import RepeatedKFold

import karat
from karat import Certificate
from karat.core.certify import NO_NOISE, certify
from karat.engine.claim import NO_ERROR, Claim, Proof
from karat.engine.reduce import build
from karat.engine.rows import Rows
from karat.engine.tolerances import PROOF_VERSION
from karat.estimators import folds
from karat.estimators.training_rows import all_rows
from karat.problems import LeastSquares, Moments

PROBLEM = LeastSquares()
NUMBERS = st.floats(0.0, 1e-11)
CLAIMS = st.builds(
    Claim,
    loss_error=NUMBERS,
    spent=st.floats(0.0, 4.0),
    inflation=st.floats(1.0, 8.0),
    remainder=st.floats(0.0, 1.0),
    spread=st.floats(1.0, 1e6),
    refuted=st.booleans(),
    proof_version=st.integers(1, PROOF_VERSION),
)
CERTIFICATES = st.builds(
    lambda claim, **description: Certificate(
        **vars(claim), excludes=PROBLEM.excludes, **description
    ),
    CLAIMS,
    rounding=NUMBERS,
    moment_error=NUMBERS,
    total_error=NUMBERS,
    rank=st.integers(0, 9),
    size=st.integers(1, 99),
    bound=st.integers(1, 99),
    condition=st.floats(1.0, 1e9),
    excluded_directions=st.lists(NUMBERS, max_size=2).map(tuple),
    method=st.sampled_from(["onepass", "tree"]),
    passes=st.integers(1, 9),
    seconds=NUMBERS,
    keeps=st.sampled_from([PROBLEM.keeps, f"the loss{NO_NOISE}"]),
    n_rows=st.integers(1, 9999),
    peeled=st.integers(0, 9),
    power=st.sampled_from([2, 4]),
    notes=st.lists(st.text(max_size=2), max_size=2).map(tuple),
    standard_errors=st.none() | NUMBERS,
    in_columns=st.booleans(),
    levels=st.integers(0, 3),
    rows=st.sampled_from(["real", "synthetic"]),
    verbatim=st.integers(0, 3),
)


def at_least(whole, part):
    return whole >= part


def listed(whole, part):
    return set(part) <= set(whole)


COVERS = dict.fromkeys((one.name for one in fields(Claim)), at_least) | {
    "proof_version": lambda whole, part: whole <= part
}
DESCRIBES = {
    **dict.fromkeys(
        ("rounding", "moment_error", "total_error", "rank", "size", "bound", "condition"), at_least
    ),
    **dict.fromkeys(
        ("passes", "seconds", "n_rows", "left_out", "peeled", "verbatim", "power", "in_columns"),
        at_least,
    ),
    **dict.fromkeys(("excluded_directions", "excludes", "notes"), listed),
    "method": lambda whole, part: part in whole,
    "rows": lambda whole, part: part in whole,
    "keeps": lambda whole, part: whole == part or whole.endswith(NO_NOISE),
    "standard_errors": lambda whole, _: whole is None,
    "levels": lambda whole, _: whole == 0,
}


def covered(whole, part, rules=COVERS):
    """Whether a claim is at least that of a part, in every field for which there is a rule."""
    wrong = [
        name for name, rule in rules.items() if not rule(getattr(whole, name), getattr(part, name))
    ]
    assert not wrong, {name: (getattr(whole, name), getattr(part, name)) for name in wrong}
    return True


def test_every_field_has_a_rule():
    assert {one.name for one in fields(Certificate)} == {*COVERS, *DESCRIBES}
    assert all("union" in one.metadata for one in fields(Certificate))


@settings(deadline=None, derandomize=True)
@given(st.lists(CERTIFICATES, min_size=2, max_size=4))
def test_unions_of_certificates(parts):
    whole, backwards = Certificate.union(parts), Certificate.union(parts[::-1])
    assert all(
        covered(whole, part, COVERS | DESCRIBES) and covered(backwards, part, COVERS | DESCRIBES)
        for part in parts
    )
    for name in ("rank", "size", "bound", "n_rows", "peeled"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    assert Claim.union(parts) == Claim(
        **{one.name: getattr(whole, one.name) for one in fields(Claim)}
    )
    assert Certificate.union(parts[:1]) is parts[0]


@settings(deadline=None, derandomize=True)
@given(CLAIMS, CLAIMS, CLAIMS)
def test_chains_of_claims(first, second, third):
    after = first.after(second)
    assert covered(after, first)
    assert covered(after, second)
    assert first.after(NO_ERROR) == NO_ERROR.after(first) == first
    other, same = after.after(third), first.after(second.after(third))
    assert all(
        getattr(other, one.name) == pytest.approx(getattr(same, one.name)) for one in fields(Claim)
    )
    grown, gained = first.grown(second, after), after.loss_error - second.loss_error
    assert grown.loss_error == pytest.approx(first.loss_error + gained)
    assert first.grown(second, second) == Claim(first.loss_error, first.spent, first.inflation)


def frame(seed, rows=300):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(rng.standard_normal((rows, 3)), columns=list("abc"))
    return found.assign(
        y=found.sum(axis=1) + rng.standard_normal(rows),
        region=np.arange(rows) % 3,
        day=np.arange(rows) % 2,
    )


def arguments(data, problem):
    return data[list("abc")].to_numpy(), data["y"].to_numpy() if problem.needs_target else None


def claimed(core, claim):
    """The coreset, as if its rows were off by more."""
    return replace(core, certificate=replace(core.certificate, **vars(claim)))


PROBLEMS = pytest.mark.parametrize(
    "problem", [LeastSquares(), Moments(3)], ids=["powers", "features"]
)
CORES = {
    problem: [karat.coreset(*arguments(frame(seed), problem), problem) for seed in (0, 1)]
    for problem in (PROBLEM, Moments(3))
}
SEVERAL = settings(max_examples=20, deadline=None, derandomize=True)


@PROBLEMS
@SEVERAL
@given(claim=CLAIMS)
def test_merge(problem, claim):
    parts = [CORES[problem][0], claimed(CORES[problem][1], claim)]
    whole = parts[0].merge(parts[1]).certificate
    assert all(covered(whole, part.certificate) for part in parts)
    assert (whole.levels, whole.standard_errors, whole.n_rows) == (0, None, 600)


@PROBLEMS
@SEVERAL
@given(claim=CLAIMS)
def test_merged_sketches(problem, claim):
    """What the other claims is inherited; the own rows are in the sum themselves."""
    sketches = [karat.Sketch(problem).update(*arguments(frame(seed), problem)) for seed in (0, 1)]
    sketches[1].fold()
    reductions = sketches[1].summary.reductions
    reductions[None] = replace(
        reductions[None], inherited=Claim(claim.loss_error, claim.spent, claim.inflation)
    )
    theirs = reductions[None].claim
    whole = sketches[0].merge(sketches[1]).summary.reduction(None).claim
    assert covered(
        whole, theirs, {name: COVERS[name] for name in ("loss_error", "spent", "inflation")}
    )


@PROBLEMS
@SEVERAL
@given(claim=CLAIMS)
def test_cells(problem, claim):
    data = frame(0)[["a", "b", "c", *("y" for _ in range(problem.needs_target)), "region", "day"]]
    made = karat.cube(
        data,
        by=["region", "day"],
        problem=problem,
        **({"target": "y"} if problem.needs_target else {}),
    )
    spoilt = replace(made.cells.certificates[1], **vars(claim))
    made.cells = replace(
        made.cells, certificates=(made.cells.certificates[0], spoilt, *made.cells.certificates[2:])
    )
    parts, place = made.cells.certificates, made.cells.labels[0][1]
    assert all(
        covered(made.certificate(), part) and covered(made.select().certificate, part)
        for part in parts
    )
    assert covered(made.select(region=place, reduce=True).certificate, spoilt)
    assert covered(made.rollup("region").certificate(region=place), spoilt)
    more = data[data["region"] == place].assign(a=lambda rows: rows["a"] + 1.0)
    assert covered(made.update(more).cells.certificates[1], spoilt)


@settings(max_examples=5, deadline=None, derandomize=True)
@given(claim=CLAIMS)
def test_repeated_splits(claim):
    """Before, what repeats made of the data was claimed with the rounding, directions, peeled rows,
    ... of one of them.
    """
    X, y = arguments(frame(0), PROBLEM)
    X = np.column_stack([X, X[:, 0] + X[:, 1]])  # a direction that vanishes
    X[7] *= 1e6  # a row that is kept verbatim
    made = []

    def atoms(*given):
        made.append(claimed(plain(*given), claim) if made else plain(*given))
        return made[-1]

    plain = folds._atoms
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folds, "_atoms", atoms)
        found = karat.exact_cv(X, y, cv=RepeatedKFold(n_splits=4, n_repeats=3, random_state=0))
    whole = found.core.certificate
    assert all(covered(whole, core.certificate, COVERS | DESCRIBES) for core in made)
    assert found.core.n_rows == whole.n_rows == 900
    assert whole.size == len(found.core)
    assert len(whole.excluded_directions) == 12
    assert whole.peeled > made[0].certificate.peeled >= 1
    assert found.core.verbatim is None or len(found.core.verbatim) == len(found.core)


@SEVERAL
@given(claim=CLAIMS)
def test_groups(claim):
    kernel, rng = Moments(3).kernel(2, 0), np.random.default_rng(0)
    reductions = [build(Rows([rng.standard_normal((200, 2))]), kernel, "auto", 0) for _ in range(2)]
    reductions[1] = replace(reductions[1], inherited=claim)
    whole, *parts = (
        certify(Moments(3), some, 200.0 * len(some), 200, 0.0)
        for some in (reductions, *zip(reductions))
    )
    rules = {
        name: rule
        for name, rule in DESCRIBES.items()
        if name not in ("total_error", "standard_errors", "levels")
    }
    assert all(covered(whole, part, COVERS | rules) for part in parts)
    assert covered(parts[1], claim)


def test_parts_of_files(tmp_path):
    """Rows that were left out are counted by the provenance; before, notes were searched for these
    words.
    """
    cores = []
    for seed in (0, 1):
        data = frame(seed)
        data.loc[: 2 * seed, "a"] = np.nan
        data.to_csv(tmp_path / f"{seed}.csv", index=False)
        found = karat.coreset_files(tmp_path / f"{seed}.csv", target="y", on_missing="drop")
        note = "Columns were left out."
        cores.append(
            replace(
                found,
                certificate=replace(found.certificate, notes=(*found.certificate.notes, note)),
            )
        )
    whole = cores[0].merge(cores[1])
    assert all(covered(whole.certificate, core.certificate) for core in cores)
    assert list(whole.certificate.notes) == [
        "1 row with missing values was left out.", "3 rows with missing values were left out.",
    ]  # fmt: skip


def test_all_rows_with_their_own_weights():
    """They are exact for the data itself: before, a second term of 64 eps was claimed beside
    nothing spent.
    """
    certificate = all_rows(np.eye(4), None, Moments(2), None, "Few rows.").certificate
    assert Claim.union([certificate, certificate]) == NO_ERROR == Proof.trivial().claim
    assert certificate.rounding == 0.0
    assert certificate.ok


def test_noise_beyond_what_the_parts_have_spent():
    """Before, the rounding of the last reduction alone decided whether R2 is kept."""
    first, second = CORES[PROBLEM]
    assert first.merge(second).certificate.keeps == PROBLEM.keeps
    assert first.merge(claimed(second, Claim(spent=1e12))).certificate.keeps.endswith(NO_NOISE)
