"""One form of degree p, many matrices: another matrix may bound an error better, and must be of the
same form.
"""

import numpy as np
import pytest

from karat.engine import linalg
from karat.engine.forms import held, sharper, sharper_norm
from karat.engine.kernel import monomials


def case(seed, variables, half):
    """A small error of the matrix of a loss whose coordinates have tails; the loss; monomials of
    some queries.
    """
    rng = np.random.default_rng(seed)
    table = monomials(variables, half)
    root = np.sqrt(table.multinomials)
    values = (table.values(rng.standard_t(3, (variables, 2000))) * root[:, None]).T
    loss = values.T @ values
    error = rng.standard_normal(loss.shape)
    size = np.sqrt(np.diag(loss))
    queries = (table.values(rng.standard_normal((variables, 500))) * root[:, None]).T
    return 1e-9 * (error + error.T) * np.outer(size, size), loss, queries


@pytest.mark.parametrize(("variables", "half"), [(2, 2), (5, 2), (4, 3), (3, 4), (1, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_the_form_is_the_same_and_its_norm_a_bound(seed, variables, half):
    error, loss, queries = case(seed, variables, half)
    sharpened, lost = sharper(error, loss, variables, half)
    before, after = (
        np.einsum("ni,ij,nj->n", queries, matrix, queries) for matrix in (error, sharpened)
    )
    size = np.sqrt(np.diag(loss))
    assert (np.abs(after - before) <= lost * (np.abs(queries) @ size) ** 2).all()
    of_queries = np.abs(before) / np.einsum("ni,ij,nj->n", queries, loss, queries)
    norm = sharper_norm(error, loss, variables, half)
    assert of_queries.max() <= norm
    assert held(error, 1.01 * norm * loss, variables, half)
    assert not held(error, 0.99 * of_queries.max() * loss, variables, half)


def test_whichever_matrix_of_a_form_is_given_the_norm_is_that_of_the_best():
    """(a^2)(b^2) - (ab)^2 is zero at every query, however often it is added."""
    error, loss, _ = case(0, 2, 2)
    root = np.sqrt(monomials(2, 2).multinomials)
    nothing = np.zeros((3, 3))
    nothing[0, 2] = nothing[2, 0] = 0.5 / (root[0] * root[2])
    nothing[1, 1] = -1.0 / root[1] ** 2
    other = error + 1e6 * np.abs(error).max() * nothing
    assert linalg.relative_norm(other, loss) > 1000 * linalg.relative_norm(error, loss)
    assert sharper_norm(other, loss, 2, 2) == pytest.approx(
        sharper_norm(error, loss, 2, 2), rel=1e-6
    )


@pytest.mark.parametrize("scale", [1e-160, 1e-150, 1e140])
def test_sizes_near_the_ends_of_the_doubles_are_bounded_or_left_as_they_are(scale):
    """Products of such sizes under- or overflow; LAPACK was given infinite numbers."""
    error, loss, _ = case(0, 2, 2)
    with np.errstate(all="ignore"):
        tiny = sharper_norm(error * scale**2, loss * scale**2, 2, 2)
    assert tiny >= 0.9 * sharper_norm(error, loss, 2, 2)


def test_columns_of_very_different_sizes_do_not_reach_lapack_as_infinite_numbers():
    error, loss, _ = case(0, 2, 2)
    unit = np.array([1.0, 1e-75, 1e-150])
    with np.errstate(all="ignore"):
        assert sharper_norm(error * np.outer(unit, unit), loss * np.outer(unit, unit), 2, 2) > 0
