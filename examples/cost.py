"""
What a coreset costs
====================

Time against the number of rows and of kernel features, measured on small data. With many rows the
pass over them dominates, which grows like n; with many columns the elimination, which grows like
the cube of the number of features.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import karat


def seconds(n: int, d: int) -> tuple[float, float]:
    """Time a coreset of n rows and d columns, and the product D'D alone; the better of two runs."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    D = np.column_stack([X, np.ones(n), y])
    karat.coreset(X[: n // 4], y[: n // 4])
    own, product = [], []
    for _ in range(2):
        start = time.perf_counter()
        karat.coreset(X, y)
        middle = time.perf_counter()
        D.T @ D
        own.append(middle - start)
        product.append(time.perf_counter() - middle)
    return min(own), min(product)


def main(n: int = 1_600_000) -> None:
    sizes = [n // 16, n // 8, n // 4, n // 2, n]
    widths = [5, 10, 15, 20, 30]
    by_rows = np.array([seconds(size, 10) for size in sizes])
    by_width = np.array([seconds(n // 10, d) for d in widths])
    features = [karat.problems.LeastSquares().width(d) for d in widths]
    for size, (own, product) in zip(sizes, by_rows, strict=True):
        print(f"{size:>9,} x 10: {1e3 * own:7.1f} ms, D'D {1e3 * product:6.1f} ms")
    for d, m, (own, _) in zip(widths, features, by_width, strict=True):
        print(f"{n // 10:>9,} x {d}: {1e3 * own:7.1f} ms, {m} features")

    _, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.loglog(sizes, by_rows[:, 0], "o-", color="#c98a00", label="karat.coreset")
    left.loglog(sizes, by_rows[:, 1], "s--", color="0.5", label="D'D alone")
    left.set(xlabel="rows (10 columns)", ylabel="seconds")
    left.legend()
    right.loglog(features, by_width[:, 0], "o-", color="#c98a00")
    right.set_xticks(features, [str(m) for m in features])
    right.minorticks_off()
    right.set(xlabel=f"kernel features ({n // 10:,} rows)", ylabel="seconds")


if __name__ == "__main__":
    main()
    plt.show()
