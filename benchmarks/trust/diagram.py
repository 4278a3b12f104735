"""The reliability diagram: precision of answers against the chance that they were given."""

from __future__ import annotations

from collections.abc import Sequence

SIZE, MARGIN = 320, 48


def reliability_diagram(rows: Sequence[tuple[float, float, float]]) -> str:
    """SVG of the bins ``(share of the answers, mean chance, precision)``."""

    def at(x: float, y: float) -> tuple[float, float]:
        return MARGIN + x * SIZE, MARGIN / 2 + (1 - y) * SIZE

    parts = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x, bottom = at(tick, 0)
        left, y = at(0, tick)
        parts.append(f'<path d="M{x} {bottom}V{at(0, 1)[1]}M{left} {y}H{at(1, 0)[0]}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    (x1, y1), (x2, y2) = at(0, 0), at(1, 1)
    parts.append(f'<path d="M{x1} {y1}L{x2} {y2}" stroke-dasharray="4 4" stroke="#888"/>')
    for share, chance, precision in rows:
        x, y = at(chance, precision)
        radius = 3 + 24 * share**0.5
        label = f"{share:.0%} of answers: chance {chance:.2f}, right {precision:.2f}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{label}</title></circle>'
        )
    width, height = SIZE + MARGIN + 24, SIZE + 1.5 * MARGIN + 8
    middle = MARGIN + SIZE / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="12">'
        '<rect width="100%" height="100%" fill="white"/>'
        f'<g fill="#333" stroke="none">'
        f'<text x="{middle}" y="{height - 8:g}" text-anchor="middle">chance given</text>'
        f'<text transform="translate(14 {MARGIN / 2 + SIZE / 2}) rotate(-90)" '
        f'text-anchor="middle">share that is right</text></g>'
        f'<g stroke="#ddd" fill="none">{_only(parts, "<path")}</g>'
        f'<g fill="#333">{_only(parts, "<text")}</g>'
        f'<g fill="#2a6fbb" fill-opacity="0.75">{_only(parts, "<circle")}</g></svg>\n'
    )


def _only(parts: Sequence[str], start: str) -> str:
    return "".join(part for part in parts if part.startswith(start))
