"""Geometry of the charts on the page: scales, ticks and positions, in units of an SVG view box.

The template draws the charts and the style sheet colours them.  They contain no text from the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import numpy as np

from karat.core.wording import PAGE, TIMES, number

WIDTH, HEIGHT = 460, 320
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 42
TICK = 6  # digits before the point that a tick has room for
MOST_TICKS = 6
PADDED = 0.05  # of the range of values, on each side
FLOOR = 1e-17  # where an error of zero is drawn


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map from values to positions."""

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False
    whole: bool = False

    def __call__(self, values: Any) -> Any:
        share = (self._position(np.asarray(values, dtype=float)) - self._position(self.low)) / (
            self._position(self.high) - self._position(self.low)
        )
        return np.round(self.start + share * (self.stop - self.start), 1)

    def _position(self, values: Any) -> Any:
        return np.log10(values) if self.logarithmic else values

    def ticks(self) -> list[dict[str, Any]]:
        """Round values between the ends, with positions and labels."""
        values = (_decades if self.logarithmic else _steps)(self.low, self.high)
        if self.whole:
            values = [value for value in values if value == int(value)]
        return [
            {"at": float(self(value)), "label": number(value, 4, TICK).removeprefix(f"1 {TIMES} ")}
            for value in values
        ]


def _steps(low: float, high: float) -> list[float]:
    rough = (high - low) / MOST_TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9)
    every = max(1, ceil((last - first + 1) / MOST_TICKS))
    powers = [10.0**i for i in range(first, last + 1, every)]
    if len(powers) >= 2:
        return powers
    finer = [factor * 10.0**i for i in range(first - 1, last + 2) for factor in (1, 2, 5)]
    return [value for value in finer if low <= value <= high] or [low]


def _axes(x: Scale, y: Scale, x_label: str, y_label: str, height: int = HEIGHT) -> dict[str, Any]:
    return {
        "width": WIDTH, "height": height, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP,
        "bottom": height - BOTTOM, "x_ticks": x.ticks(), "y_ticks": y.ticks(), "x_label": x_label,
        "y_label": y_label,
    }  # fmt: skip


def _horizontal_scale(low: float, high: float, logarithmic: bool = False) -> Scale:
    return Scale(low, high, LEFT, WIDTH - RIGHT, logarithmic)


def _up(low: float, high: float, height: int = HEIGHT, logarithmic: bool = False) -> Scale:
    return Scale(low, high, height - BOTTOM, TOP, logarithmic)


def _padded_range(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    pad = PADDED * (high - low) or max(abs(high), 1.0)
    return low - pad, high + pad


def _dots(x: np.ndarray, y: np.ndarray) -> str:
    """A path of points."""
    return "".join(f"M{a:g} {b:g}h0" for a, b in zip(x, y, strict=True))


def weights_chart(edges: list[float], counts: list[int]) -> dict[str, Any]:
    """Bars of a histogram on a logarithmic axis."""
    height = 240
    x, y = (
        _horizontal_scale(edges[0], edges[-1], True),
        Scale(0, 1.05 * max(counts), height - BOTTOM, TOP, whole=True),
    )
    lefts, tops = x(edges), y(counts)
    bars = [
        {
            "x": float(left),
            "width": round(max(float(right - left) - 1, 0.5), 1),
            "y": float(top),
            "height": round(height - BOTTOM - float(top), 1),
            "title": f"{PAGE.several(n, 'row')} of weight {number(a)} to {number(b)}",
        }
        for left, right, top, n, a, b in zip(
            lefts[:-1], lefts[1:], tops, counts, edges[:-1], edges[1:], strict=True
        )
        if n
    ]
    return _axes(x, y, "weight of a row", "rows", height) | {"bars": bars}


def projection_chart(projection: dict[str, Any], weights: np.ndarray) -> dict[str, Any]:
    """Dots for the data, and circles for the kept rows, with areas proportional to the weights."""
    kept, background = (
        np.array(projection[name] or []).reshape(-1, 2) for name in ("kept", "background")
    )
    every = np.concatenate([kept, background])
    x, y = _horizontal_scale(*_padded_range(every[:, 0])), _up(*_padded_range(every[:, 1]))
    radii = np.round(np.sqrt(6 + 60 * weights / weights.max()), 1)
    circles = [
        {"x": float(a), "y": float(b), "r": float(r), "row": int(i)}
        for i, (a, b, r) in enumerate(zip(x(kept[:, 0]), y(kept[:, 1]), radii, strict=True))
    ]
    circles.sort(key=lambda circle: -circle["r"])  # small ones on top
    first, second = (
        f"{part} principal component, {share:.0%} of the variance"
        for part, share in zip(("first", "second"), projection["share"], strict=True)
    )
    return _axes(x, y, first, second) | {
        "circles": circles,
        "dots": _dots(x(background[:, 0]), y(background[:, 1])),
    }


def moments_chart(moments: dict[str, Any]) -> dict[str, Any]:
    """Dots: moments of the coreset against those of the full data."""
    full = np.array(moments["full"])
    kept = full + np.array(moments["difference"])
    low, high = _padded_range(np.concatenate([full, kept]))
    x, y = _horizontal_scale(low, high), _up(low, high)
    line = {"x1": float(x(low)), "y1": float(y(low)), "x2": float(x(high)), "y2": float(y(high))}
    return _axes(x, y, "moment of the full data", "moment of the coreset") | {
        "dots": _dots(x(full), y(kept)),
        "line": line,
    }


def differences_chart(moments: dict[str, Any], tolerance: float) -> dict[str, Any]:
    """Dots: differences of the moments on a logarithmic axis; a line: the tolerance."""
    full, difference = np.array(moments["full"]), np.abs(moments["difference"])
    top = 10 * max(tolerance, float(difference.max(initial=0.0)))
    x, y = _horizontal_scale(*_padded_range(full)), _up(FLOOR, top, logarithmic=True)
    dots = _dots(x(full), y(np.maximum(difference, 2 * FLOOR)))
    level = float(y(tolerance))
    line = {"x1": LEFT, "y1": level, "x2": WIDTH - RIGHT, "y2": level}
    return _axes(x, y, "moment of the full data", "difference") | {
        "dots": dots,
        "line": line,
        "level": level,
    }
