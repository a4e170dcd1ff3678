"""A picture of numbers as bars, for light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, ROW, LABELS, NUMBERS = 640, 26, 170, 90
"""Pixels: of the picture, a row, the names on the left and the numbers on the right."""


def bars(rows: Sequence[tuple[str, float]], unit: str) -> str:
    """Return an SVG with a bar for each name and value, the first one highlighted."""
    longest = max((value for _, value in rows), default=0.0) or 1.0
    room = WIDTH - LABELS - NUMBERS
    lines = []
    for place, (name, value) in enumerate(rows):
        top, width = ROW * place + 4, max(1.0, room * value / longest)
        kind = "first" if place == 0 else "other"
        lines += [
            f'<text x="{LABELS - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{LABELS}" y="{top}" width="{width:.1f}" height="18"/>',
            f'<text x="{LABELS + width + 6:.1f}" y="{top + 13}">{value:.4g}</text>',
        ]
    height = ROW * len(rows) + 24
    lines.append(f'<text class="unit" x="{LABELS}" y="{height - 6}">{escape(unit)}</text>')
    body = "\n".join(lines)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">
<title>{escape(unit)}</title>
<style>
text {{ font: 13px system-ui, sans-serif; fill: #1b1f24; }} .unit {{ fill: #59636e; }}
.first {{ fill: #0a6640; }} .other {{ fill: #9fb3c8; }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #e6edf3; }} .unit {{ fill: #9198a1; }}
  .first {{ fill: #56d364; }} .other {{ fill: #57606a; }}
}}
</style>
{body}
</svg>
"""
