"""Curves of a run as JSON and as a picture, and tables as text."""

from __future__ import annotations

import json
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, GAP = 900, 320, 60, 30, 60
COLOURS = ("#1b6ca8", "#2a9d8f", "#8ab17d", "#e9c46a", "#f4a261", "#e76f51", "#9b5de5", "#444444")


def panel(curve: list[dict], key: str, title: str, left: float, width: float) -> list[str]:
    """One line a step of the unrolled head over tokens; the largest value on top, 0 or the least below."""
    points = [(entry["tokens"] / 1e6, entry[key]) for entry in curve]
    values = [value for _, row in points for value in row]
    low, high = min(values), max(values)
    last = max(x for x, _ in points)
    height = HEIGHT - TOP - 50

    def at(x: float, y: float) -> str:
        return (
            f"{left + width * x / last:.1f},{TOP + height * (high - y) / max(high - low, 1e-9):.1f}"
        )

    font = 'font-family="sans-serif" font-size="12"'
    out = [f'<text x="{left}" y="{TOP - 12}" {font}>{title}</text>']
    out.append(
        f'<rect x="{left}" y="{TOP}" width="{width}" height="{height}" fill="none" stroke="#999"/>'
    )
    for value, y in ((high, TOP + 10), (low, TOP + height)):
        out.append(f'<text x="{left - 6}" y="{y}" {font} text-anchor="end">{value:.2f}</text>')
    out.append(
        f'<text x="{left + width}" y="{TOP + height + 16}" {font} text-anchor="end">{last:.0f} M tokens</text>'
    )
    for step in range(len(points[-1][1])):
        line = " ".join(at(x, row[step]) for x, row in points if step < len(row))
        colour = COLOURS[step % len(COLOURS)]
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        x = left + 14 * step
        out.append(
            f'<text x="{x}" y="{TOP + height + 34}" {font} fill="{colour}">{step + 1}</text>'
        )
    return out


def write(directory: Path, curve: list[dict]) -> None:
    """curve.json, and curve.svg: loss and agreement by step of the unrolled head."""
    (directory / "curve.json").write_text(json.dumps(curve) + "\n", encoding="utf-8")
    if not curve:
        return
    width = (WIDTH - 2 * LEFT - GAP) / 2
    body = panel(curve, "loss", "cross-entropy with the target, nats, by step", LEFT, width)
    body += panel(
        curve, "agreement", "best token agrees with the target's", LEFT + width + GAP, width
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">'
    (directory / "curve.svg").write_text("\n".join([head, *body, "</svg>", ""]), encoding="utf-8")


def table_text(table: dict[str, dict[str, list[float]]]) -> str:
    """Tokens a step: a category a line, a kind of guessing a column."""
    kinds = list(next(iter(table.values()), {}))
    lines = [f"{'':16}" + "".join(f"{kind:>10}" for kind in ["tokens", *kinds])]
    for category, row in table.items():
        cells = [f"{row[kinds[0]][0]:>10.0f}"] + [f"{row[kind][2]:>10.2f}" for kind in kinds]
        lines.append(f"{category:16}" + "".join(cells))
    return "\n".join(lines)
