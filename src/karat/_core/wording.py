"""Numbers for people: thin separators, three digits where three say it all, powers of ten as one writes them.

Separators and the multiplication sign are typographic, so these strings are for pages and pictures; what a program reads
(JSON, files) holds the numbers themselves.
"""

from __future__ import annotations

from math import floor, isfinite, isnan, log10

THIN = "\u202f"  # narrow no-break space
TIMES = "\u00d7"
MINUS = "\u2212"
MISSING = "\u2013"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(value: int) -> str:
    """A whole number in groups of three digits."""
    return f"{value:,}".replace(",", THIN).replace("-", MINUS)


def number(value: float, digits: int = 3) -> str:
    """A number to some significant digits: plain from 1e-3 to 1e6 (or as far as the digits go), else
    in scientific notation.

    >>> number(3.04e-15, 2), number(0.25), number(float("nan"))
    ('3 × 10⁻¹⁵', '0.25', '–')
    """
    if not isfinite(value):
        return MISSING if isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded == 0:
        return "0"
    exponent = floor(log10(abs(rounded)))
    if -3 <= exponent < max(6, digits):
        places = max(0, digits - 1 - exponent)
        text = f"{rounded:,.{places}f}".replace(",", THIN)
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        digits_of, _, power = f"{rounded:.{digits - 1}e}".partition("e")
        if "." in digits_of:
            digits_of = digits_of.rstrip("0").rstrip(".")
        text = f"{digits_of} {TIMES} 10{str(int(power)).translate(SUPERSCRIPTS)}"
    return text.replace("-", MINUS)


def error(value: float) -> str:
    """A relative error: one digit and its order of magnitude."""
    return number(value, 2)


def duration(seconds: float) -> str:
    """A time in the unit one would use for it."""
    if seconds < 1e-3:
        return f"{number(seconds * 1e6)} µs"
    if seconds < 1:
        return f"{number(seconds * 1e3)} ms"
    if seconds < 120:
        return f"{number(seconds)} s"
    return clock(seconds)


def clock(seconds: float) -> str:
    """A long time, in hours and minutes or in minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
