"""Likelihood, most likely states and posterior probabilities of a Markov chain whose emissions have known log-densities.

With A the transitions and e_t the emission densities at step t, the likelihood of a sequence is a product of k x k matrices,

    p = start' diag(e_1) A diag(e_2) A .. diag(e_n) 1.

Where a sequence begins, every row of the factor ``A diag(e_t)`` is replaced by ``start * e_t``: it forgets what came before, so
sequences one after another are one chain.  The laws are positive: then no product of scaled factors vanishes.

A loop over n steps takes n calls.  So the chain is cut into runs of about sqrt(n) steps, which go side by side: first the
product of the factors of every run, then the states at the ends of the runs, one run after the other, and with these known the
states inside all runs at once.  The most likely states (Viterbi) are found the same way, with max and + in place of + and *.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from karat.engine.linalg import Array, Flags, Indices

SHORT = 64  # steps up to which there is one run
MANY_STATES = 16  # states from which on products of max and + cost more than they save


@dataclass(frozen=True)
class Runs:
    """A chain, cut into runs side by side: step t of all runs is ``emissions[t]`` (k x runs)."""

    emissions: Array  # (L, k, runs): densities, or their logarithms
    begins: Flags  # (L, runs); steps that fill up the last run are sequences of one step, of density 1
    some: list[bool]  # whether a sequence begins in step t of any run
    count: int

    @staticmethod
    def of(emissions: Array, begins: Flags, one: float = 1.0, most: int = 2**30) -> Runs:
        """The runs of a chain; ``one`` is the density 1, or its logarithm."""
        count, k = emissions.shape
        runs = 1 if count <= SHORT else min(most, int(1.5 * np.sqrt(count)))
        long = -(-count // runs)
        table, flags = np.full((runs * long, k), one), np.ones(runs * long, dtype=bool)
        table[:count], flags[:count] = emissions, begins
        flags[0] = True
        flags = np.ascontiguousarray(flags.reshape(runs, long).T)
        return Runs(
            np.ascontiguousarray(table.reshape(runs, long, k).transpose(1, 2, 0)),
            flags,
            [bool(one) for one in np.atleast_1d(flags.any(axis=1))],
            count,
        )

    @property
    def runs(self) -> int:
        return int(self.emissions.shape[2])

    def steps(self) -> Iterator[tuple[int, Array, Flags | None]]:
        """Number, emissions and first steps (None if there are none) of every step of the runs."""
        for t, (now, begins) in enumerate(zip(self.emissions, self.begins, strict=True)):
            yield t, now, begins if self.some[t] else None

    def joined(self, values: np.ndarray) -> np.ndarray:
        """Values of all steps (L, k, runs) as a table (n, k)."""
        k = values.shape[1]
        return np.asarray(values.transpose(2, 0, 1).reshape(-1, k)[: self.count])


def log_likelihood(emissions: Array, start: Array, steps: Array, begins: Flags) -> float:
    """Log-likelihood of sequences; ``emissions`` (n x k) are log-densities, ``begins`` marks first steps."""
    largest = emissions.max(axis=1)
    runs = Runs.of(np.exp(emissions - largest[:, None]), begins)
    products, scales = _products(runs, start, steps)
    _, size = _entries(products)
    return float(largest.sum() + scales.sum() + size)


def posteriors(emissions: Array, start: Array, steps: Array, begins: Flags) -> Array:
    """The probability of every state at every step given its sequence (forward and backward)."""
    runs = Runs.of(np.exp(emissions - emissions.max(axis=1, keepdims=True)), begins)
    products, _ = _products(runs, start, steps)
    now, after = _entries(products)[0], _exits(products)
    forward = np.empty_like(runs.emissions)
    for t, sizes, first in runs.steps():
        following = steps.T @ now
        if first is not None:
            following = np.where(first, start[:, None], following)
        now = following * sizes
        now /= now.sum(axis=0)
        forward[t] = now
    for t in range(len(forward) - 1, -1, -1):
        forward[t] *= after
        after = steps @ (runs.emissions[t] * after)
        if runs.some[t]:
            after[:, runs.begins[t]] = 1.0
        after /= after.max(axis=0)
    found = runs.joined(forward)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _products(runs: Runs, start: Array, steps: Array) -> tuple[Array, Array]:
    """The product of the factors of every run (k x k x runs), scaled, and the logarithms that were taken off."""
    k = len(start)
    product = np.repeat(np.eye(k)[:, :, None], runs.runs, axis=2)
    scales = np.zeros(runs.runs)
    for _, sizes, first in runs.steps():
        following = np.matmul(steps.T, product)
        if first is not None:
            following = np.where(first, product.sum(axis=1)[:, None, :] * start[:, None], following)
        product = following * sizes
        size = product.max(axis=(0, 1))
        product /= size
        scales += np.log(size)
    return product, scales


def _entries(products: Array) -> tuple[Array, float]:
    """The law of the state before every run (k x runs), and the logarithm of the product of all runs."""
    k, _, runs = products.shape
    entry, before, scale = np.empty((k, runs)), np.full(k, 1.0 / k), 0.0
    for run, product in enumerate(np.moveaxis(products, 2, 0)):
        entry[:, run] = before
        before = before @ product
        size = float(before.sum())
        before, scale = before / size, scale + np.log(size)
    return entry, float(scale)


def _exits(products: Array) -> Array:
    """The likelihood, up to a factor, of what follows every run given its last state (k x runs)."""
    k, _, runs = products.shape
    exits, after = np.empty((k, runs)), np.ones(k)
    for run in range(runs - 1, -1, -1):
        exits[:, run] = after
        after = products[:, :, run] @ after
        after = after / after.max()
    return exits


def likely_states(emissions: Array, start: Array, steps: Array, begins: Flags) -> tuple[float, Indices]:
    """The most likely states of sequences (Viterbi), and the log-probability of all; the laws are logarithms too."""
    k, count = len(start), len(emissions)
    runs = Runs.of(emissions, begins, 0.0, 1 if k > MANY_STATES else 2**30)
    back = np.empty(runs.emissions.shape, dtype=np.int32)
    score, last = _best_entries(runs, start, steps), np.zeros(k)
    for t, sizes, first in runs.steps():
        best = _best_way(score, steps, back[t])
        if first is not None:
            back[t] = np.where(first, score.argmax(axis=0), back[t])
            best = np.where(first, score.max(axis=0) + start[:, None], best)
        score = best + sizes
        if t == (count - 1) % len(back):
            last = score[:, (count - 1) // len(back)]
    states = _traced(runs.joined(back), int(last.argmax()))
    moves = np.where(begins, start[states], steps[np.roll(states, 1), states])
    return float(np.take_along_axis(emissions, states[:, None], axis=1).sum() + moves.sum()), states


def _traced(back: Indices, state: int) -> Indices:
    """The path that ends in a state; ``back`` (n x k) are the states before."""
    n, k = back.shape
    before, path = back.ravel().tolist(), [state]
    for place in range((n - 1) * k, 0, -k):
        state = before[place + state]
        path.append(state)
    return np.array(path[::-1])


def _best_way(score: Array, steps: Array, origin: Indices) -> Array:
    """For every next state (rows) and run the best score, and in ``origin`` the state that it comes from."""
    best = score[0] + steps[0][:, None]
    origin[:] = 0
    for state in range(1, len(score)):
        way = score[state] + steps[state][:, None]
        np.copyto(origin, state, where=way > best)
        np.maximum(best, way, out=best)
    return np.asarray(best)


def _best_entries(runs: Runs, start: Array, steps: Array) -> Array:
    """Scores of the states before every run (k x runs); the best is 0."""
    k = len(start)
    entry, before = np.zeros((k, runs.runs)), np.zeros(k)
    if runs.runs == 1:
        return entry
    product = np.where(np.eye(k, dtype=bool), 0.0, -np.inf)[:, :, None].repeat(runs.runs, axis=2)
    for _, sizes, first in runs.steps():
        following = product[:, :1] + steps[0][:, None]
        for state in range(1, k):
            np.maximum(following, product[:, state : state + 1] + steps[state][:, None], out=following)
        if first is not None:
            following = np.where(first, product.max(axis=1)[:, None, :] + start[:, None], following)
        product = following + sizes
    for run, ways in enumerate(np.moveaxis(product, 2, 0)):
        entry[:, run] = before
        before = (before[:, None] + ways).max(axis=0)
        before = before - before.max()
    return entry
