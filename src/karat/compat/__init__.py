"""Private names of other libraries that karat uses, one file per library.

Any release of these libraries may change them.  ``tests/compat`` says what broke, and
``tests/structure`` allows such names nowhere else.
"""
