"""bench/fit_roofline.py: the table in gpu_spec.cc is the one that it writes."""

import importlib.util
import sys
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))


@unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
class FitRooflineTest(unittest.TestCase):
    def test_the_table_is_what_is_fitted(self):
        import fit_roofline

        lines, _ = fit_roofline.fitted_table()
        text = fit_roofline.TABLE.read_text()
        self.assertEqual(fit_roofline.written(text, lines), text)

    def test_halves_are_every_second_row_of_a_table(self):
        import fit_roofline

        rows = fit_roofline.paper_rows()
        fitted, held = fit_roofline.halves(rows)
        self.assertEqual((len(rows), len(fitted), len(held)), (89, 47, 42))
        for table in {row.table for row in rows}:
            own = [row for row in rows if row.table == table]
            self.assertEqual([row for row in fitted if row.table == table], own[0::2])


if __name__ == "__main__":
    unittest.main()
