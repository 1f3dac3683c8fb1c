"""`forerun plan` as a user runs it: real processes on configs, described GPUs and what is refused.

Usage: plan_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
FORERUN = ""

# Shapes of Llama-3.1-8B and Llama-3.2-1B.
LARGE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
}
SMALL = {
    **LARGE,
    "num_hidden_layers": 16,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "head_dim": 64,
    "tie_word_embeddings": True,
}


class PlanTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.large = self.write("8b.config.json", LARGE)
        self.small = self.write("1b.config.json", SMALL)

    def write(self, name, config):
        path = self.folder / name
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    def plan(self, *args, model=None, gpus="h200", batch="24", context="32000"):
        where = ["--gpus", gpus] if gpus else []
        return subprocess.run(
            [
                FORERUN,
                "plan",
                "--model",
                str(model or self.large),
                *where,
                "--batch",
                batch,
                "--context",
                context,
                *map(str, args),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def planned(self, *args, **kwargs):
        done = self.plan("--json", *args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, done, *said):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stdout, "")
        for words in said:
            self.assertIn(words, done.stderr)

    def test_ranks_every_setting_best_first(self):
        plan = self.planned("--draft", self.small, batch="32,1,8", context="2000,16000")
        self.assertEqual(
            [(p["batch"], p["context"]) for p in plan["plans"]],
            [(b, s) for b in (1, 8, 32) for s in (2000, 16000)],
        )
        self.assertEqual(
            {c["name"] for c in plan["candidates"]},
            {
                "self, snapkv 2049",
                "self, streaming_llm 512",
                "draft",
                "draft, streaming_llm 512",
                "self, snapkv 2049, checks draft",
                "self, streaming_llm 512, checks draft",
            },
        )
        for cell in plan["plans"]:
            self.assertTrue(cell["fits"])
            speeds = [each["speed_up"] for each in cell["ranked"]]
            self.assertEqual(speeds, sorted(speeds, reverse=True))
            plain = [each for each in cell["ranked"] if each["strategy"] == "autoregressive"]
            self.assertEqual(len(plain), 1)
            self.assertEqual(plain[0]["speed_up"], 1)
            for each in cell["ranked"]:
                # Equation 4, from what is printed; of a hierarchy a draft Step drafts several tokens.
                if each["gamma"] == 0:
                    continue
                steps = max(1, each["gamma"] / each["drafted_a_step"])
                total = (
                    steps * (each["draft_ms"] + each["guesses_ms"] + each["selection_ms"])
                    + each["verify_ms"]
                    + each["overhead_ms"]
                )
                self.assertAlmostEqual(
                    each["speed_up"], each["plain_ms"] * each["tokens_per_round"] / total, places=6
                )
                self.assertAlmostEqual(
                    each["tokens_per_s"],
                    1000 * cell["batch"] * each["tokens_per_round"] / total,
                    places=4,
                )

    def test_the_setting_of_the_papers_batch(self):
        plan = self.planned("--acceptance", "snapkv:2049=0.89", "--views", "snapkv")
        best = plan["plans"][0]["ranked"][0]
        self.assertEqual(best["candidate"], "self, snapkv 2049")
        self.assertGreater(best["speed_up"], 1.8)
        self.assertLess(best["speed_up"], 2.3)
        self.assertIn(best["gamma"], (4, 5, 6))
        two = self.planned("--views", "snapkv", gpus="h200:2")["plans"][0]["ranked"][0]
        self.assertGreater(two["tokens_per_s"], 1.5 * best["tokens_per_s"])

    def test_speculation_pays_from_a_critical_length_on(self):
        plan = self.planned(batch="4,16,64", context="1000,16000")
        lengths = [each["self_context"] for each in plan["critical_context"]]
        self.assertEqual(lengths, sorted(lengths, reverse=True))  # the larger the batch, the sooner
        for sequences, length in zip((4, 16, 64), lengths):
            for context, pays in ((length, True), (length - 1, False)):
                cell = self.planned(batch=str(sequences), context=str(context))["plans"][0]
                self.assertEqual(cell["ranked"][0]["strategy"] == "speculation", pays)
        inflection = plan["inflection_context"]
        gain = [
            cell["ranked"][0]["speed_up"]
            for cell in self.planned(batch="4,64", context=str(inflection))["plans"]
        ]
        self.assertGreaterEqual(gain[1], gain[0])

    def test_speculation_pays_no_further_than_the_memory(self):
        # 16 GB of weights and 128 KB a token and sequence.
        roomy, tight = (
            self.planned(batch="64", gpus=f"bandwidth=4000,tflops=989,memory={memory}")[
                "critical_context"
            ][0]
            for memory in (4000, 80)
        )
        self.assertEqual(roomy["longest_context"], LARGE["max_position_embeddings"])
        self.assertLess(tight["longest_context"], 10000)
        self.assertLessEqual(tight["self_context"] or 0, tight["longest_context"])

    def test_a_useless_draft_leaves_plain_decoding(self):
        plan = self.planned("--acceptance", "snapkv=0,streaming_llm=0")
        self.assertEqual(plan["plans"][0]["ranked"][0]["strategy"], "autoregressive")
        self.assertIsNone(plan["critical_context"][0]["context"])

    def test_text_names_assumptions_and_what_does_not_fit(self):
        done = self.plan("--acceptance", "snapkv=0.7", batch="8,200")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("self, snapkv 2049: acceptance 0.70 (given)", done.stdout)
        self.assertRegex(done.stdout, r"streaming_llm 512: acceptance 0\.83 \(MagicDec")
        self.assertIn("assumption", done.stdout)
        self.assertIn("measured on H200", done.stdout)
        self.assertIn("200 x 32000 tokens do not fit the memory", done.stdout)
        self.assertIn("speculation pays from", done.stdout)
        self.assertRegex(done.stdout, r"plain decoding +- +1\.00")
        every = self.plan("--all", batch="8")
        self.assertGreater(len(every.stdout.splitlines()), 20)

    def test_checkpoints_and_described_gpus(self):
        plan = self.planned(
            "--draft",
            DRAFT,
            model=TARGET,
            batch="16",
            context="7680",
            gpus="bandwidth=1000,tflops=165,memory=24",
        )
        self.assertEqual((plan["model"], plan["draft"]), ("demo-target", "demo-draft"))
        self.assertEqual(plan["machine"], "1 x as described")
        slow = self.planned(
            model=TARGET, batch="16", context="7680", gpus="bandwidth=500,tflops=165,memory=24"
        )
        rate = [p["plans"][0]["ranked"][-1]["plain_ms"] for p in (plan, slow)]
        self.assertGreater(rate[1], 1.5 * rate[0])

    def test_a_machine_at_hand_is_measured(self):
        cache = self.folder / "costs"
        plan = self.planned(
            "--draft",
            DRAFT,
            "--devices",
            "cpu",
            "--cost-cache",
            cache,
            "--budgets",
            256,
            model=TARGET,
            gpus=None,
            batch="1,4",
            context="300,2000",
        )
        self.assertTrue(plan["measured"])
        self.assertEqual(plan["machine"], "cpu")
        self.assertIn("now", plan["machine_note"])
        for cell in plan["plans"]:
            self.assertTrue(cell["fits"])
            self.assertGreater(cell["ranked"][0]["plain_ms"], 0)
        self.assertFalse(self.planned(model=TARGET, batch="1", context="300")["measured"])
        # Kept for the next plan, and for engines.
        self.assertTrue(any(cache.iterdir()))

    def test_a_view_in_place_takes_no_memory(self):
        cell = self.planned(batch="24", context="36000")["plans"][0]
        self.assertEqual(
            {each["candidate"] for each in cell["ranked"]},
            {"plain decoding", "self, streaming_llm 512"},
        )

    def test_the_surface_is_a_picture(self):
        path = self.folder / "surface.svg"
        done = self.plan("--svg", path, batch="1,4,16,64", context="500,2000,8000,64000")
        self.assertEqual(done.returncode, 0, done.stderr)
        name = "{http://www.w3.org/2000/svg}"
        picture = ET.parse(path).getroot()
        width, height = float(picture.get("width")), float(picture.get("height"))
        for each in picture.iter(f"{name}rect"):
            if each.get("width") == "100%":
                continue
            self.assertLessEqual(float(each.get("x")) + float(each.get("width")), width)
            self.assertLessEqual(float(each.get("y")) + float(each.get("height")), height)
        boxes = [p.get("d") for p in picture.iter(f"{name}path") if p.get("fill") != "none"]
        corners = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)", " ".join(boxes))
        self.assertGreater(len(corners), 40)  # one a row of the map at least
        for left, top, across, down in corners:
            self.assertLessEqual(float(left) + float(across), width)
            self.assertLessEqual(float(top) + float(down), height)
        # The line of 1.0, thick, crosses the map from left to right.
        thick = [p for p in picture.iter(f"{name}path") if p.get("stroke-width") == "2.5"]
        self.assertEqual(len(thick), 1)
        across = [
            float(point.split(" ")[0])
            for point in thick[0].get("d").replace("L", "M").split("M")
            if point
        ]
        self.assertGreater(max(across) - min(across), 300)
        loads = [g for g in picture.iter(f"{name}g") if g.get("class") == "load"]
        self.assertEqual(len(loads), 16)
        tips = [g.find(f"{name}title").text for g in loads]
        self.assertTrue(any("do not fit" in tip for tip in tips), tips)
        self.assertTrue(any("plain" in tip for tip in tips), tips)
        self.assertTrue(any("snapkv" in tip for tip in tips), tips)
        words = " ".join(t.text or "" for t in picture.iter(f"{name}text"))
        for word in (
            "speed-up",
            "sequences in the batch",
            "64k",
            "not enough memory",
            "times as fast",
        ):
            self.assertIn(word, words)

    def test_one_load_is_a_picture_too(self):
        path = self.folder / "one.svg"
        self.assertEqual(self.plan("--svg", path).returncode, 0)
        ET.parse(path)

    def test_refuses_with_what_is_accepted(self):
        self.refused(self.plan(gpus="h300"), '"h300"', "h200, h100")
        self.refused(self.plan(gpus="h200:9"), "1 to 8")
        self.refused(self.plan(gpus="bandwidth=3000"), "all three")
        self.refused(self.plan(gpus=None), "--gpus, --devices", "neither")
        self.refused(self.plan("--devices", "cpu"), "--gpus, --devices", "both")
        self.refused(
            self.plan("--draft", self.small, "--draft-devices", "cuda:1"),
            "--draft-devices",
            "cuda:1",
            "--devices",
        )
        self.refused(
            self.plan("--devices", "tpu:0", gpus=None, model=TARGET, context="500", batch="1"),
            "tpu:0",
        )
        self.refused(self.plan("--devices", "cpu", gpus=None), "8b.config.json")
        self.refused(self.plan(batch="0"), "--batch", '"0"', "from 1")
        self.refused(self.plan(batch="many"), "--batch", "many")
        self.refused(self.plan(context="200000"), "--context", "200000", "131072")
        self.refused(self.plan("--budgets", "32000"), "--budgets", "32000", "below that")
        self.refused(self.plan("--budgets", "16"), "--budgets", "16", "streaming_llm: at least 192")
        self.refused(self.plan("--views", "window"), "--views", "window", "streaming_llm")
        self.refused(self.plan("--acceptance", "snapkv=2"), "--acceptance", "from 0 to 1")
        self.refused(self.plan("--acceptance", "draft=0.5"), "give --draft")
        self.refused(self.plan(model=self.folder), "config.json")
        self.refused(self.plan(model=self.folder / "none"), "no such directory")
        broken = self.folder / "broken.json"
        broken.write_text("{", encoding="utf-8")
        self.refused(self.plan(model=broken), "broken.json", "JSON")
        windowed = self.write(
            "windowed.json",
            {
                **LARGE,
                "architectures": ["MistralForCausalLM"],
                "model_type": "mistral",
                "sliding_window": 4096,
            },
        )
        self.refused(self.plan(model=windowed), "--model", "window of 4096")
        self.refused(self.plan("--svg", self.folder / "no" / "such.svg"), "--svg", "no/such.svg")

    def test_flags_that_make_no_sense_are_told_apart(self):
        self.assertEqual(self.plan("--max-guesses", 0).returncode, 2)
        self.assertEqual(self.plan("--overhead-ms", -1).returncode, 2)


if __name__ == "__main__":
    FORERUN = sys.argv.pop(1)
    unittest.main()
