"""`forerun bench`: its table and JSON, many requests at once, and loads that make no sense.

Usage: bench_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import tempfile
from pathlib import Path

import process
from process import DRAFT, ROOT, TARGET, run


class Bench(process.CommandLine):
    def test_bench_table_and_json(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bench.json"
            done = run(
                "bench",
                "--model",
                TARGET,
                "--draft",
                DRAFT,
                "--prompts",
                ROOT / "bench/workloads/code.jsonl",
                "--limit",
                1,
                "--repeat",
                1,
                "--max-tokens",
                16,
                "--strategies",
                "autoregressive,serial_tree",
                "--temperatures",
                "0,0.8",
                "--json",
                out,
            )
            self.succeeded(done)
            rows = json.loads(out.read_text())["workloads"]["code"]
        self.assertEqual(len(rows), 4)
        self.assertTrue(all(row["identical"] == 1 for row in rows))

    def test_what_steps_cost_is_measured_once(self):
        def report(*args):
            done = run(
                "bench",
                "--model",
                TARGET,
                "--prompts",
                ROOT / "bench/workloads/code.jsonl",
                "--limit",
                1,
                "--repeat",
                1,
                "--max-tokens",
                4,
                "--strategies",
                "autoregressive",
                "--temperatures",
                0,
                "--context",
                2000,
                *args,
            )
            self.succeeded(done)
            return done.stdout

        read = "as measured by an earlier start"
        folder = Path(process.HOME.name) / "forerun" / "step-costs"
        before = len(list(folder.glob("*.json"))) if folder.exists() else 0
        self.assertNotIn(read, report("--cost-cache", "off"))
        self.assertFalse(folder.exists() and len(list(folder.glob("*.json"))) > before)
        self.assertNotIn(read, report())
        self.assertEqual(len(list(folder.glob("*.json"))), before + 1)
        # A start in a quieter moment measures again.
        self.assertTrue(any(read in report() for _ in range(5)))
        self.assertNotIn(read, report("--measure-anew"))

    def bench_load(self, *args):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bench.json"
            done = run(
                "bench",
                "--model",
                TARGET,
                "--draft",
                DRAFT,
                "--prompts",
                ROOT / "bench/workloads/code.jsonl",
                "--warmup",
                0,
                "--json",
                out,
                *args,
            )
            self.succeeded(done)
            return json.loads(out.read_text()), done.stdout

    def test_bench_of_many_requests(self):
        record, table = self.bench_load(
            "--concurrency",
            "1,3",
            "--requests",
            6,
            "--arrivals",
            "poisson:200",
            "--max-tokens",
            8,
            "--prompt-tokens",
            40,
            "--strategies",
            "autoregressive,serial_tree",
            "--temperatures",
            "0,0.8",
            "--shape",
            "chain",
            "--compare",
            "--host-time",
        )
        rows = record["workloads"]["code"]
        self.assertEqual(
            [(row["temperature"] > 0, row["concurrency"], row["strategy"]) for row in rows],
            [
                (hot, limit, strategy)
                for hot in (False, True)
                for limit in (1, 3)
                for strategy in ("autoregressive", "serial_tree")
            ],
        )
        for row in rows:
            self.assertEqual(row["identical"], 6)
            self.assertEqual(row["prompt_tokens"], 6 * 40)
            self.assertEqual(row["output_tokens"], 6 * 8)
            for times in ("time_to_first_token_ms", "between_tokens_ms", "between_events_ms"):
                self.assertLessEqual(row[times]["p50"], row[times]["p99"])
                self.assertLessEqual(row[times]["p99"], row[times]["max"])
                self.assertGreater(row[times]["max"], 0)
            self.assertGreaterEqual(row["results"], row["output_tokens"] / row["tokens_per_step"])
            self.assertEqual(row["acceptance"] > 0, row["strategy"] == "serial_tree")
        self.assertEqual(record["arrivals"], "poisson:200")
        self.assertEqual(table.count("6/6"), len(rows))

    def test_bench_compares_although_nobody_decodes_plainly(self):
        record, _ = self.bench_load(
            "--concurrency",
            "2",
            "--max-tokens",
            6,
            "--strategies",
            "serial_tree",
            "--temperatures",
            "0.8",
            "--compare",
        )
        self.assertEqual(record["workloads"]["code"][0]["identical"], 2)
        self.assertEqual(record["arrivals"], "all")

    def test_bench_of_a_long_prompt_among_requests_that_decode(self):
        record, _ = self.bench_load(
            "--requests",
            2,
            "--prompt-tokens",
            16,
            "--long-prompt",
            1500,
            "--max-tokens",
            1000,
            "--strategies",
            "autoregressive",
            "--temperatures",
            0,
        )
        (row,) = record["workloads"]["code"]
        self.assertEqual((row["requests"], row["long_prompt_tokens"]), (2, 1500))
        # At least the times that were running when the prompt came and when it had been read.
        self.assertGreaterEqual(row["tokens_during"], 2)
        self.assertGreater(row["during_between_tokens_ms"]["max"], 0)
        self.assertGreater(row["cancel_ms"], 0)
        self.assertGreater(record["destroy_ms"], 0)

    def test_a_prompt_is_not_read_twice(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bench.json"
            prompts = Path(folder) / "long.jsonl"
            prompts.write_text(json.dumps({"prompt": "x = 1\n" * 200}) + "\n")
            first_ms = []
            for extra in ([], ["--reuse-prompts"]):
                done = run(
                    "bench",
                    "--model",
                    TARGET,
                    "--prompts",
                    prompts,
                    "--repeat",
                    1,
                    "--max-tokens",
                    4,
                    "--strategies",
                    "autoregressive",
                    "--temperatures",
                    "0",
                    "--json",
                    out,
                    *extra,
                )
                self.succeeded(done)
                first_ms.append(
                    json.loads(out.read_text())["workloads"]["long"][0]["time_to_first_token_ms"]
                )
            self.assertGreater(first_ms[0], 2 * first_ms[1])

    def test_loads_that_make_no_sense(self):
        def bench(*args):
            return run(
                "bench", "--model", TARGET, "--prompts", ROOT / "bench/workloads/code.jsonl", *args
            )

        self.refused(bench("--requests", 0), "--requests", "found 0", "1 to 1000000")
        self.refused(bench("--requests", -5), "--requests", "found -5")
        self.refused(bench("--concurrency", "4,0"), "--concurrency", "found 0")
        self.refused(bench("--requests", 2, "--prompt-tokens", 0), "--prompt-tokens", "found 0")
        self.refused(bench("--requests", 2, "--max-tokens", -1), "--max-tokens", "found -1")
        self.refused(bench("--requests", 2, "--repeat", 0), "--repeat", "found 0")
        for flag, least in (("--repeat", 1), ("--warmup", 0), ("--limit", 0)):
            self.refused(bench(flag, least - 1), flag, f"found {least - 1}", f"{least} to 1000000")
            self.refused(bench(flag, -7), flag, "found -7")
        for arrivals in ("poisson:-1", "poisson:0", "poisson", "every:x", "sometimes"):
            self.refused(
                bench("--requests", 2, "--arrivals", arrivals),
                f"'{arrivals}'",
                "poisson:REQUESTS_PER_SECOND",
            )
        self.refused(bench("--arrivals", "all"), "--arrivals", "--requests")
        self.refused(bench("--compare"), "--compare", "--requests")
        self.refused(bench("--long-prompt", 9, "--concurrency", 2), "--long-prompt", "--requests")
        self.refused(
            bench(
                "--long-prompt",
                9,
                "--requests",
                2,
                "--prompts",
                ROOT / "bench/workloads/prose.jsonl",
            ),
            "--long-prompt",
            "2 files",
        )
        self.refused(bench("--requests", 2, "--prompt-tokens", 9000), "9000 tokens", "8192")
        self.refused(
            bench("--requests", 2, "--prompt-tokens", 16, "--long-prompt", 9000),
            "9000 tokens",
            "8192",
        )


if __name__ == "__main__":
    process.main()
