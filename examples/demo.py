"""Run ``karat demo``: a lasso path on a million rows, on the coreset, and on as many random
rows.
"""

from karat.cli import main

if __name__ == "__main__":
    main(["demo"])
