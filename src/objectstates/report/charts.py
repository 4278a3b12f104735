"""The page's static charts as SVG: objective and gap over passes, and the average clip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
    """The fraction of clips in each state over time, with the clips aligned at their actions.

    shapes : SVG areas, to be stretched. ``ticks``: position (0 to 1) and text.
    marks : positions of the actions.
    peak : the greatest fraction.
    """

    shapes: Markup
    ticks: tuple[tuple[float, str], ...]
    marks: tuple[float, ...]
    peak: float


def average_clip(clips: Sequence[ClipView]) -> AverageClip | None:
    """None if no tracklet has a state.

    In a chain the time between two actions is stretched to its median over the clips.
    """
    anchored = [(clip, found) for clip in clips if (found := _anchors(clip))]
    places = _places([found for _, found in anchored])
    bars = list[tuple[int, float, float]]()
    for clip, anchors in anchored:
        times = np.array([time for _, time in sorted(anchors.items())])
        at = np.array([places[k] for k in sorted(anchors)])
        for x in (tracklet for tracklet in clip.tracklets if tracklet.state):
            start, end = clip.shown_interval(x)
            bars.append((x.state, _aligned(start, times, at), _aligned(end, times, at)))
    if not bars:
        return None
    n_states = clips[0].result.n_states
    low, high = _range(bars, places)
    times = np.linspace(low, high, 241)
    fractions = {
        state: sum(((times >= a) & (times < b)).astype(float) for s, a, b in bars if s == state)
        / len(anchored)
        for state in range(1, n_states + 1)
    }
    peak = max(float(np.max(fraction)) for fraction in fractions.values()) or 1.0
    parts = []
    for state, fraction in fractions.items():
        curve = _smooth(np.broadcast_to(fraction, times.shape)) / peak
        points = " ".join(f"{i / 0.24:.1f},{100 - 92 * v:.1f}" for i, v in enumerate(curve))
        parts.append(f'<polygon class="area state-{state}" points="0,100 {points} 1000,100"/>')
    marks = tuple((places[k] - low) / (high - low) for k in sorted(places))
    shapes = Markup("".join(parts))
    return AverageClip(shapes, _average_ticks(n_states, low, high, marks), marks, peak)


def _anchors(clip: ClipView) -> dict[int, float]:
    """The actions' times by number, or the middles between states if no action was sought."""
    if clip.actions:
        return {action.number: action.time for action in clip.actions}
    found = {}
    for k in range(1, clip.result.n_states):
        last = [x.end for x in clip.tracklets if x.state == k]
        first = [x.start for x in clip.tracklets if x.state == k + 1]
        if last and first:
            found[k] = (max(last) + min(first)) / 2
    return found


def _places(anchors: Sequence[dict[int, float]]) -> dict[int, float]:
    """Where each action is drawn, in seconds from the first: medians over the clips, in order."""
    numbers = sorted({k for found in anchors for k in found})
    places = dict.fromkeys(numbers[:1], 0.0)
    for before, k in pairwise(numbers):
        apart = [found[k] - found[before] for found in anchors if {before, k} <= found.keys()]
        places[k] = places[before] + max(float(np.median(apart)) if apart else 1.0, 0.1)
    return places


def _aligned(time: float, times: Array, at: Array) -> float:
    """A time of a clip whose actions at ``times`` (n,) are drawn ``at`` (n,)."""
    if time <= times[0] or len(times) == 1:
        return float(time - times[0] + at[0])
    if time >= times[-1]:
        return float(time - times[-1] + at[-1])
    return float(np.interp(time, times, at))


def _range(
    bars: Sequence[tuple[int, float, float]], places: dict[int, float]
) -> tuple[float, float]:
    """First and last time that is drawn; symmetric about a single action."""
    first, last = min(places.values()), max(places.values())
    if first == last:
        reach = float(np.quantile([max(abs(a), abs(b)) for _, a, b in bars], 0.95)) or 1.0
        return -reach, reach
    starts, ends = [a for _, a, _ in bars], [b for _, _, b in bars]
    low = min(float(np.quantile(starts, 0.05)), first - 0.5)
    return low, max(float(np.quantile(ends, 0.95)), last + 0.5)


def _average_ticks(
    n_states: int, low: float, high: float, marks: tuple[float, ...]
) -> tuple[tuple[float, str], ...]:
    """Seconds around a single action; in a chain the actions, by number where there are many."""
    if n_states > 2:
        few = n_states <= 4
        return tuple((at, f"action {k}" if few else str(k)) for k, at in enumerate(marks, start=1))
    return tuple(
        (0.5 + time / (2 * high), "action" if time == 0 else f"{time:+g} s")
        for time in _ticks(low, high, about=8)
        if abs(time) < 0.93 * high
    )


def _smooth(values: Array) -> Array:
    kernel = np.hanning(9)
    return np.convolve(values, kernel / kernel.sum(), mode="same")
