#!/usr/bin/env python3
"""Pages of documentation hold together: what a link names is there, no page is too long to read, and
indexes list all that there is, and files that the glossary names are there.

    pages_test.py [ROOT]

Reads every *.md of the tree, build folders and hidden ones aside. Links to the web
are not followed. An anchor must be a heading of its page, as GitHub spells anchors.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# The most lines that a page may have: the first entry applies whose folder holds the page.
MOST_LINES = {"docs/kernels": 150, "docs": 250, "bench/results/README.md": 40}
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
            if (
                path.suffix not in {".h", ".cc", ".cu", ".inc", ".py", ".txt", ".md", ""}
                or not path.is_file()
            ):
                continue
            for name in NAMED.findall(path.read_text(encoding="utf-8", errors="replace")):
                if not (root / name).exists():
                    faults.append(f"{path.relative_to(root)}: {name} is not there")
    return faults


def faults_of_indexes(root: Path) -> list[str]:
    """docs/*/README.md, where there is one, links every page beside it; of decisions by its title."""
    faults = []
    for index in sorted((root / "docs").glob("*/README.md")):
        text = index.read_text(encoding="utf-8")
        for page in sorted(index.parent.glob("*.md")):
            if page != index and f"]({page.name})" not in text:
                faults.append(f"{index.relative_to(root)}: {page.name} is not listed")
        if index.parent.name != "decisions":
            continue
        for number, title, name in re.findall(
            r"^- \[(\d+)\. (.*)\]\((\S+)\)$", text, flags=re.MULTILINE
        ):
            page = index.parent / name
            if page.exists() and not page.read_text(encoding="utf-8").startswith(
                f"# {number}. {title}\n"
            ):
                faults.append(
                    f'{index.relative_to(root)}: {name} has another title than "{number}. {title}"'
                )
    return faults


def faults_of_glossary(root: Path) -> list[str]:
    """Where the glossary says that a word is used, as a path from src/ on or a file's name."""
    text = (root / "docs" / "glossary.md").read_text(encoding="utf-8")
    named = sorted(set(re.findall(r"`((?:\w+/)*\w+\.(?:h|cc|cu|py|md))`", text)))
    faults = [f"docs/glossary.md: only {len(named)} files found"] if len(named) < 15 else []
    sources = {path.relative_to(root / "src").as_posix() for path in (root / "src").rglob("*.*")}
    names = {path.rpartition("/")[2] for path in sources}
    for name in named:
        if name not in sources and name not in names and not (root / name).exists():
            faults.append(f"docs/glossary.md: {name} is not there")
    return faults


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    all_pages = pages(root)
    faults = [fault for page in all_pages for fault in faults_of_links(root, page)]
    faults += faults_of_names(root) + faults_of_indexes(root)
    faults += faults_of_glossary(root)
    for page in all_pages:
        lines = page.read_text(encoding="utf-8").count("\n")
        most = next(
            (most for folder, most in MOST_LINES.items() if page.is_relative_to(root / folder)),
            None,
        )
        if most is not None and lines > most:
            faults.append(f"{page.relative_to(root)}: {lines} lines, {most} at most")
    if len(all_pages) < 20:
        faults.append(
            f"{root}: only {len(all_pages)} pages found, so this looked in the wrong place"
        )
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
