"""Pictures written as SVG by hand: a page and its text."""

from __future__ import annotations

from xml.sax.saxutils import escape


def text(x: float, y: float, content: str, anchor: str = "middle", colour: str = "#222222",
         size: int = 12) -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
            f'font-size="{size}">{escape(content)}</text>')


def page(width: float, height: float, elements: list[str]) -> str:
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" '
                      f'height="{height:g}" font-family="sans-serif" font-size="12">',
                      '<rect width="100%" height="100%" fill="#ffffff"/>', *elements,
                      "</svg>"]) + "\n"
