"""bench/results/TABLES.md is what its JSON files hold, and how the tables are made of them.

example: python3 -m unittest discover -s bench/tests
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import recorder  # noqa: E402
import tabulate_results  # noqa: E402


def page_of(**files: object) -> str:
    """The page of files of these names and contents."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return tabulate_results.page(Path(folder))


def section(**more: object) -> dict:
    return {
        "machine": {"processor": "A", "cores": 2},
        "commit": "abc1234",
        "date": "2026-11-24T01:00:00Z",
        **more,
    }


FIGURES = [
    {
        "figure": "fast | enough",
        "value": 1.23456,
        "unit": "ms",
        "target": "<= 2",
        "holds": True,
        "command": "run",
    },
    {
        "figure": "slow",
        "value": 12345.6,
        "unit": "ms",
        "target": "<= 2",
        "holds": False,
        "command": "run",
    },
]


class Tables(unittest.TestCase):
    def test_committed_tables_are_current(self) -> None:
        made = tabulate_results.page(tabulate_results.RESULTS)
        kept = (tabulate_results.RESULTS / tabulate_results.TABLES).read_text(encoding="utf-8")
        self.assertTrue(
            made == kept, "run bench/tabulate_results.py and commit bench/results/TABLES.md"
        )

    def test_every_file_and_figure_is_there(self) -> None:
        kept = (tabulate_results.RESULTS / tabulate_results.TABLES).read_text(encoding="utf-8")
        for path in tabulate_results.RESULTS.glob("*.json"):
            self.assertIn(f"## {path.name}\n", kept)
        self.assertIn("70B int4, 1/4 of every layer, 1 GPU, 8 rows", kept)

    def test_figures(self) -> None:
        page = page_of(a={"part": section(figures=FIGURES)})
        self.assertIn("### part\n\nA, 2 cores; commit abc1234; 2026-11-24\n", page)
        self.assertIn("| fast \\| enough | 1.235 | ms | <= 2 | yes |\n", page)
        self.assertIn("| slow | 12,346 | ms | <= 2 | **no** |\n", page)

    def test_figures_without_a_target_are_counted(self) -> None:
        untold = {"figure": "untold", "value": 1.5, "unit": "ms"}
        floored = {"figure": "floored", "value": 3.0, "floor": 2.0, "over_floor": 1.5}
        page = page_of(a={"part": section(figures=[*FIGURES, untold, floored])})
        self.assertNotIn("untold", page)
        self.assertIn("1 figures without a target: in the file.\n", page)
        self.assertIn("| floored | 3 | ", page)

    def test_missed_targets_are_listed_with_their_commit(self) -> None:
        page = page_of(a={"part": section(figures=FIGURES)})
        missed = page.partition("## Targets that are missed")[2].partition("## a.json")[0]
        self.assertIn("\na.json\n\n| figure | value |", missed)
        self.assertIn("| slow | 12,346 | ms | <= 2 | abc1234; 2026-11-24 |", missed)
        self.assertNotIn("enough", missed)
        self.assertIn("| [a.json](#ajson) | 2 | 1 |", page)

    def test_figures_in_a_plain_list_are_grouped_by_commit(self) -> None:
        rows = [
            {"figure": f"f{i}", "value": i, "over_floor": 2, "machine": "M", "commit": c}
            for i, c in enumerate("aab")
        ]
        page = page_of(a=rows)
        self.assertIn(
            "M; commit a\n\n| figure | value | over_floor |\n| --- | --- | --- |\n| f0 | 0 | 2 |\n| f1 | 1 | 2 |\n",
            page,
        )
        self.assertIn("M; commit b\n\n| figure | value | over_floor |\n", page)
        self.assertIn("| f2 | 2 | 2 |\n", page)

    def test_raw_rows(self) -> None:
        raw = [{"rows": i, "ms": 0.5} for i in range(tabulate_results.MOST_ROWS)]
        self.assertIn("| 7 | 0.5 |", page_of(a={"part": section(rows=raw)}))
        self.assertNotIn("| 7 | 0.5 |", page_of(a={"part": section(figures=FIGURES, rows=raw)}))
        many = page_of(a={"part": section(rows=[*raw, {"rows": 60, "ms": 0.5}])})
        self.assertIn(f"{len(raw) + 1} rows of rows, ms: in the file.", many)

    def test_recording_refreshes_them(self) -> None:
        """Where a script records into the folder of the results, and nowhere else."""

        def measure(made: recorder.Recorder) -> None:
            made.figures.append({"figure": "one", "value": 1, "unit": "ms", "over_floor": 2})

        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            with mock.patch.object(tabulate_results, "RESULTS", Path(folder)):
                for out in (other, folder):
                    self.assertEqual(list(Path(folder).glob("*")), [])
                    with mock.patch.object(sys, "argv", ["x", "part", "--out", f"{out}/new.json"]):
                        recorder.record_sections("doc", {"part": measure})
            made = (Path(folder) / tabulate_results.TABLES).read_text(encoding="utf-8")
            self.assertIn("| one | 1 | ms | 2 |", made)

    def test_numbers(self) -> None:
        cells = [
            tabulate_results.text_of(v)
            for v in (None, True, False, 0.0, 0.00012, 3, 12345, 99.999, "a\nb")
        ]
        self.assertEqual(
            cells, ["", "yes", "**no**", "0", "1.200e-04", "3", "12,345", "100", "a b"]
        )


if __name__ == "__main__":
    unittest.main()
