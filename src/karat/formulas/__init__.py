"""Formulas: how one is read, which columns its design has, what a pass must learn first, and rows
for them.

    expression  functions of columns that may be evaluated batch by batch
    formula     the responses and the terms of a formula
    contrasts   the row of the design that each level of a category has
    design      the columns of the terms, and their values
    layout      Arrow rows as these values
    transforms  functions whose state is learned from all rows
    learn       one pass over all rows: levels, means, knots
    passes      passes over files, frames and partitions
"""
