#!/usr/bin/env python3
"""Writes bench/results/TABLES.md: what the JSON files beside it hold, as tables.

    bench/tabulate_results.py [--check]

--check: writes nothing and fails where the file is not what would be written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
TABLES = "TABLES.md"
# The columns of a figure, in this order. The figure's command and notes stay in the JSON.
FIGURE_COLUMNS = ("figure", "value", "unit", "target", "holds", "floor", "over_floor")
MISSED_COLUMNS = ["figure", "value", "unit", "target", "measured"]
# Rows that are not figures count as raw data if there are more of them than this, or if there are
# figures beside them.
MOST_ROWS = 12
# Fields of other rows that get no column: the section says them, or they are too long for a cell.
LEFT_OUT = ("command", "note", "machine", "date", "commit", "said")
HEAD = """# Tables

Made by `bench/tabulate_results.py` from the JSON files of this folder: do not edit. Values of four
digits; exact ones, commands, notes, raw rows and figures without a target or a floor are in the
files. A section's head says machine, commit and date.
"""


def text_of(value: object) -> str:
    """A cell: four digits of a float, nothing for what is not there."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        if value == 0 or 1e-3 <= abs(value) < 1000:
            return f"{value:.4g}"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3e}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def table(columns: list[str], rows: list[dict]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(text_of(row.get(c)) for c in columns) + " |" for row in rows]
    return "\n".join(lines)


def columns_of(rows: list[dict]) -> list[str]:
    """Keys with a scalar in some row, figures' first, in the order of their first use."""
    seen = dict.fromkeys(
        key
        for row in rows
        for key, value in row.items()
        if value is not None and not isinstance(value, (dict, list)) and key not in LEFT_OUT
    )
    if "figure" in seen:
        return [c for c in FIGURE_COLUMNS if c in seen]
    return list(seen)


def machine_of(section: dict) -> str:
    machine = section.get("machine")
    if isinstance(machine, dict):
        if "figures" in machine or "machine" in machine:
            return ""  # a section of that name
        parts = [", ".join(machine.get("gpus", [])) or machine.get("gpu", "")]
        if machine.get("processor"):
            parts.append(f"{machine['processor']}, {machine.get('cores', '?')} cores")
        machine = "; ".join(part for part in parts if part)
    facts = [machine, section.get("commit"), str(section.get("date", ""))[:10]]
    return "; ".join(
        f"{name} {fact}".strip() for name, fact in zip(("", "commit", ""), facts) if fact
    )


def is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def sections_of(value: object, title: str, facts: str) -> Iterator[tuple[str, str, list[dict]]]:
    """(title, machine and commit, rows) of every list of rows below `value`."""
    if is_rows(value):
        by_facts: dict[str, list[dict]] = {}
        for row in value:
            by_facts.setdefault(machine_of(row) or facts, []).append(row)
        for said, rows in by_facts.items():
            if columns_of(rows):
                yield title, said, rows
            for number, row in enumerate(rows, 1):
                for key, inner in row.items():
                    if is_rows(inner):
                        yield from sections_of(inner, f"{title} {number}: {key}".strip(), said)
    elif isinstance(value, dict):
        facts = machine_of(value) or facts
        scalars = {
            k: v
            for k, v in value.items()
            if isinstance(v, (int, float)) and not isinstance(v, bool)
        }
        if title and len(scalars) > 1 and not title.endswith("machine"):
            yield title, facts, [{"figure": k, "value": v} for k, v in scalars.items()]
        for key, inner in value.items():
            if key == "rows" and is_rows(inner) and is_rows(value.get("figures")):
                continue
            if key in ("machine", "rows", "figures"):
                name = title if key != "machine" else f"{title} {key}".strip()
            else:
                name = f"{title}: {key}" if title else key
            yield from sections_of(inner, name, facts)


def targets_of(sections: list[tuple[str, str, list[dict]]]) -> list[dict]:
    """The figures of a file that have a target which holds or not, with when they were measured."""
    return [
        {
            "figure": row.get("figure"),
            "value": row.get("value"),
            "unit": row.get("unit"),
            "target": row.get("target"),
            "holds": row["holds"],
            "measured": said.rpartition("; commit ")[2],
        }
        for _, said, rows in sections
        for row in rows
        if isinstance(row.get("holds"), bool)
    ]


def page(folder: Path) -> str:
    """TABLES.md of the JSON files in `folder`."""
    files = {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.json"))
    }
    sections = {name: list(sections_of(content, "", "")) for name, content in files.items()}
    summary, missed, parts = [], {}, []
    for name, found in sections.items():
        targets = targets_of(found)
        if not all(row["holds"] for row in targets):
            missed[name] = [row for row in targets if not row["holds"]]
        summary.append(
            {
                "file": f"[{name}](#{name.replace('.', '').lower()})",
                "targets": len(targets),
                "hold": sum(row["holds"] for row in targets),
            }
        )
        parts.append(f"## {name}\n")
        last = ""
        for title, said, rows in found:
            if title:
                parts.append(f"### {title}\n")
            if said and said != last:
                parts.append(said + "\n")
            last = said
            parts += tables_of(rows)
    head = [
        HEAD,
        "## Files\n",
        table(["file", "targets", "hold"], summary) + "\n",
        "## Targets that are missed\n",
    ]
    for name, rows in missed.items():
        head += [f"{name}\n", table(MISSED_COLUMNS, rows) + "\n"]
    return "\n".join(head + parts)


def tables_of(rows: list[dict]) -> list[str]:
    """The tables of a section: figures with a target or a floor, or other rows if they are few."""
    columns = columns_of(rows)
    if "figure" not in columns:
        if len(rows) <= MOST_ROWS:
            return [table(columns, rows) + "\n"]
        return [f"{len(rows)} rows of {', '.join(columns)}: in the file.\n"]
    judged = [row for row in rows if isinstance(row.get("holds"), bool) or row.get("over_floor")]
    parts = [table(columns_of(judged), judged) + "\n"] if judged else []
    if len(judged) < len(rows):
        parts.append(f"{len(rows) - len(judged)} figures without a target: in the file.\n")
    return parts


def refresh(changed: Path) -> None:
    """Makes the tables anew where `changed` is one of the files that they are made of."""
    if changed.resolve().parent == RESULTS.resolve():
        (RESULTS / TABLES).write_text(page(RESULTS), encoding="utf-8")


def main() -> int:
    made = page(RESULTS)
    target = RESULTS / TABLES
    if "--check" in sys.argv[1:]:
        if not target.exists() or target.read_text(encoding="utf-8") != made:
            print(f"{target}: not what the JSON files hold; run bench/tabulate_results.py")
            return 1
        return 0
    target.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
