#!/usr/bin/env python3
"""Pages of documentation hold together: what a link names is there, and no page is too long to read.

    pages_test.py [ROOT]

Reads every *.md of the tree, build folders and hidden ones aside. Links to the web
are not followed. An anchor must be a heading of its page, as GitHub spells anchors.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

MOST_LINES = 250  # of a page in docs/
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"\bdocs/[\w./-]+\.md\b")  # pages named in comments and plain text


def prose(text: str) -> str:
    """`text` without its fenced blocks, where brackets are code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    found: set[str] = set()
    for line in prose(page.read_text(encoding="utf-8")).splitlines():
        heading = re.match(r"#+ +(.*)", line)
        if heading:
            words = re.sub(r"[^\w\- ]", "", heading[1].strip().lower())
            found.add(words.replace(" ", "-"))
    return found


def pages(root: Path) -> list[Path]:
    skipped = {"build", "node_modules", "shared"}
    return sorted(
        path
        for path in root.rglob("*.md")
        if not any(part in skipped or part.startswith(".") for part in path.relative_to(root).parts)
    )


def faults_of_links(root: Path, page: Path) -> list[str]:
    faults = []
    text = prose(page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        where = page.relative_to(root)
        if not target.exists():
            faults.append(f"{where}: {link} names nothing")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            faults.append(f"{where}: {target.name} has no heading #{anchor}")
    return faults


def faults_of_names(root: Path) -> list[str]:
    faults = []
    for folder in ("src", "include", "apps", "bench", "tools", "tests", "examples", "scripts"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".inc", ".py", ".txt", ".md", ""} or not path.is_file():
                continue
            for name in NAMED.findall(path.read_text(encoding="utf-8", errors="replace")):
                if not (root / name).exists():
                    faults.append(f"{path.relative_to(root)}: {name} is not there")
    return faults


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    all_pages = pages(root)
    faults = [fault for page in all_pages for fault in faults_of_links(root, page)]
    faults += faults_of_names(root)
    for page in all_pages:
        lines = page.read_text(encoding="utf-8").count("\n")
        if page.is_relative_to(root / "docs") and lines > MOST_LINES:
            faults.append(f"{page.relative_to(root)}: {lines} lines, {MOST_LINES} at most")
    if len(all_pages) < 20:
        faults.append(f"{root}: only {len(all_pages)} pages found, so this looked in the wrong place")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
