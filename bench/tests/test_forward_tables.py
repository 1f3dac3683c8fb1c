"""The tables of forwards in README.md and docs/performance.md are those of bench/results.

example: python3 -m unittest discover -s bench/tests
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tabulate_forwards  # noqa: E402

FIGURES = {
    ("A", 1, 1): {"value": 1.005, "floor": 1.0},
    ("A", 1, 8): {"value": 3.4072, "floor": 1.0, "target": "<= 3.4", "holds": False},
    ("A", 1, 16): {"value": 4.0, "floor": 1.0, "target": "<= 5", "holds": True},
}


def table(over: str) -> str:
    made = tabulate_forwards.Table([("A", 1)], (1, 8, 16), over)
    return tabulate_forwards.text_of(made, FIGURES)


class ForwardTables(unittest.TestCase):
    def test_committed_tables_are_current(self) -> None:
        figures = tabulate_forwards.forwards(tabulate_forwards.ROOT / "bench" / "results")
        names = []
        for name in tabulate_forwards.PAGES:
            page = (tabulate_forwards.ROOT / name).read_text(encoding="utf-8")
            names += [mark[2] for mark in tabulate_forwards.MARK.finditer(page)]
            self.assertTrue(
                tabulate_forwards.filled(page, figures) == page,
                f"{name}: run bench/tabulate_forwards.py and commit it",
            )
        self.assertEqual(sorted(names), sorted(tabulate_forwards.TABLES))

    def test_targets(self) -> None:
        self.assertEqual(
            table("target").splitlines()[::2],
            [
                "| model | GPUs | 1 row | 8 rows | 16 rows |",
                "| A | 1 | 1.01 | **3.41** (3.40) | 4.00 (5.00) |",
            ],
        )

    def test_floors(self) -> None:
        self.assertEqual(
            table("floor").splitlines()[::2],
            [
                "| model | GPUs | floor | 1 row | 8 rows | 16 rows |",
                "| A | 1 | 1.00 | 1.01 (1.0x) | 3.41 (3.4x) | 4.00 (4.0x) |",
            ],
        )

    def test_a_table_replaces_the_one_behind_its_mark(self) -> None:
        mark = "<!-- bench/tabulate_forwards.py: groups -->\n"
        figures = tabulate_forwards.forwards(tabulate_forwards.ROOT / "bench" / "results")
        made = tabulate_forwards.filled(f"before\n\n{mark}| old |\n| --- |\n\nafter\n", figures)
        self.assertTrue(made.startswith(f"before\n\n{mark}| model | GPUs | floor |"))
        self.assertTrue(made.endswith(" |\n\nafter\n"))
        self.assertNotIn("old", made)


if __name__ == "__main__":
    unittest.main()
