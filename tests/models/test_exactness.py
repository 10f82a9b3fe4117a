"""The coreset gives the full data's answer: every model, every mode."""

import warnings

import numpy as np
import pytest
from latent_data import CENTRED, SIZES, make_mixture, make_views

import karat
from karat import models, problems
from karat.core.construct import read_sample
from karat.errors import InputError, NotExactError

MODES = ("tensor", "moments", "all")


def flat(model, name):
    value = getattr(model, name)
    return (
        np.concatenate([np.ravel(v) for v in value])
        if isinstance(value, tuple)
        else np.ravel(value)
    )


def assert_same_parameters(one, two, names):
    allowed = max(1e-9, 1e-13 * one.recovery_.condition)
    for name in names:
        a, b = flat(one, name), flat(two, name)
        assert np.isfinite(a).all()
        assert np.abs(a - b).max() <= allowed * np.abs(a).max(), name


def tensors(case_problem, core, X, sequences):
    data, _ = read_sample(X, case_problem, None, sequences.get("lengths"))
    maps = case_problem.maps(data)
    kept = case_problem.kept_sample(core)
    return case_problem.statistics(data, maps), case_problem.statistics(
        kept, case_problem.kept_maps(core, kept)
    )


@pytest.mark.parametrize("keep", MODES)
def test_same_tensor_same_parameters_expected_size(case, keep):
    problem = case.problem(keep)
    core = karat.coreset(case.X, problem=problem, **case.sequences)
    assert core.certificate.ok
    assert core.certificate.passes >= 2
    assert (core.weights > 0).all()
    np.testing.assert_allclose(
        core.weights.sum(),
        len(read_sample(case.X, problem, None, case.sequences.get("lengths"))[0]),
    )
    conic = SIZES[case.tag][MODES.index(keep)]
    # others hold the constant anyway
    assert len(core) == conic + (keep == "tensor" and case.tag not in CENTRED)
    full, kept = tensors(problem, core, case.X, case.sequences)
    for name, value in full.items():
        assert np.linalg.norm(value - kept[name]) <= 1e-12 * np.linalg.norm(value), name
    assert_same_parameters(case.full, case.learner().fit_coreset(core), case.parameters)
    assert (core.maps is None) == (keep == "all")
    assert core.verify(case.X, **case.sequences).ok


def test_conic_needs_one_row_fewer(case):
    core = karat.coreset(case.X, problem=case.problem(total_weight=False), **case.sequences)
    assert len(core) == SIZES[case.tag][0]
    assert_same_parameters(case.full, case.learner().fit_coreset(core), case.parameters)


@pytest.mark.parametrize("method", ["tree", "caratheodory"])
def test_every_reducer(method):
    X = make_mixture(3000, 5, 3).X
    core = karat.coreset(X, problem=problems.GaussianMixture(3), method=method)
    assert len(core) == 10
    assert core.certificate.ok


@pytest.mark.parametrize("keep", ["tensor", "all"])
def test_files_keep_maps_and_rows(case, keep, tmp_path):
    core = karat.coreset(case.X, problem=case.problem(keep), **case.sequences)
    core.save(tmp_path / "core.npz")
    again = karat.load(tmp_path / "core.npz")
    assert again.problem == core.problem
    assert_same_parameters(
        case.learner().fit_coreset(core), case.learner().fit_coreset(again), case.parameters
    )


def test_loss_is_the_contraction_of_the_tensor(case):
    core = karat.coreset(case.X, problem=case.problem(), **case.sequences)
    full, _ = tensors(core.problem, core, case.X, case.sequences)
    query = np.random.default_rng(0).standard_normal(case.args[0])
    value = full["tensor"]
    for _ in range(core.problem.order):
        value = value @ query
    np.testing.assert_allclose(core.loss(query), value * float(core.maps["total"]), rtol=1e-10)
    with pytest.raises(InputError, match="vector of"):
        core.loss(query[:-1])


def test_weights_count_like_copies():
    X = make_mixture(3000, 6, 3).X
    counts = np.random.default_rng(0).integers(0, 3, size=len(X))
    weighted = models.GaussianMixture(3).fit(X, sample_weight=counts)
    with warnings.catch_warnings():  # copies look like evidence: 8 of 100 such draws do not "fit"
        warnings.simplefilter("ignore", models.RecoveryWarning)
        copied = models.GaussianMixture(3, refine=None).fit(np.repeat(X, counts, axis=0))
    core = karat.coreset(X, problem=problems.GaussianMixture(3), sample_weight=counts)
    names = ("means_", "weights_", "covariances_")
    assert_same_parameters(weighted, copied, names)
    assert_same_parameters(weighted, models.GaussianMixture(3).fit_coreset(core), names)
    assert (counts[core.indices] > 0).all()
    assert core.verify(X, sample_weight=counts).ok


def test_certificate_names_the_mode_and_what_is_lost(case):
    for keep, letter in zip(MODES, "ABC", strict=True):
        problem = case.problem(keep)
        assert f"mode {letter}" in problem.keeps
        assert any("EM" in what for what in problem.excludes)


def test_verify_refutes_other_data_and_other_maps():
    data = make_mixture(3000, 6, 3)
    core = karat.coreset(data.X, problem=problems.GaussianMixture(3))
    moved = data.X.copy()
    moved[core.indices[0]] += 1e-3
    refuted = core.verify(moved)
    assert not refuted.ok
    assert "not the rows" in str(refuted)
    core.maps["M"][0, 0] *= 1.001
    assert "M differ" in str(core.verify(data.X))


def test_merge_refuses_and_names_the_two_pass_call():
    X = make_views(2000).X
    core = karat.coreset(X, problem=problems.MultiView(3))
    with pytest.raises(NotExactError, match=r"karat.coreset\(X, problem=...\)"):
        core.merge(core)


def test_core_fit_hands_over_to_the_learner():
    X = make_mixture(3000, 6, 3).X
    core = karat.coreset(X, problem=problems.GaussianMixture(3))
    assert_same_parameters(
        models.GaussianMixture(3).fit(X), core.fit(models.GaussianMixture(3)), ("means_",)
    )


def test_containers_of_the_input_are_kept():
    pd = pytest.importorskip("pandas")
    X = make_mixture(3000, 6, 3).X
    core = karat.coreset(pd.DataFrame(X), problem=problems.GaussianMixture(3))
    assert isinstance(core.X, pd.DataFrame)
    assert np.array_equal(core.X.to_numpy(), X[core.indices])
    single = karat.coreset(X.astype(np.float32), problem=problems.GaussianMixture(3))
    assert single.X.dtype == np.float32


def test_plan_counts_rows_and_passes():
    plan = karat.plan(problems.GaussianMixture(4), n=100_000, d=8)
    assert (plan.rows, plan.passes) == (20, 2)


@pytest.mark.parametrize("keep", MODES)
@pytest.mark.parametrize("spread", [0.1, 1e-3])
def test_tight_clusters(spread, keep):
    """Nearly points: products of small coordinates are tiny, and still every one of them is kept to
    its own size.
    """
    data = make_mixture()
    X = data.means[data.h] + spread * np.random.default_rng(0).standard_normal(data.X.shape)
    core = karat.coreset(X, problem=problems.GaussianMixture(4, keep=keep))
    assert core.certificate.ok
    assert core.certificate.loss_error <= 1e-12
    assert_same_parameters(
        models.GaussianMixture(4).fit(X),
        models.GaussianMixture(4).fit_coreset(core),
        ("means_", "weights_"),
    )


@pytest.mark.slow
def test_many_components_in_many_dimensions():
    rng = np.random.default_rng(0)
    means = rng.standard_normal((12, 1000))
    X = means[rng.integers(12, size=6000)] + rng.standard_normal((6000, 1000))
    core = karat.coreset(X, problem=problems.GaussianMixture(12))
    assert len(core) == 364
    full = models.GaussianMixture(12).fit(X)
    assert_same_parameters(
        full, models.GaussianMixture(12).fit_coreset(core), ("means_", "weights_", "covariances_")
    )
    nearest = np.linalg.norm(full.means_[:, None] - means[None], axis=2).min(axis=1)
    assert (nearest < 0.1 * np.linalg.norm(means[0])).all()
