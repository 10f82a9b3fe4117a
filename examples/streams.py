"""
A stream, exact at any time
===========================

A sketch keeps a few rows of a stream of batches. After every batch its coefficients are compared
with those of all rows so far. The error does not grow, because each fold matches the running sums
of all rows, not the result of the last fold.
"""

import matplotlib.pyplot as plt
import numpy as np

import karat


def main(n: int = 200_000, batches: int = 40) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 5)) * [1.0, 20.0, 0.1, 3.0, 1.0] + [0.0, 50.0, 0.0, -9.0, 2.0]
    y = X @ [1.0, -0.2, 5.0, 0.0, 2.0] + 3.0 + rng.standard_normal(n)

    problem = karat.problems.LeastSquares()
    sketch = karat.Sketch(problem)
    seen, errors = [], []
    for rows in np.array_split(np.arange(n), batches):
        sketch.update(X[rows], y[rows])
        core = sketch.coreset()
        D = np.column_stack([X[: rows[-1] + 1], np.ones(rows[-1] + 1)])
        right = np.linalg.lstsq(D, y[: rows[-1] + 1], rcond=None)[0]
        found = problem.solve(core)
        seen.append(rows[-1] + 1)
        errors.append(
            np.abs(np.append(found.coef, found.intercept) - right).max() / np.abs(right).max()
        )
    print(
        f"{sketch!r}\nafter {batches} folds the coefficients are off by {errors[-1]:.0e}, at worst"
        f" {max(errors):.0e}"
    )
    assert max(errors) < 1e-10

    _, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
    ax.semilogy(
        np.array(seen) / 1000,
        errors,
        "o-",
        color="#c98a00",
        ms=4,
        label="relative error of the coefficients",
    )
    ax.set(xlabel="thousand rows seen", ylim=(1e-17, 1e-9))
    ax.legend()


if __name__ == "__main__":
    main()
    plt.show()
