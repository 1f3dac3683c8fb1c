"""Sections of measure_cuda.py with programs that answer as the real ones do.

example: python3 -m unittest discover -s bench/tests
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gpu_models  # noqa: E402
import gpu_speculation  # noqa: E402
import measure_cuda  # noqa: E402
import recorder  # noqa: E402

# Appends LINES to the file after --json.
PROGRAM = """#!{python}
import sys
open(sys.argv[sys.argv.index("--json") + 1], "a").write({lines!r})
"""


def linear_line(figure: str, value: float) -> dict:
    return {
        "figure": figure,
        "value": value,
        "unit": "us",
        "target": 2.0,
        "note": "target is the floor; measured/floor 3.0; cluster 2",
    }


class SectionsTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.build = Path(scratch.name)
        self.rec = recorder.Recorder(
            argparse.Namespace(
                build=str(self.build),
                models=str(self.build / "models"),
                only=None,
                counts=None,
                keep=False,
                layer_rows="8,1",
                limit=1,
                tokens=8,
                prompts=["code.jsonl"],
                target="llama-3-70b",
                shapes=None,
                drafts=None,
            )
        )
        attempt = recorder.Recorder.attempt

        def answer(
            rec: recorder.Recorder, command: list[str], variables: dict[str, str] | None = None
        ) -> str | None:
            if "tools/" in command[1]:
                folder = Path(command[command.index("--out") + 1])
                folder.mkdir(parents=True)
                (folder / "config.json").write_text(
                    json.dumps(
                        {"max_position_embeddings": 8192 if "grow_model" in command[1] else 131072}
                    )
                )
                return self.made
            if "bench/compare_pytorch.py" in command:
                Path(command[-1]).write_text(json.dumps(self.pytorch_rows))
                return ""
            return attempt(rec, command, variables)

        self.made: str | None = ""
        self.pytorch_rows: list[dict] = []
        for patch in (
            mock.patch.object(recorder.Recorder, "attempt", answer),
            mock.patch.dict(measure_cuda.OURS, clear=True),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)
        self.gpus(1)

    def gpus(self, count: int) -> None:
        for module in (measure_cuda, gpu_speculation):
            patch = mock.patch.object(module, "gpus", lambda: ["H200"] * count)
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)

    def program(self, name: str, lines: list[dict]) -> None:
        path = self.build / name
        text = "".join(json.dumps(line) + "\n" for line in lines)
        path.write_text(PROGRAM.format(python=sys.executable, lines=text))
        path.chmod(0o755)

    def figures(self) -> dict[str, dict]:
        self.assertEqual(self.rec.failed, [])
        return {figure["figure"]: figure for figure in self.rec.figures}

    def test_forwards_have_targets_where_one_is_named(self) -> None:
        self.gpus(4)
        self.program(
            "decoder_cuda_bench", [{"rows": rows, "ms": 3.5, "call_ms": 3.6} for rows in (1, 8)]
        )
        measure_cuda.measure_forwards(self.rec)
        figures = self.figures()
        four = figures["70B int4, 4 GPUs, 8 rows"]
        self.assertEqual((four["target"], four["holds"]), ("<= 3.4", False))
        self.assertAlmostEqual(four["floor"], 2.069, places=3)
        self.assertIsNone(figures["70B int4, 4 GPUs, 1 rows"]["target"])
        self.assertTrue(figures["8B bf16, 1 GPU, 1 rows"]["holds"])
        self.assertNotIn("70B int4, 8 GPUs, 8 rows", figures)
        # Six models on one GPU and 70B on four numbers of them, int4 on up to two with another head too.
        self.assertEqual(len(self.rec.rows), 2 * (6 + 4 + 4 + 2))
        draft = figures["1B int4 with an int4 head, 1 GPU, 8 rows"]
        self.assertIn("--int4-head", draft["command"])
        self.assertLess(draft["floor"], 0.7 * figures["1B int4, 1 GPU, 8 rows"]["floor"])
        target = figures["8B int4 with an int8 head, 1 GPU, 8 rows"]
        self.assertEqual((target["target"], target["floor"] < 1.04), ("<= 1.55", True))
        self.assertLess(0.85 * figures["8B int4, 1 GPU, 8 rows"]["floor"], target["floor"])
        self.rec.rows.clear()
        self.rec.args.only, self.rec.args.counts = ["1B", "70B int4"], [2, 1]
        measure_cuda.measure_forwards(self.rec)
        self.assertEqual(
            [(row["model"], row["gpus"]) for row in self.rec.rows[::2]],
            [
                ("1B int4", 1),
                ("1B int4 with an int4 head", 1),
                ("1B bf16", 1),
                ("70B int4", 2),
                ("70B int4 with an int8 head", 2),
                ("70B int4", 1),
                ("70B int4 with an int8 head", 1),
            ],
        )

    def test_a_budget_holds_parts_against_their_bytes(self) -> None:
        self.program(
            "decoder_cuda_bench",
            [
                {"rows": 8, "context": 1000, "ms": 3.0},
                {"rows": 8, "context": 1000, "part": "QKV", "us_a_layer": 5.0},
                {"rows": 8, "context": 500, "part": "QKV", "us_a_layer": 5.0},
                {"rows": 8, "context": 1000, "part": "O", "us_a_layer": -5.0},
                {"rows": 8, "context": 32000, "part": "attention_kernel", "us_a_layer": 12.0},
            ],
        )
        measure_cuda.measure_budget(self.rec)
        figures = self.figures()
        self.assertEqual(len(figures), 3)
        without = figures["70B int4, 1/4 of every layer, 1 GPU, 8 rows, context 1000, O"]
        self.assertEqual((without["target"], without["holds"]), (None, None))
        self.assertNotIn("floor", without)
        self.assertIn("longer without it", without["note"])
        qkv = figures["70B int4, 1/4 of every layer, 1 GPU, 8 rows, context 1000, QKV"]
        self.assertEqual(qkv["target"], "<= 3.5")
        self.assertAlmostEqual(qkv["floor"], 2.394, places=2)
        self.assertEqual(measure_cuda.OURS["attention 70b-tp4 8 rows, context 32000"], 12.0)
        self.assertIn("--context 500,1000,32000 ", qkv["command"])
        self.gpus(4)
        measure_cuda.measure_budget(self.rec)
        of_all = self.figures()["70B int4, 4 GPUs, 8 rows, context 1000, QKV"]
        self.assertIn("--context 500,1000 ", of_all["command"])  # it has 8,192 positions

    def test_pytorch_is_held_against_what_this_run_measured(self) -> None:
        self.program("linear_cuda_bench", [linear_line("8b-bf16.qkv 8 rows", 10.0)])
        self.program(
            "decoder_cuda_bench",
            [{"rows": 8, "context": 1000, "part": "attention_kernel", "us_a_layer": 8.0}],
        )
        self.pytorch_rows = [
            {"operator": name, "how": "bf16", "us": 20.0, "torch": "2"}
            for name in (
                "8b-bf16.qkv 8 rows",
                "8b-bf16.qkv with norm 8 rows",
                "attention 70b-tp4 8 rows, context 1000",
                "attention 8b 8 rows, context 500",
            )
        ]
        measure_cuda.measure_pytorch(self.rec)
        values = {name: figure["value"] for name, figure in self.figures().items()}
        self.assertEqual(
            values,
            {
                "PyTorch bf16 over ours, 8b-bf16.qkv 8 rows": 2.0,
                "PyTorch bf16 over ours, 8b-bf16.qkv with norm 8 rows": 2.0,
                "PyTorch bf16 over ours, attention 70b-tp4 8 rows, context 1000": 2.5,
                "PyTorch bf16, attention 8b 8 rows, context 500": 20.0,
            },
        )

    def test_prefill_is_held_against_large_matrix_products(self) -> None:
        self.pytorch_rows = [
            {"operator": "matrix", "how": "bf16", "us": 2 * 8192**3 / 800e6, "torch": "2"}
        ]
        self.program(
            "prefill_cuda_bench",
            [{"prompt_tokens": tokens, "ms": 500.0, "tflops": 200.0} for tokens in (512, 8192)],
        )
        measure_cuda.measure_prefill(self.rec)
        figures = self.figures()
        name = "8B bf16, prompt of {} tokens, share of the matrix rate"
        self.assertEqual(figures[name.format(8192)]["value"], 0.25)
        self.assertEqual(figures[name.format(8192)]["holds"], False)
        self.assertIsNone(figures[name.format(512)]["target"])

    def test_tests_that_all_leave_themselves_out_do_not_pass(self) -> None:
        for name, said in (
            ("a_cuda_test", "[  PASSED  ] 3 tests.\\n[  SKIPPED ] 2 tests"),
            ("b_cuda_test", "[  PASSED  ] 0 tests.\\n[  SKIPPED ] 2 tests"),
            ("lossless_test", "[  PASSED  ] 1 test."),
        ):
            path = self.build / name
            path.write_text(f"#!/bin/sh\nprintf '{said}'\n")
            path.chmod(0o755)
        measure_cuda.measure_tests(self.rec)
        holds = {name.split(":")[0]: figure["holds"] for name, figure in self.figures().items()}
        self.assertEqual(
            holds, {"a_cuda_test": True, "b_cuda_test": False, "lossless_test on one GPU": True}
        )
        self.gpus(2)
        self.rec.figures.clear()
        measure_cuda.measure_tests(self.rec)
        commands = [figure["command"] for name, figure in self.figures().items() if "loss" in name]
        self.assertEqual(
            commands,
            [
                "FORERUN_TEST_DEVICES=cuda:0 lossless_test",
                "FORERUN_TEST_DEVICES=cuda:0,cuda:1 lossless_test",
                "FORERUN_TEST_DEVICES=cuda:0 FORERUN_TEST_DRAFT_DEVICES=cuda:1 lossless_test "
                "--gtest_filter=*Concurrent*",
            ],
        )
        self.gpus(8)
        self.rec.figures.clear()
        measure_cuda.measure_tests(self.rec)
        self.assertEqual(
            [name.split(":")[0] for name in self.figures() if "group" in name],
            [
                "lossless_test on a group of two",
                "lossless_test on a group of three",
                "lossless_test on a group of four",
            ],
        )

    def test_sums_have_targets_on_four_gpus(self) -> None:
        self.gpus(4)
        self.program("linear_reduce_cuda_bench", [linear_line("70b-tp4-int4.o 8 rows + sum", 7.0)])
        measure_cuda.measure_sums(self.rec)
        self.assertTrue(self.figures()["70b-tp4-int4.o 8 rows + sum, 4 GPUs"]["holds"])

    def test_speculation_is_beside_plain_decoding_once_a_placement(self) -> None:
        self.gpus(4)
        row = {
            "temperature": 0.8,
            "tokens_per_s": 600.0,
            "tokens_per_step": 3.0,
            "step_ms": 5.0,
            "target_ms": 3.5,
            "draft_ms": 0.3,
            "draft_steps_per_step": 4.0,
            "identical": 1,
            "prompts": 1,
        }
        reply = {"workloads": {"code": [{**row, "strategy": "serial_tree"}]}}
        self.program("forerun", [reply])
        measure_cuda.measure_speculation(self.rec)
        found = self.figures()
        name = "70B int4 with 1B int4, serial_tree, best of 8, on 4, code, temperature 0.8"
        self.assertEqual(found[name]["target"], ">= 620")
        self.assertIn("outside of Steps 0.300", found[name]["note"])
        replayed = found[name + ", 3.3 tokens a step in its round time"]
        self.assertAlmostEqual(replayed["value"], 660.0)
        plain = [f for f in self.rec.figures if "autoregressive" in f["command"]]
        self.assertEqual(len({f["command"] for f in plain}), 3)  # 4, 3 + 1 and 2 + 2 GPUs
        self.rec.figures.clear()
        self.rec.args.shapes, self.rec.args.drafts = ["adaptive"], ["3B"]
        measure_cuda.measure_speculation(self.rec)
        names = [name for name in self.figures() if "written" not in name]
        self.assertTrue(names)
        for name in names:
            self.assertIn("with 3B int4, serial_tree, adaptive,", name)

    def test_attention_alone_has_targets_where_there_are_any(self) -> None:
        lines = [
            {
                "figure": f"attention alone {shape} {rows} rows, context {context}",
                "value": 5.5,
                "target": 1.4,
                "mode": "cluster",
            }
            for shape in ("70b-tp4", "8b")
            for rows in (1, 8)
            for context in (500, 1000, 32000)
        ]
        self.program("attention_cuda_bench", lines)
        measure_cuda.measure_attention(self.rec)
        found = self.figures()
        self.assertEqual(found["attention alone 70b-tp4 8 rows, context 500"]["target"], "<= 5")
        self.assertTrue(found["attention alone 70b-tp4 8 rows, context 1000"]["holds"])
        self.assertEqual(found["attention alone 8b 8 rows, context 32000"]["target"], "<= 2.0")
        self.assertIsNone(found["attention alone 8b 8 rows, context 500"]["target"])
        self.assertIsNone(found["attention alone 70b-tp4 1 rows, context 500"]["target"])

    def test_a_model_that_cannot_be_written_ends_nothing(self) -> None:
        self.made = None
        self.program("decoder_cuda_bench", [{"rows": 8, "ms": 1.0}])
        self.program("forerun", [])
        for section in ("forwards", "budget", "speculation"):
            measure_cuda.SECTIONS[section](self.rec)
        self.assertEqual(self.rec.figures, [])

    def test_models_are_those_of_the_tools(self) -> None:
        for model, runs in measure_cuda.FORWARDS:
            self.assertIn(model.shape, gpu_models.TITLES)
            self.assertIn(1, [count for count, _ in runs])


if __name__ == "__main__":
    unittest.main()
