"""What karat needs of other libraries beyond their public names, one file a library.

Nothing here is promised by those libraries, so a release may change it.  ``tests/compat`` says what
broke, and ``tests/structure`` allows such names nowhere else.
"""
