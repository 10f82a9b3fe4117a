"""The engine: numbers only.  It knows kernels and rows, not problems, intercepts or labels.

A coreset of degree 2, from the rows to the proof, is told by eight files, best read in this order:

    kernel       what is kept: features of a row, and their sum over all rows (here the paper is
                 cited)
    rows         rows as blocks of doubles, and one pass over them (parts: the column blocks that
                 they are read from)
    coordinates  shift, scale, whiten; which directions of the columns vanish
    powers       the kernel of powers of a linear form: monomials of whitened columns
    points       candidate rows as points
    weights      positive weights on them: match the moments, eliminate to a vertex, polish
    reduce       the pipeline, and the policy that chooses between the ways
    frame        the coordinates in which sums were made, and the sizes of the columns behind them
    proof        how exact the result is

Beside them: polynomial, mean, grouped and function are further kernels, monomials is a table that
they share; tree holds the reducers that look at every row; peel finds wild rows and rows that
dominate a moment; stream is the same for rows that arrive in batches, and carried says what sums of
features are off by when the means wander; groups is the same for many groups at once, with
group_moments, group_points, group_weights and group_proof; offsets serves integers beyond
2^53; linalg and sums (with blas, blocked and threads) and tolerances are used by all.
"""
