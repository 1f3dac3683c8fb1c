"""What the measurement of regret makes of measured rows."""

from __future__ import annotations

import sys
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import measure_regret  # noqa: E402


def rows(plain: float, other: float, auto: float, temperature: float = 0.0) -> list[dict]:
    rates = {
        measure_regret.PLAIN: plain,
        "strategy=serial_tree,source=suffix": other,
        measure_regret.AUTO: auto,
    }
    return [
        {"setting": setting, "temperature": temperature, "tokens_per_s": rate}
        for setting, rate in rates.items()
    ]


class RegretTest(unittest.TestCase):
    def test_a_cell_is_held_against_the_best_and_against_plain_decoding(self) -> None:
        cell = measure_regret.cell_of(rows(100, 200, 180) + rows(1, 2, 3, 0.8), 4, 512, 0.0)
        self.assertEqual(cell["best"], "serial_tree suffix")
        self.assertAlmostEqual(cell["auto_over_best"], 0.9)
        self.assertAlmostEqual(cell["auto_over_plain"], 1.8)
        sampled = measure_regret.cell_of(rows(1, 2, 3, 0.800000011920929), 4, 512, 0.8)
        self.assertEqual(sampled["best"], "auto")
        with self.assertRaises(ValueError):
            measure_regret.cell_of(rows(100, 200, 180), 4, 512, 0.5)

    def test_both_halves_of_the_target_must_hold(self) -> None:
        def holds(near: int, far: int, slow: int) -> bool:
            cells = (
                [measure_regret.cell_of(rows(100, 120, 119), 1, 512, 0.0)] * near
                + [measure_regret.cell_of(rows(100, 150, 120), 1, 512, 0.0)] * far
                + [measure_regret.cell_of(rows(100, 90, 97), 1, 512, 0.0)] * slow
            )
            return measure_regret.summary(cells)["holds"]

        self.assertTrue(holds(19, 1, 0))
        self.assertFalse(holds(18, 2, 0))
        self.assertFalse(holds(19, 0, 1))

    def test_the_picture_has_a_field_a_cell(self) -> None:
        cells = [
            measure_regret.cell_of(rows(100, 150, rate), requests, context, 0.0)
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
