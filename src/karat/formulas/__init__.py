"""Formulas: how one is read, which columns its design has, what a pass must learn first, and rows
for them.

    formula   the response, the terms and the expressions of a formula
    learn     one pass over all rows: levels, means, knots
    design    the columns of the terms, and their values
    layout    Arrow rows as these values, and passes over files, frames and partitions
"""
