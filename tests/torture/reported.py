"""stub"""

REPORTED = {}


def report(name, printed):
    raise KeyError(name)
