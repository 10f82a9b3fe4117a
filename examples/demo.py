"""A million rows, one lasso path three times: on all rows, on the few that karat keeps, on as many at random.

The same as ``make demo`` and ``karat demo``.
"""

from karat.cli import main

if __name__ == "__main__":
    main(["demo"])
