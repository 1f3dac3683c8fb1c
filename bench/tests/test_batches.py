"""What measure_batches.py, llama_batched.py and plot_batches.py do with what programs tell them.

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
import xml.etree.ElementTree as ET
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import llama_batched  # noqa: E402
import measure_batches  # noqa: E402
import plot_batches  # noqa: E402
import recorder  # noqa: E402

TIMES = {"p50": 20.0, "p95": 25.0, "p99": 30.0, "max": 40.0, "mean": 21.0}


def our_row(requests: int = 16, tokens_per_s: float = 240.0) -> dict:
    return {
        "strategy": "autoregressive",
        "temperature": 0.0,
        "requests": requests,
        "tokens_per_s": tokens_per_s,
        "decoding_tokens_per_s": 2 * tokens_per_s,
        "time_to_first_token_ms": {**TIMES, "max": 900.0},
        "between_tokens_ms": TIMES,
        "between_events_ms": TIMES,
        "speed_up": 1.0,
        "tokens_per_step": 1.0,
        "acceptance": 0.0,
        "identical": requests,
    }


class BatchesTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        quiet = contextlib.redirect_stdout(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def program(self, name: str, script: str) -> str:
        path = self.scratch / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return str(path)

    def recorder(self, **flags: object) -> recorder.Recorder:
        parser = argparse.ArgumentParser()
        measure_batches.add_flags(parser)
        args = parser.parse_args(["--out", "x", "--threads", "2"])
        for name, value in {"models": str(self.scratch), **flags}.items():
            setattr(args, name, value)
        args.prepare(args)
        return recorder.Recorder(args)

    def test_a_cell_counts_the_token_that_a_prompt_gives(self) -> None:
        cell = llama_batched.LlamaCell(
            requests=4, steps=9, prompt_s=2.0, decoding_s=3.0, command=""
        )
        self.assertAlmostEqual(cell.tokens_per_s, 4 * 10 / 5.0)
        self.assertAlmostEqual(cell.decoding_tokens_per_s, 4 * 9 / 3.0)
        row = cell.row()
        self.assertAlmostEqual(row["between_tokens_ms"]["p50"], 1000 / 3)
        self.assertAlmostEqual(row["time_to_first_token_ms"]["max"], 2000)
        self.assertAlmostEqual(row["time_to_first_token_ms"]["p50"], 2000 * 5 / 8)

    def test_llama_cpp_is_asked_for_one_token_less_and_enough_context(self) -> None:
        log = self.scratch / "log"
        reply = json.dumps({"n_kv_max": 1, "t_pp": 1.5, "t_tg": 2.5})
        llama = self.program(
            "llama-batched-bench", f"echo \"$OMP_WAIT_POLICY $@\" >> {log}\necho 'noise {reply}'\n"
        )
        rec = self.recorder(llama=llama)
        cell = llama_batched.run_batched(rec, Path("/m/x.gguf"), 4, 200, 100)
        assert cell is not None
        self.assertEqual((cell.steps, cell.prompt_s, cell.decoding_s), (99, 1.5, 2.5))
        said = log.read_text().split()
        self.assertEqual(said[0], "active")
        for flag, value in (
            ("-npp", "200"),
            ("-ntg", "99"),
            ("-npl", "4"),
            ("-c", "2048"),
            ("-t", "2"),
        ):
            self.assertEqual(said[said.index(flag) + 1], value)
        self.assertNotIn(str(self.scratch), cell.command)  # nobody else's folders
        rec.args.devices = "cuda:0"
        cell = llama_batched.run_batched(rec, Path("/m/x.gguf"), 4, 200, 100)
        assert cell is not None
        self.assertIn("-ngl 999", cell.command)
        self.assertEqual(rec.failed, [])

    def test_llama_cpp_without_a_result_is_asked_again_then_noted(self) -> None:
        log = self.scratch / "log"
        rec = self.recorder(llama=self.program("llama", f"echo x >> {log}\n"))
        self.assertIsNone(llama_batched.run_batched(rec, Path("x.gguf"), 1, 2, 3))
        self.assertEqual(log.read_text(), "x\nx\n")
        self.assertEqual([f["said"] for f in rec.failed], ["no result, twice"])

    def test_both_are_measured_and_held_against_each_other(self) -> None:
        forerun = self.program(
            "forerun",
            "for last; do :; done\ncase $1 in\n"
            "inspect) echo '{\"kv_bytes_per_token_bf16\": 1024}';;\n"
            f"bench) echo '{json.dumps({'workloads': {'code': [our_row()]}})}' "
            "> $last;;\nesac\n",
        )
        llama = self.program("llama", 'echo \'{"n_kv_max": 1, "t_pp": 6.0, "t_tg": 4.24}\'\n')
        rec = self.recorder(forerun=forerun, llama=llama, requests=[16], repeat=2)
        target = measure_batches.Target("some int4", "int4")
        llama_cells = measure_batches._measure_cell(
            rec, target, [Path("m")], 16, {"q4_0": Path("a.gguf"), "q4_1": Path("b.gguf")}
        )
        self.assertEqual(set(llama_cells), {"q4_0", "q4_1"})
        self.assertEqual(
            [row["engine"] for row in rec.rows], ["forerun", "llama.cpp q4_0", "llama.cpp q4_1"]
        )
        ratio, decoding, median, last = rec.figures
        self.assertAlmostEqual(ratio["value"], 240 / (16 * 128 / 10.24))
        self.assertEqual((ratio["target"], ratio["holds"]), (">= 2.2", False))
        self.assertIsNone(decoding["target"])
        self.assertEqual((last["target"], last["holds"]), ("<= 1.0", True))  # 0.9 of 6 s
        self.assertIn("median", median["figure"])
        self.assertEqual(rec.failed, [])

    def test_memory_is_for_all_requests(self) -> None:
        forerun = self.program("forerun", "echo '{\"kv_bytes_per_token_bf16\": 16384}'\n")
        rec = self.recorder(forerun=forerun)
        models = [Path("a"), Path("b")]
        found = measure_batches.kv_memory(rec, models, [384] * 63 + [100])
        self.assertEqual(found[3], "448")  # a block of 64 to spare
        given = 10**6 * int(found[1].removesuffix("MB"))
        self.assertGreaterEqual(given, 2 * 16384 * (63 * 384 + 100))
        self.assertLess(given, 2 * 16384 * 64 * 512)

    def test_targets_by_name_and_device(self) -> None:
        titles = [t.title for t in measure_batches.targets(self.recorder())]
        self.assertEqual(titles, ["demo target bf16", "demo target int4", "1B bf16", "1B int4"])
        only = measure_batches.targets(self.recorder(only=["1B int4", "demo"]))
        self.assertEqual(
            [t.title for t in only], ["demo target bf16", "demo target int4", "1B int4"]
        )
        gpu = self.recorder(devices="cuda:0")
        self.assertEqual([t.title for t in measure_batches.targets(gpu)], ["8B bf16", "8B int4"])
        self.assertEqual((gpu.args.prompt_tokens, gpu.args.requests), (2000, [1, 8, 32, 128]))
        large = measure_batches.targets(self.recorder(only=["1B"]))[0]
        self.assertEqual(measure_batches.cell_tokens(self.recorder(), large, 16), (256, 128))
        self.assertEqual(measure_batches.cell_tokens(self.recorder(), large, 64), (64, 32))
        self.assertEqual(
            measure_batches.cell_tokens(self.recorder(full=True), large, 64), (256, 128)
        )

    def test_the_plot_has_a_line_an_engine_and_a_panel_a_figure(self) -> None:
        rows = [
            {
                "model": model,
                "engine": engine,
                "prompt": 256,
                "tokens": 128,
                **our_row(requests, 10.0 * requests),
            }
            for model in ("demo", "1B")
            for engine in ("llama.cpp q4_0", "forerun")
            for requests in (16, 1, 4)
        ]
        picture = ET.fromstring(plot_batches.drawing(rows, "machine"))
        name = "{http://www.w3.org/2000/svg}"
        lines = list(picture.iter(f"{name}polyline"))
        self.assertEqual(len(lines), 2 * 2 * 2)
        for line in lines:  # from left to right, whatever order they were measured in
            across = [float(point.split(",")[0]) for point in line.get("points", "").split()]
            self.assertEqual(across, sorted(across))
            self.assertEqual(len(across), 3)
        tips = [title.text for title in picture.iter(f"{name}title")]
        self.assertIn("forerun, 4 requests: 40.0", tips)
        self.assertIn("forerun, 4 requests: 20.0, p99 30.0", tips)
        self.assertEqual(len(plot_batches.table(rows).splitlines()), 2 + len(rows))

    def test_ticks_span_what_is_shown(self) -> None:
        self.assertEqual(plot_batches.ticks(3, 40), [2, 5, 10, 20, 50])
        self.assertEqual(plot_batches.ticks(5, 5), [5])
        for low, high in ((0.03, 0.04), (1, 1000), (999, 1001)):
            found = plot_batches.ticks(low, high)
            self.assertLessEqual(found[0], low)
            self.assertGreaterEqual(found[-1], high)


if __name__ == "__main__":
    unittest.main()
