#!/usr/bin/env python3
"""Text in the pictures of docs/ has room: whoever reads them has other fonts than who drew them.

    pictures_test.py [ROOT]

Every text, a quarter wider than DejaVu Sans sets it (which is wide already), lies within its picture,
within the rounded box around its middle if there is one, and meets no other text. Pictures have a
background of their own, so that dark text is not read on a dark page. Timelines are of a quiet run
(bench/draw_timelines.py): a turn of the host takes microseconds, and one of milliseconds has lost its
processor to another process.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

SPARE = 1.25
LONGEST_TURN_MS = 1.0
TURN = re.compile(r"<title>after [^<]*?([\d.]+) ms</title>")
# Widths of DejaVu Sans in thousandths of the size, from the space on; of all other characters the last.
# fmt: off
WIDTHS = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775,
    752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390,
    337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
    635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
]
# fmt: on
MONOSPACE = 602
# Heights above and below the baseline, as shares of the font size.
ASCENT, DESCENT = 0.76, 0.24


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.top <= y <= self.bottom


class Text(NamedTuple):
    words: str
    box: Box  # with room to spare


def width_of(words: str, size: float, font: str) -> float:
    if "monospace" in font:
        return len(words) * MONOSPACE * size / 1000
    return sum(WIDTHS[min(max(ord(c) - 32, 0), len(WIDTHS) - 1)] for c in words) * size / 1000


def read(path: Path) -> tuple[Box, list[Text], list[Box], bool]:
    """The picture, its texts, its rounded boxes, whether it has a background."""
    root = ElementTree.parse(path).getroot()
    if root.get("viewBox"):
        left, top, width, height = map(float, root.get("viewBox").split())
    else:
        left, top = 0.0, 0.0
        width, height = float(root.get("width")), float(root.get("height"))
    picture = Box(left, top, left + width, top + height)
    texts, boxes = [], []
    background = False

    def visit(node: ElementTree.Element, inherited: dict[str, str]) -> None:
        nonlocal background
        style = {**inherited, **node.attrib}
        tag = node.tag.rpartition("}")[2]
        if node.get("transform"):
            raise ValueError(f"{path}: transforms are not followed here")
        if tag == "rect":
            wide = node.get("width") == "100%" or float(node.get("width")) >= width
            background |= wide and style.get("fill", "none") != "none"
            if node.get("rx"):
                x, y = float(node.get("x")), float(node.get("y"))
                boxes.append(Box(x, y, x + float(node.get("width")), y + float(node.get("height"))))
        if tag == "text":
            words = "".join(node.itertext())
            size = float(style.get("font-size", "16"))
            long = SPARE * width_of(words, size, style.get("font-family", ""))
            x, y = float(node.get("x")), float(node.get("y"))
            x -= {"start": 0.0, "middle": long / 2, "end": long}[style.get("text-anchor", "start")]
            texts.append(Text(words, Box(x, y - ASCENT * size, x + long, y + DESCENT * size)))
        for child in node:
            visit(
                child,
                {
                    k: v
                    for k, v in style.items()
                    if k in ("font-size", "font-family", "text-anchor", "fill")
                },
            )

    visit(root, {})
    return picture, texts, boxes, background


def faults(path: Path) -> list[str]:
    picture, texts, boxes, background = read(path)
    found = [] if background else [f"{path.name}: no background"]
    if not texts:
        found.append(f"{path.name}: no text was found")
    for idx, text in enumerate(texts):
        box = text.box
        if box.left < picture.left or box.right > picture.right or box.bottom > picture.bottom:
            found.append(f"{path.name}: '{text.words}' may leave the picture")
        middle = (box.left + box.right) / 2, (box.top + box.bottom) / 2
        around = [each for each in boxes if each.holds(*middle)]
        if around:
            smallest = min(around, key=lambda each: each.right - each.left)
            if box.left < smallest.left or box.right > smallest.right:
                found.append(f"{path.name}: '{text.words}' may leave its box")
        for other in texts[idx + 1 :]:
            if box.meets(other.box):
                found.append(f"{path.name}: '{text.words}' may meet '{other.words}'")
    return found


def faults_of_timeline(path: Path) -> list[str]:
    turns = [float(turn) for turn in TURN.findall(path.read_text(encoding="utf-8"))]
    if not turns:
        return [f"{path.name}: no turns of the host were found"]
    longest = max(turns)
    return (
        [f"{path.name}: a turn of {longest:g} ms is no quiet run"]
        if longest > LONGEST_TURN_MS
        else []
    )


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2])
    pictures = sorted((root / "docs").rglob("*.svg"))
    all_faults = [fault for path in pictures for fault in faults(path)]
    for path in pictures:
        if path.name.startswith("timeline-"):
            all_faults += faults_of_timeline(path)
    if not pictures:
        all_faults.append(f"no pictures in {root / 'docs'}")
    for fault in all_faults:
        print(fault)
    return 1 if all_faults else 0


if __name__ == "__main__":
    sys.exit(main())
