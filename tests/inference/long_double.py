"""Least squares in long double, by Gram-Schmidt twice: an oracle for columns of any condition."""

from __future__ import annotations

import numpy as np

LD = np.longdouble


def solved(A, B):
    """A^-1 B by elimination, for positive definite A."""
    A, B = A.astype(LD).copy(), B.astype(LD).copy()
    for i in range(len(A)):
        for j in range(len(A)):
            if i != j:
                factor = A[j, i] / A[i, i]
                A[j], B[j] = A[j] - factor * A[i], B[j] - factor * B[i]
    return B / np.diag(A)[:, None]


class Fit:
    """Weighted least squares of all rows.

    Columns are shifted by their means, beside a first column of ones.  Weights are inverse
    variances.
    """

    def __init__(self, X, y, weights=None):
        X, y = np.asarray(X).astype(LD), np.asarray(y).astype(LD)
        u = np.ones(len(y), LD) if weights is None else np.asarray(weights).astype(LD)
        shift = np.zeros(X.shape[1], LD)
        self.intercept = bool((X[:, 0] == 1).all())
        if self.intercept:
            shift[1:] = u @ X[:, 1:] / u.sum()
        self.n, self.k = X.shape
        half = np.sqrt(u)
        self.Q, inverse = gram_schmidt((X - shift) * half[:, None])
        centre = u @ y / u.sum() if self.intercept else LD(0)
        e, rotated = half * (y - centre), np.zeros(self.k, LD)
        self.total = e @ e
        for _ in range(2):
            part = self.Q.T @ e
            e, rotated = e - self.Q @ part, rotated + part
        back = np.eye(self.k, dtype=LD)
        back[0] -= shift
        self.root, self.e, self.rss = back @ inverse, e, e @ e
        self.params = self.root @ rotated
        if self.intercept:
            self.params[0] += centre
            rotated[0] += centre / inverse[0, 0]
        self.rotated = rotated  # root @ rotated is params

    def middle(self, kind, labels=None, corrected=True):
        """The covariance of the parameters of Q."""
        n, k = self.n, self.k
        if kind == "nonrobust":
            return self.rss / (n - k) * np.eye(k, dtype=LD)
        scores = self.Q * self.e[:, None]
        if kind == "cluster":
            codes = np.unique(np.asarray(labels), return_inverse=True)[1]
            sums = np.zeros((codes.max() + 1, k), LD)
            np.add.at(sums, codes, scores)
            factor = LD(len(sums)) / (len(sums) - 1) * (n - 1) / (n - k) if corrected else 1
            return factor * sums.T @ sums
        rest = 1 - (self.Q**2).sum(axis=1)
        power = {"HC0": 0, "HC1": 0, "HC2": 1, "HC3": 2}[kind]
        factor = LD(n) / (n - k) if kind == "HC1" else LD(1)
        return factor * (scores / rest[:, None] ** power).T @ scores

    def covariance(self, middle, rows=None):
        """Of the parameters, or of combinations of them."""
        root = self.root if rows is None else np.asarray(rows).astype(LD) @ self.root
        return root @ middle @ root.T

    def wald(self, middle, rows):
        """The F statistic of combinations of parameters, which are tested for zero."""
        # orthonormal combinations: their covariance is well conditioned where the rows are not
        Q, _ = gram_schmidt((np.asarray(rows).astype(LD) @ self.root).T)
        gap = (Q.T @ self.rotated)[:, None]
        return float((gap.T @ solved(Q.T @ middle @ Q, gap))[0, 0] / len(rows))


def gram_schmidt(X):
    """Q and the inverse of R."""
    k = X.shape[1]
    Q, R, inverse = np.zeros_like(X), np.zeros((k, k), LD), np.zeros((k, k), LD)
    for j in range(k):
        v = X[:, j].copy()
        for _ in range(2):
            part = Q[:, :j].T @ v
            R[:j, j] += part
            v -= Q[:, :j] @ part
        R[j, j] = np.sqrt(v @ v)
        Q[:, j] = v / R[j, j]
        inverse[j, j] = 1 / R[j, j]
        for i in range(j - 1, -1, -1):
            inverse[i, j] = -(R[i, i + 1 : j + 1] @ inverse[i + 1 : j + 1, j]) / R[i, i]
    return Q, inverse


def clustered_errors(X, y, labels):
    """Standard errors without small-sample corrections; one label a row gives HC0."""
    fit = Fit(X, y)
    middle = fit.middle("cluster", labels, corrected=False)
    return np.sqrt(np.diag(fit.covariance(middle))).astype(float)
