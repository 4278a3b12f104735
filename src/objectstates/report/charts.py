"""The page's static charts as SVG: objective and gap over passes, and the average clip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from objectstates.data.corpus import Array
from objectstates.report.clip_view import ClipView

_WIDTH, _HEIGHT = 380, 220  # SVG units; the page scales the chart
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 12, 28  # margins, with room for the labels
_MAX_POINTS = 400  # of a curve: more than one per unit of width cannot be seen


@dataclass(frozen=True)
class Line:
    """A curve: its CSS class, its name, and its values, one per pass; NaN are left out."""

    style: str
    name: str
    values: Array


def line_chart(
    passes: Array,
    lines: Sequence[Line],
    *,
    label: str,
    log: bool = False,
    mark: float | None = None,
) -> Markup:
    """Curves over passes, with a line at the level ``mark``; a log scale leaves out zeros."""
    seen = np.concatenate([line.values for line in lines] + ([[mark]] if mark else []))
    seen = seen[np.isfinite(seen) & ((seen > 0) | (not log))]
    if len(seen) == 0 or len(passes) == 0:
        return Markup("")
    first, last, low, high = (float(v) for v in (passes[0], passes[-1], seen.min(), seen.max()))
    if log:
        low, high = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-9)
        high = max(high, low + 1)
        levels = [10.0**k for k in range(low, high + 1)]
        levels = levels[:: max(1, len(levels) // 6)]
    else:
        low, high = min(low, 0.0), high * 1.05 or 1.0
        levels = _ticks(low, high, about=5)

    def x(passed: float) -> float:
        fraction = (passed - first) / (last - first or 1.0)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * fraction

    def y(value: float) -> float:
        fraction = ((math.log10(value) if log else value) - low) / (high - low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * fraction

    parts = []
    for level in levels:
        text = f"{100 * level:g} %" if log else f"{level:.3g}"
        parts.append(f'<path class="grid" d="M{_LEFT} {y(level):.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(level) + 4:.1f}" class="at-end">{text}</text>')
    for tick in _ticks(first, last):
        position = f'x="{x(tick):.1f}" y="{_HEIGHT - 8}"'
        parts.append(f'<text {position} class="at-middle">pass {tick:g}</text>')
    if mark:
        parts.append(f'<path class="mark" d="M{_LEFT} {y(mark):.1f}H{_WIDTH - _RIGHT}"/>')
    for line in lines:
        points = " ".join(
            f"{x(passed):.1f},{y(value):.1f}"
            for passed, value in _thinned(passes, line.values)
            if math.isfinite(value) and (value > 0 or not log)
        )
        parts.append(f'<polyline class="{line.style}" points="{points}"/>')
    frame = f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
    return Markup(frame + "".join(parts) + "</svg>")


def _thinned(times: Array, values: Array) -> list[tuple[float, float]]:
    rows = np.unique(np.linspace(0, len(times) - 1, _MAX_POINTS).round().astype(int))
    return [(float(times[i]), float(values[i])) for i in rows]


def _ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from ``low`` to ``high``, ``about`` that many.

    >>> _ticks(0, 1.05)
    [0.0, 0.5, 1.0]
    """
    rough = (high - low) / about or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


# --- the average clip -----------------------------------------------------------------------------


@dataclass(frozen=True)
class AverageClip:
    """The fraction of clips in each state over time, with the clips aligned at the action.

    shapes : SVG areas, to be stretched. ``ticks``: position (0 to 1) and text.
    peak : the greatest fraction.
    """

    shapes: Markup
    ticks: tuple[tuple[float, str], ...]
    peak: float


def average_clip(clips: Sequence[ClipView]) -> AverageClip | None:
    """None if no tracklet has a state."""
    centres = [(clip, _centre(clip)) for clip in clips]
    aligned = [(clip, centre) for clip, centre in centres if centre is not None]
    bars = [
        (x.state, *(time - centre for time in clip.shown_interval(x)))
        for clip, centre in aligned
        for x in clip.tracklets
        if x.state
    ]
    if not bars:
        return None
    reach = float(np.quantile([max(abs(a), abs(b)) for _, a, b in bars], 0.95)) or 1.0
    times = np.linspace(-reach, reach, 241)
    fractions = {
        state: sum(((times >= a) & (times < b)).astype(float) for s, a, b in bars if s == state)
        / len(aligned)
        for state in (1, 2)
    }
    peak = max(float(np.max(fraction)) for fraction in fractions.values()) or 1.0
    parts = []
    for state, fraction in fractions.items():
        curve = _smooth(np.broadcast_to(fraction, times.shape)) / peak
        points = " ".join(f"{i / 0.24:.1f},{100 - 92 * v:.1f}" for i, v in enumerate(curve))
        parts.append(f'<polygon class="area state-{state}" points="0,100 {points} 1000,100"/>')
    ticks = tuple(
        (0.5 + time / (2 * reach), "action" if time == 0 else f"{time:+g} s")
        for time in _ticks(-reach, reach, about=8)
        if abs(time) < 0.93 * reach
    )
    return AverageClip(Markup("".join(parts)), ticks, peak)


def _centre(clip: ClipView) -> float | None:
    """The action's time, or the middle between the states if the action was not sought."""
    if clip.action is not None:
        return clip.action.time
    last = [x.end for x in clip.tracklets if x.state == 1]
    first = [x.start for x in clip.tracklets if x.state == 2]
    return (max(last) + min(first)) / 2 if last and first else None


def _smooth(values: Array) -> Array:
    kernel = np.hanning(9)
    return np.convolve(values, kernel / kernel.sum(), mode="same")
