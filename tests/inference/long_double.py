"""Least squares in long double, by Gram-Schmidt twice: an oracle for columns of any condition."""

from __future__ import annotations

import numpy as np

LD = np.longdouble


def factorised(X):
    """Q and the inverse of R of columns that are shifted by their means, beside a first column of
    ones, and the shift.
    """
    X = X.astype(LD)
    shift = np.zeros(X.shape[1], LD)
    if (X[:, 0] == 1).all():
        shift[1:] = X[:, 1:].mean(axis=0)
    X, k = X - shift, X.shape[1]
    Q, R = np.zeros_like(X), np.zeros((k, k), LD)
    for j in range(k):
        v = X[:, j].copy()
        for _ in range(2):
            for i in range(j):
                c = Q[:, i] @ v
                R[i, j] += c
                v -= c * Q[:, i]
        R[j, j] = np.sqrt(v @ v)
        Q[:, j] = v / R[j, j]
    inverse = np.zeros((k, k), LD)
    for j in range(k):
        inverse[j, j] = 1 / R[j, j]
        for i in range(j - 1, -1, -1):
            inverse[i, j] = -(R[i, i + 1 : j + 1] @ inverse[i + 1 : j + 1, j]) / R[i, i]
    back = np.eye(k, dtype=LD)
    back[0] -= shift
    return Q, back @ inverse


def clustered_covariance(X, y, labels):
    """Of the parameters, without small-sample corrections; one label a row gives HC0."""
    Q, root = factorised(X)
    e = y.astype(LD)
    for _ in range(2):
        e = e - Q @ (Q.T @ e)
    codes = np.unique(labels, return_inverse=True)[1]
    scores = np.zeros((codes.max() + 1, X.shape[1]), LD)
    np.add.at(scores, codes, Q * e[:, None])
    return root @ (scores.T @ scores) @ root.T


def clustered_errors(X, y, labels):
    """Square roots of the variances."""
    return np.sqrt(np.diag(clustered_covariance(X, y, labels))).astype(float)
