"""What the measurement of speculation over batch and context makes of rows and plans."""

from __future__ import annotations

import sys
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import measure_speculation  # noqa: E402
import plot_speculation  # noqa: E402


def row(strategy: str, budget: int, gamma: int, speed_up: float, requests: int = 4) -> dict:
    return {
        "strategy": strategy,
        "budget": budget,
        "gamma": gamma,
        "speed_up": speed_up,
        "requests": requests,
        "context": 2048,
        "check_rows": 0,
        "draft_ms": 1.0,
        "verify_ms": 2.0,
        "tokens_a_round": 1.5,
        "tokens_per_s": 100 * speed_up,
    }


def plan(plain_ms: float, speed_up: float) -> dict:
    candidates = [
        {"name": "self, streaming_llm 512", "draft": "self", "budget": 512, "checked_guesses": 0},
        {"name": "draft", "draft": "draft", "budget": 0, "checked_guesses": 0},
        {"name": "both", "draft": "self", "budget": 512, "checked_guesses": 3},
    ]
    ranked = [
        {
            "candidate": each["name"],
            "gamma": 2,
            "tokens_per_round": 2.0,
            "plain_ms": plain_ms,
            "draft_ms": 1.0,
            "verify_ms": 3.0,
            "tokens_per_s": 10.0,
            "speed_up": speed_up,
        }
        for each in candidates
    ]
    ranked.append(
        {
            "candidate": "plain decoding",
            "gamma": 0,
            "tokens_per_round": 1.0,
            "plain_ms": plain_ms,
            "tokens_per_s": 8.0,
            "speed_up": 1.0,
        }
    )
    return {"candidates": candidates, "plans": [{"batch": 4, "context": 2048, "ranked": ranked}]}


class SpeculationTest(unittest.TestCase):
    def test_rows_meet_their_prediction_by_cell_strategy_budget_and_gamma(self) -> None:
        predicted = measure_speculation.predictions(plan(3.0, 1.4))
        rows = [
            row("autoregressive", 0, 0, 1.0),
            row("sparse_self", 512, 2, 1.2),
            row("draft model", 0, 2, 1.1),
            row("hierarchy, 4 rows", 512, 2, 1.1),
            row("sparse_self", 512, 3, 1.3),
            row("sparse_self", 1024, 2, 1.3),
            row("sparse_self", 512, 2, 1.3, requests=8),
        ]
        met = ["predicted" in each for each in measure_speculation.joined(rows, predicted)]
        self.assertEqual(met, [True, True, True, True, False, False, False])

    def test_of_several_plans_the_one_of_the_fastest_moment_counts(self) -> None:
        plans = [
            measure_speculation.predictions(plan(plain, speed_up))
            for plain, speed_up in ((5.0, 1.1), (3.0, 1.4), (4.0, 1.2))
        ]
        kept = measure_speculation.fastest(plans)
        self.assertEqual(kept[(2048, 4, "sparse_self", 512, 2)]["speed_up"], 1.4)

    def test_a_line_has_the_best_gamma_of_each_batch(self) -> None:
        rows = [
            row("autoregressive", 0, 0, 1.0),
            row("sparse_self", 512, 1, 1.1),
            row("sparse_self", 512, 2, 1.3),
            row("sparse_self", 512, 1, 1.4, requests=8),
            row("draft model, its view", 512, 1, 0.8),
        ]
        best = plot_speculation.best_rows(rows)
        self.assertEqual(
            [(each["requests"], each["strategy"], each["gamma"]) for each in best],
            [(4, "draft model, its view", 1), (4, "sparse_self", 2), (8, "sparse_self", 1)],
        )
        picture = plot_speculation.drawing_by_batch(rows)
        self.assertEqual(
            sum(each.tag.endswith("circle") for each in ET.fromstring(picture).iter()), 3
        )

    def test_what_was_predicted_and_what_was_not(self) -> None:
        rows = measure_speculation.joined(
            [row("sparse_self", 512, 2, 1.26), row("sparse_self", 512, 3, 1.0)],
            measure_speculation.predictions(plan(3.0, 1.4)),
        )
        self.assertAlmostEqual(plot_speculation.share(rows[0]), 0.9)
        picture = plot_speculation.drawing_predicted(rows)
        self.assertEqual(
            sum(each.tag.endswith("circle") for each in ET.fromstring(picture).iter()), 1
        )
        with self.assertRaises(ValueError):
            plot_speculation.drawing_predicted(rows[1:])


if __name__ == "__main__":
    unittest.main()
