"""Regressions with absorbed fixed effects, ``y ~ x | firm + year``, from sums over the rows.

In reading order: ``effects`` (the part behind the bar), ``levels`` (codes of the levels), ``read``
(the rows with codes), ``sums`` (the first pass) with ``pairs`` and ``singletons``, ``solve`` (the
effects) with ``elimination``, ``scores`` (the passes at the solution), ``model`` (what they found),
``predict``, ``results`` (the table) and ``fit``, where these meet.
"""

import karat.inference  # noqa: F401 - loads both: tables with effects use this, and this uses ssc
