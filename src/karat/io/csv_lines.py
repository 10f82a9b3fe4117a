"""Line breaks inside quotes: which line ends of a block of CSV end a row, and which belong to a value.

A quote opens a value only where the value begins, and "" inside stands for one quote.  In a file that keeps to this, a place is
inside quotes if and only if an odd number of quotes comes before it.  Quotes that do not (5" in a value without quotes) are
noticed, and the block is then walked quote by quote.
"""

from __future__ import annotations

import numpy as np

QUOTE, BREAK = ord('"'), ord("\n")


def line_ends(block: memoryview | bytes, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the line ends outside and inside quotes, in a block that begins with a row."""
    data = np.frombuffer(block, dtype=np.uint8)
    toggles, _ = _quotes(data, delimiter)
    breaks = np.flatnonzero(data == BREAK)
    inside = np.searchsorted(toggles, breaks) % 2 == 1
    return breaks[~inside], breaks[inside]


def stray_quote(block: memoryview | bytes, delimiter: str, final: bool) -> int | None:
    """Where a quote opens a value of several lines that does not end as a value does; None if there is no such quote.

    The lines behind such a quote are rows that somebody forgot to close off, not a value.  If the block is the ``final`` one of
    a file, a quote that is never closed is stray as well.
    """
    data = np.frombuffer(block, dtype=np.uint8)
    toggles, edge = _quotes(data, delimiter)
    breaks = np.flatnonzero(data == BREAK)
    opened, closed = toggles[0::2], toggles[1::2]
    if final and len(opened) > len(closed):
        closed = np.append(closed, len(data))
    opened = opened[: len(closed)]
    several = np.searchsorted(breaks, closed) > np.searchsorted(breaks, opened)
    behind = np.append(data, [BREAK, 0])[closed + 1]  # the end of the block ends a value, but not one that is still open
    ends_well = edge[behind] | (behind == QUOTE)
    stray = opened[several & ~ends_well]
    return int(stray[0]) if len(stray) else None


def _quotes(data: np.ndarray, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """The quotes that open or close a value, and for every byte whether a value ends before it."""
    quotes = np.flatnonzero(data == QUOTE)
    edge = np.isin(np.arange(256), [ord(delimiter), BREAK, ord("\r")])
    opens = np.ones(len(quotes), dtype=bool)  # whether a value begins after what is before the quote
    opens[quotes > 0] = edge[data[quotes[quotes > 0] - 1]]
    closes = np.ones(len(quotes), dtype=bool)  # whether a value ends before what is after it
    closes[quotes < len(data) - 1] = edge[data[quotes[quotes < len(data) - 1] + 1]]
    double = np.zeros(len(quotes) + 1, dtype=bool)  # whether a quote comes right after another
    double[1:-1] = np.diff(quotes) == 1
    regular = (opens | double[:-1])[0::2].all() and (closes | double[1:])[1::2].all()
    return quotes if regular else _toggles(quotes.tolist(), opens.tolist()), edge


def _toggles(quotes: list[int], opens: list[bool]) -> np.ndarray:
    """The quotes that open or close a value, where some are part of one."""
    found: list[int] = []
    skip = -1
    for i, place in enumerate(quotes):
        if i == skip:
            continue
        if len(found) % 2 == 0:
            if opens[i]:
                found.append(place)
        elif i + 1 < len(quotes) and quotes[i + 1] == place + 1:
            skip = i + 1
        else:
            found.append(place)
    return np.array(found, dtype=np.int64)
