"""Displays: scikit-learn's convention, the right numbers, nothing global, and bounded memory."""

import tracemalloc

import matplotlib as mpl
import numpy as np
import pytest

import karat
from karat import problems
from karat.report import (
    CertificateDisplay,
    ProjectionDisplay,
    RecoveryDisplay,
    RecoveryErrorDisplay,
    ScalingDisplay,
    SizeDisplay,
    WeightsDisplay,
)

RNG = np.random.default_rng(0)
MEANS = 4 * RNG.standard_normal((3, 5))


def displays(core, table):
    X, y = table
    noisy = MEANS + 0.01 * RNG.standard_normal(MEANS.shape)
    return {
        "size": SizeDisplay([1.0, 10.0], {"diagonal": [9, 8], "box": [7, 4]}, 15, 100),
        "certificate": CertificateDisplay.from_coreset(core, X, y),
        "weights": WeightsDisplay.from_coreset(core),
        "projection": ProjectionDisplay.from_coreset(core, X, y),
        "scaling": ScalingDisplay.from_data(X, y, rows=[100, 1000], repeats=1),
        "recovery": RecoveryDisplay.from_components(
            MEANS, {"full data": noisy, "coreset": noisy[::-1]}
        ),
        "recovery error": RecoveryErrorDisplay.from_components(
            MEANS, [10, 100], {"full data": [noisy, MEANS + 1e-3]}
        ),
    }


NAMES = ["size", "certificate", "weights", "projection", "scaling", "recovery", "recovery error"]


@pytest.mark.parametrize("name", NAMES)
def test_convention(name, core, table, pyplot):
    """A display draws on the axes it is given or on its own, says which, shows nothing and changes
    no style.
    """
    display = displays(core, table)[name]
    style, before = dict(mpl.rcParams), len(pyplot.get_fignums())
    figure, ax = pyplot.subplots()
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert ax.get_title(loc="left") or ax.get_legend()
    assert all(axes.get_ylabel() for axes in figure.axes)
    assert figure.axes[-1].get_xlabel()
    assert display.plot().figure_ is not figure
    assert len(pyplot.get_fignums()) == before + 2
    display.figure_.draw_without_rendering()
    assert dict(mpl.rcParams) == style


@pytest.mark.parametrize("name", ["certificate", "scaling"])
def test_axes_placed_by_hand(name, core, table, pyplot):
    figure = pyplot.figure()
    display = displays(core, table)[name].plot(figure.add_axes([0.1, 0.1, 0.8, 0.8]))
    below = display.difference_ax_ if name == "certificate" else display.error_ax_
    assert below.get_position().y1 <= display.ax_.get_position().y0


def test_sizes_are_those_of_coresets(table):
    X, y = table[0][:300] / [1, 10, 0.1, 1000], table[1][:300]
    display = SizeDisplay.from_data(X, y, [1.0, 1e5], absorb=["box"])
    for alpha, size in zip(display.alphas, display.sizes["box"], strict=True):
        assert size == len(karat.coreset(X, y, problems.Ridge(alpha, absorb="box")))
    assert display.exact == len(karat.coreset(X, y, problems.Ridge(1.0)))
    assert display.sizes["box"][1] < display.sizes["box"][0] <= display.exact


def test_sizes_of_other_powers(table):
    X, y = table[0][:200, :2] / [1, 10], table[1][:200]
    display = SizeDisplay.from_data(X, y, [1e6], p=4, fit_intercept=False, absorb=["diagonal"])
    problem = problems.LpRegression(4, 1e6, fit_intercept=False, absorb="diagonal")
    assert display.sizes["diagonal"].tolist() == [len(karat.coreset(X, y, problem))]


def test_certificate_against_sums_over_all_rows(pyplot):
    """In units of a moment's own feature the constant is exactly one, and squares of whitened
    columns are kurtosis^-1/2.
    """
    X = np.random.default_rng(1).standard_normal((20_000, 2)) ** 3
    core = karat.coreset(X)
    display = CertificateDisplay.from_coreset(core, X).plot()
    assert np.abs(display.kept - display.full).max() < 1e-13
    assert np.isclose(display.full, 1.0).sum() == 1
    points = display.ax_.collections[0].get_offsets()
    np.testing.assert_array_equal(np.asarray(points), np.column_stack([display.full, display.kept]))


def test_certificate_of_other_data_is_far_off(core, table):
    X, y = table
    display = CertificateDisplay.from_coreset(core, X, 2 * y)
    assert np.abs(display.kept - display.full).max() > 0.01
    assert display.loss_error > display.tolerance


def test_certificate_of_an_absorbed_coreset_is_refused(table):
    X, y = table
    core = karat.coreset(X, y, problems.Ridge(1e3, absorb="box"))
    with pytest.raises(karat.InputError, match="absorbed"):
        CertificateDisplay.from_coreset(core, X, y)


def test_weights_bars_count_all_rows(core):
    display = WeightsDisplay.from_coreset(core).plot()
    assert sum(bar.get_height() for bar in display.ax_.patches) == len(core)


@pytest.mark.parametrize("weights", [[3.0], [2.0] * 7, [1e-200, 1e200]])
def test_weights_of_any_kind(weights, pyplot):
    display = WeightsDisplay(weights).plot()
    assert sum(bar.get_height() for bar in display.ax_.patches) == len(weights)


def test_projection_puts_kept_rows_where_the_data_is(core, table):
    X, y = table
    display = ProjectionDisplay.from_coreset(core, X, y, sample=5000)
    assert display.background.shape == (5000, 2)  # all rows, in order
    np.testing.assert_allclose(display.background[core.indices], display.kept, atol=1e-9)


def test_projection_without_data(core, pyplot):
    display = ProjectionDisplay.from_coreset(core).plot()
    assert display.background is None
    assert len(display.ax_.collections) == 1


def test_projection_of_much_data_takes_little_memory(core):
    X = np.zeros((3_000_000, 4))  # 96 MB
    X[::7] = 1.0
    y = np.zeros(len(X))
    tracemalloc.start()
    display = ProjectionDisplay.from_coreset(core, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(display.background) == 2000
    assert peak < 40e6  # the numbers of the sampled rows, not the rows


def test_scaling_measures_what_it_says(table):
    X, y = table
    display = ScalingDisplay.from_data(X, y, rows=[50, 5000], repeats=2)
    assert display.sizes.tolist() == [len(karat.coreset(X[:50], y[:50])), len(karat.coreset(X, y))]
    assert (display.seconds > 0).all()
    assert (display.errors < 1e-10).all()
    with pytest.raises(karat.InputError, match="between 1 and 5,000"):
        ScalingDisplay.from_data(X, y, rows=[6000])


def test_recovery_matches_components_in_any_order():
    order = [2, 0, 1]
    display = RecoveryDisplay.from_components(MEANS, {"a": (MEANS + 0.1)[order]})
    np.testing.assert_allclose(display.estimated["a"], MEANS + 0.1)
    assert display.errors["a"] == pytest.approx(
        np.linalg.norm(np.full(MEANS.shape, 0.1)) / np.linalg.norm(MEANS)
    )
    with pytest.raises(karat.InputError, match="must be equal"):
        RecoveryDisplay.from_components(MEANS, {"a": MEANS[:2]})


def test_recovery_error_against_rows():
    display = RecoveryErrorDisplay.from_components(
        MEANS, [10, 20], {"a": [2 * MEANS, MEANS[[1, 2, 0]]]}
    )
    assert display.errors["a"].tolist() == pytest.approx([1.0, 0.0])
    with pytest.raises(karat.InputError, match=r"2 entries, but .* 1 estimates"):
        RecoveryErrorDisplay.from_components(MEANS, [10, 20], {"a": [MEANS]})


def test_colours_differ_for_every_kind_of_vision():
    """Full data and coreset differ in lightness and, as seen without red or green receptors, in
    hue.
    """
    from matplotlib.colors import to_rgb

    from karat.report.display import CORE, FULL

    linear = [
        np.array([((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]) for colour in (FULL, CORE)
    ]
    # Dichromats as matrices on linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
    for matrix in (
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
    ):
        full, core = (np.array(matrix) @ colour for colour in linear)
        assert np.linalg.norm(full - core) > 0.15
