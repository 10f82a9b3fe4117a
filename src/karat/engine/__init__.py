"""The engine: numbers only.  It knows kernels and rows, not problems, intercepts or labels.

A coreset of degree 2, from the rows to the proof, is told by these files, best read in this order:

    kernel       what is kept: features of a row, and their sum over all rows; the passes that fit
                 it (here the paper is cited); monomials
    rows         rows as blocks of doubles, and one pass over them (parts: the column blocks that
                 they are read from, less an offset for integers beyond 2^53; device: those on an
                 accelerator)
    coordinates  shift, scale, whiten; which directions of the columns vanish
    powers       the kernel of powers of a linear form: monomials of whitened columns
    points       candidate rows as points, and rows kept apart (exhaustive: beyond a sample)
    weights      positive weights on them: match the moments, eliminate to a vertex, polish
    reduce       the pipeline, and the policy that chooses between methods
    frame        the coordinates in which sums were made, and the sizes of the columns behind them
    claim        weighted rows: what is claimed of them, and what is proven
    proof        how exact they are (linear_proof: for sums of features; forms: for powers above 2)

Made rows: synthetic makes them of second_moments (with sparse_sums, and combinations of columns);
wide_proof proves them, and precise_proof those made of others; moment_stream keeps running sums.

Besides: polynomial and small_kernels are further kernels; stream takes rows in batches, and carried
holds their running sums; groups takes many groups at once, with group_moments, group_points,
group_weights and group_proof; least_squares solves for coefficients, products holds sums by
cluster, and fourth_moments those of four columns; linalg, sums, blocked and tolerances are used by
all.
"""
