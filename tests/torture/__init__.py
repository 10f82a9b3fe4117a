"""The standing campaign: hostile data of fixed seeds, through every door of the public API, judged
by oracles of their own.

    python -m tests.torture                  the whole campaign (make torture); --help lists the
                                             options
    python -m tests.torture.compare OLD NEW  two results side by side

A case is a name, ``family/number``.  From it and the seed follow data, problem, reducer, weights,
groups and way in, so a case is the same on every commit.  Nothing here imports more of karat than
users see, and no oracle calls karat.
"""
