"""What the measuring scripts compute without a GPU.

example: python3 -m unittest discover -s bench/tests
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import draw_timelines  # noqa: E402
import gpu_models  # noqa: E402
import gpu_speculation  # noqa: E402
import measure_cuda  # noqa: E402
import plot_cuda  # noqa: E402
import recorder  # noqa: E402
from gpu_models import GpuModel  # noqa: E402


def recorder_for(build: str) -> recorder.Recorder:
    return recorder.Recorder(argparse.Namespace(build=build, models=build, keep=False))


class MeasuringTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        quiet = contextlib.redirect_stdout(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def test_a_turn_that_loses_its_processor_is_no_quiet_one(self) -> None:
        def turn(begin_ms: float, ms: float, cpu_ms: float) -> dict:
            return {
                "ph": "X",
                "name": "after draft",
                "ts": 1e3 * begin_ms,
                "dur": 1e3 * ms,
                "args": {"cpu_ns": 1e6 * cpu_ms},
            }

        step = {"ph": "X", "name": "8 rows", "ts": 2e3, "dur": 9e3, "args": {}}
        trace = {"traceEvents": [turn(1, 3.0, 2.9), step, turn(5, 2.5, 0.1), turn(99, 7.0, 0.1)]}
        self.assertAlmostEqual(draw_timelines.lost_ms(trace, 0, 50), 2.4)
        self.assertAlmostEqual(draw_timelines.lost_ms(trace, 0, 4), 0.1)  # none but the first

    def test_floors_are_the_bytes_of_published_models(self) -> None:
        for model, gigabytes in (
            (GpuModel("llama-3-70b", "int4"), 37.66),
            (GpuModel("llama-3.1-8b", "bf16"), 15.01),
            (GpuModel("llama-3.2-1b", "int4"), 1.03),
        ):
            self.assertAlmostEqual(model.weight_bytes() / 1e9, gigabytes, places=2)
        whole, quarter = GpuModel("llama-3-70b", "int4"), GpuModel("llama-3-70b", "int4", share=4)
        self.assertAlmostEqual(quarter.floor_ms(), whole.floor_ms(4))

    def test_models_are_removed_whatever_happens(self) -> None:
        rec = recorder_for(str(self.scratch))
        model, draft = (
            GpuModel("llama-3.2-1b", "int4"),
            GpuModel("llama-3.2-1b", "int4", draft=True),
        )
        made: list[Path] = []

        def make(command: list[str]) -> str | None:
            made.append(Path(command[command.index("--out") + 1]))
            made[-1].mkdir(parents=True)
            return "" if len(made) < 4 else None

        rec.attempt = make  # type: ignore[method-assign]
        with self.assertRaises(KeyError), gpu_models.on_disk(rec, model, draft) as paths:
            self.assertEqual(paths, made)
            self.assertTrue(all(path.exists() for path in made))
            raise KeyError
        self.assertEqual(len(made), 2)
        with self.assertRaises(gpu_models.NotMadeError), gpu_models.on_disk(rec, model, draft):
            self.fail("the second could not be made")
        self.assertEqual(len(made), 4)
        rec.args.keep = True
        made.clear()
        for _ in range(2):
            with gpu_models.on_disk(rec, model) as (path,):
                (path / "config.json").touch()
        self.assertEqual(made, [path])  # the second time it was there
        self.assertTrue(path.exists())
        shutil.rmtree(path)
        self.assertFalse(any(path.exists() for path in made))

    def test_placements_use_every_gpu_once(self) -> None:
        for count in range(1, 9):
            kinds = gpu_speculation.placements(count)
            self.assertEqual(kinds[0][0], "serial_tree")
            used = [f"cuda:{n}" for n in range(min(count, 4))]
            self.assertEqual(kinds[0][1][1::2], [",".join(used), "cuda:0"])  # in turn
            for _, flags in kinds[1:]:
                self.assertEqual(sorted(",".join(flags[1::2]).split(",")), used)
        self.assertEqual(len(gpu_speculation.placements(4)), 3)

    def test_what_fails_is_noted_and_ends_nothing(self) -> None:
        rec = recorder_for(str(self.scratch))
        self.assertIsNone(rec.attempt([sys.executable, "-c", "raise SystemExit('no such model')"]))
        self.assertIsNone(rec.attempt([str(self.scratch / "nothing")]))
        self.assertIsNone(rec.program("decoder_cuda_bench"))
        self.assertEqual(len(rec.failed), 3)
        self.assertIn("no such model", rec.failed[0]["said"])
        program = self.scratch / "deep" / "decoder_cuda_bench"
        program.parent.mkdir()
        (self.scratch / "a" / "decoder_cuda_bench").mkdir(parents=True)  # a folder is no program
        program.write_text("#!/bin/sh\necho $ROWS\n")
        program.chmod(0o755)
        self.assertEqual(rec.program("decoder_cuda_bench"), program.resolve())
        self.assertEqual(rec.attempt([str(program)], {"ROWS": "8"}), "8\n")

    def test_time_that_has_run_out_leaves_the_rest_out(self) -> None:
        rec = recorder.Recorder(argparse.Namespace(), until=0.0)
        self.assertIsNone(rec.attempt(["true"]))
        self.assertIn("no time left", rec.failed[0]["said"])
        rec = recorder.Recorder(argparse.Namespace(), until=time.monotonic() + 2.2)
        self.assertIsNone(rec.attempt(["/bin/sleep", "60"]))
        self.assertIn("timed out after", rec.failed[0]["said"])
        self.assertFalse(rec.failed[0]["command"].startswith("/"))  # nobody else's folders

    def test_figures_say_how_far_above_the_floor(self) -> None:
        rec = recorder_for("")
        rec.add("a forward", 3.0, "ms", "bench", at_most=3.4, floor=2.0)
        rec.add("another", 3.5, "ms", "bench", at_most=3.4)
        self.assertEqual(rec.figures[0]["over_floor"], 1.5)
        self.assertEqual([f["holds"] for f in rec.figures], [True, False])
        self.assertNotIn("floor", rec.figures[1])

    def test_visible_gpus_count(self) -> None:
        smi = self.scratch / "nvidia-smi"
        smi.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.1'\necho 'NVIDIA H200, 580.1'\n")
        smi.chmod(0o755)
        path = f"{self.scratch}:{os.environ['PATH']}"
        with mock.patch.dict(os.environ, {"PATH": path}):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            self.assertEqual(len(recorder.gpus()), 2)
        with mock.patch.dict(os.environ, {"PATH": path, "CUDA_VISIBLE_DEVICES": "1"}):
            self.assertEqual(recorder.gpus(), ["NVIDIA H200, 580.1"])

    def test_the_kernels_of_attention_are_one_part_of_a_layer(self) -> None:
        lines = [
            {"context": 1000, "ms": 1.0},
            *(
                {"context": 1000, "part": part, "us_a_layer": us}
                for part, us in (
                    ("QKV", 7.0),
                    ("attention_prefill_kernel", 15.5),
                    ("attention_kernel", 12.0),
                )
            ),
        ]
        self.assertEqual(
            measure_cuda.parts_of_a_layer(lines), {(1000, "QKV"): 7.0, (1000, "attention"): 27.5}
        )

    def test_the_plot_has_a_bar_a_forward(self) -> None:
        rows = [
            {"model": model, "gpus": gpus, "rows": count, "ms": 1.5 * count, "floor_ms": 1.0}
            for model, gpus in (("8B int4", 1), ("70B int4", 4))
            for count in (8, 1)
        ]
        picture = ET.fromstring(plot_cuda.drawing(rows, "H200"))
        tips = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(len(tips), 4)
        self.assertIn(
            "| 70B int4 | 4 | 1.00 | 1.50 (1.5x) | 12.00 (12.0x) |", plot_cuda.table(rows)
        )
        self.assertEqual(tips[0], "8B int4, 1 GPU, 1 rows: 1.500 ms, floor 1.000 ms, 1.50 times")

    def test_the_plot_takes_all_sections_of_forwards(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            path.write_text('{"forwards": {"a": 1}, "speculation": {}, "forwards, two GPUs": {}}')
            self.assertEqual(plot_cuda.forwards_of(path), [{"a": 1}, {}])

    def test_the_plot_takes_what_other_machines_measured_where_the_first_did_not(self) -> None:
        def forward(model: str, gpus: int, ms: float) -> dict:
            return {"model": model, "gpus": gpus, "rows": 8, "ms": ms, "floor_ms": 1.0}

        rows = plot_cuda.joined(
            [[forward("8B int4", 1, 1.5)], [forward("8B int4", 1, 2.5), forward("8B int4", 2, 3.5)]]
        )
        self.assertEqual([row["ms"] for row in rows], [1.5, 3.5])


if __name__ == "__main__":
    unittest.main()
