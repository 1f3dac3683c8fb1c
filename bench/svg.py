"""Pictures written as SVG by hand: a page and its text."""

from __future__ import annotations

from xml.sax.saxutils import escape


def text(
    x: float,
    y: float,
    content: str,
    anchor: str = "middle",
    colour: str = "#222222",
    size: int = 12,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}">{escape(content)}</text>'
    )


def room_for(content: str, size: int = 12) -> float:
    """What `content` may take in a wide font, with some to spare: readers have others than we."""
    return 0.8 * size * len(content)


def legend(
    colours: dict[str, str], left: float, top: float, right: float
) -> tuple[list[str], float]:
    """A square and a name each, in lines from `left` up to `right`; and how much lower than one line it ends."""
    line = 18
    out, x, y = [], float(left), top
    for name, colour in colours.items():
        if x + 15 + room_for(name, 11) > right:
            x, y = float(left), y + line
        out.append(f'<rect x="{x:.0f}" y="{y}" width="10" height="10" fill="{colour}"/>')
        out.append(text(x + 15, y + 9, name, "start", size=11))
        x += 28 + room_for(name, 11)
    return out, y - top


def page(width: float, height: float, elements: list[str]) -> str:
    return (
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" '
                f'height="{height:g}" font-family="sans-serif" font-size="12">',
                '<rect width="100%" height="100%" fill="#ffffff"/>',
                *elements,
                "</svg>",
            ]
        )
        + "\n"
    )
