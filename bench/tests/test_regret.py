"""What the measurement of regret makes of measured rows."""

from __future__ import annotations

import sys
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import measure_regret  # noqa: E402

WHERE = {"text": "code", "requests": 4, "context": 512}
OTHER = "strategy=serial_tree,source=suffix"


def rows(plain: float, other: float, auto: float, temperature: float = 0.0) -> list[dict]:
    """Rows of measure_settings whose rounds all give the same rates."""
    rates = {measure_regret.PLAIN: plain, OTHER: other, measure_regret.AUTO: auto}
    return [
        {"setting": setting, "temperature": temperature, "runs": [rate] * 4}
        for setting, rate in rates.items()
    ]


class RegretTest(unittest.TestCase):
    def test_a_cell_is_held_against_the_best_and_against_plain_decoding(self) -> None:
        cell = measure_regret.cell_of(rows(100, 200, 180) + rows(1, 2, 3, 0.8), WHERE, 0.0)
        self.assertEqual(cell["best"], "serial_tree suffix")
        self.assertAlmostEqual(cell["auto_over_best"], 0.9)
        self.assertAlmostEqual(cell["auto_over_plain"], 1.8)
        sampled = measure_regret.cell_of(rows(1, 2, 3, 0.800000011920929), WHERE, 0.8)
        self.assertEqual(sampled["best"], "auto")
        with self.assertRaises(ValueError):
            measure_regret.cell_of(rows(100, 200, 180), WHERE, 0.5)

    def test_an_interval_holds_the_ratio_of_the_medians(self) -> None:
        auto, plain = [90.0, 100.0, 110.0, 105.0, 95.0], [100.0] * 5
        ratio, (low, high) = measure_regret.ratio_of(auto, plain)
        self.assertAlmostEqual(ratio, 1.0)
        self.assertTrue(0.9 <= low < ratio < high <= 1.1)

    def test_no_rival_is_the_best_by_luck(self) -> None:
        # Each rival is lucky in one half of the rounds.
        runs = {
            measure_regret.PLAIN: [100.0, 130.0, 100.0, 130.0],
            OTHER: [130.0, 100.0, 130.0, 100.0],
            measure_regret.AUTO: [101.0] * 4,
        }
        self.assertAlmostEqual(measure_regret.over_best(runs), 1.01)

    def test_a_view_is_no_rival_where_it_covers_the_text(self) -> None:
        view = "strategy=sparse_self,view=snapkv,view_budget=512,draft_depth=4"
        self.assertEqual([measure_regret.fits(view, n) for n in (512, 513)], [False, True])
        self.assertTrue(measure_regret.fits(measure_regret.PLAIN, 1))

    def test_both_halves_of_the_target_must_hold(self) -> None:
        def cells(near: int, far: int, slow: int) -> list[dict]:
            return (
                [measure_regret.cell_of(rows(100, 120, 119), WHERE, 0.0)] * near
                + [measure_regret.cell_of(rows(100, 150, 120), WHERE, 0.0)] * far
                + [measure_regret.cell_of(rows(100, 90, 97), WHERE, 0.0)] * slow
            )

        self.assertTrue(measure_regret.summary(cells(19, 1, 0))["holds"])
        self.assertFalse(measure_regret.summary(cells(18, 2, 0))["holds"])
        self.assertFalse(measure_regret.summary(cells(19, 0, 1))["holds"])
        figures = measure_regret.figures_of(cells(1, 1, 1))
        self.assertEqual(
            [figure["holds"] for figure in figures], [True, True, True, False, False, True]
        )

    def test_the_picture_has_a_field_a_cell(self) -> None:
        cells = [
            measure_regret.cell_of(
                rows(100, 150, rate),
                {"text": "code", "requests": requests, "context": context},
                0.0,
            )
            for requests, rate in ((1, 149), (4, 125))
            for context in (512, 2048)
        ]
        picture = measure_regret.draw(cells, "auto")
        fields = [
            e for e in ET.fromstring(picture).iter() if e.tag.endswith("rect") and "x" in e.attrib
        ]
        self.assertEqual(len(fields), len(cells))
        self.assertIn("0.83 of the best", picture)


if __name__ == "__main__":
    unittest.main()
