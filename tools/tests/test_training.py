"""Smoke test of train_pair.py and quantize_awq.py on a toy; skipped where torch is missing.

example: python3 -m unittest discover -s tools/tests -p 'test_training.py'
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

TOOLS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOOLS))

try:
    import torch
    import transformers  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest("needs torch and transformers") from error

import quantize_awq  # noqa: E402
import train_pair  # noqa: E402
from byte_bpe import ByteBpe  # noqa: E402
from reference_model import ReferenceModel  # noqa: E402

CONTEXT = 128


def write_corpus(folder: Path) -> None:
    """The tools' own sources as training text, one of them held out."""
    sources = sorted(TOOLS.glob("*.py"))
    text = train_pair.END_OF_TEXT.join(path.read_text(encoding="utf-8") for path in sources[1:])
    (folder / "train.txt").write_text(text, encoding="utf-8")
    (folder / "val_code.txt").write_text(sources[0].read_text(encoding="utf-8"), encoding="utf-8")


class TrainPairTest(unittest.TestCase):
    def test_trains_quantizes_and_reports(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            corpus, out = Path(scratch) / "corpus", Path(scratch) / "pair"
            corpus.mkdir()
            write_corpus(corpus)
            command = [
                "train_pair.py",
                str(corpus),
                str(out),
                "--vocab",
                "512",
                "--max-steps",
                "40",
                "--batch-tokens",
                "1024",
                "--target",
                "128,256,2,2,1",
                "--draft",
                "128,128,1,2,1",
                "--context",
                str(CONTEXT),
                "--long-context",
                "256",
                "--distill",
                "0.5",
            ]
            with mock.patch.object(sys, "argv", command):
                self.assertEqual(train_pair.main(), 0)
            report = json.loads((out / "report.json").read_text(encoding="utf-8"))
            loss = report["code"]["loss"]
            self.assertLess(loss["target bf16"], np.log(512) - 0.3)
            self.assertLess(abs(loss["target int4"] - loss["target bf16"]), 0.1)

            # The packed files hold what torch evaluated, as an independent reader sees them.
            ids = ByteBpe(out / "tokenizer.json").encode(
                (corpus / "val_code.txt").read_text(encoding="utf-8")
            )
            model = ReferenceModel(out / "target").keep_layers()
            nll, count = 0.0, 0
            for at in range(0, min(len(ids) // CONTEXT, 128) * CONTEXT, CONTEXT):
                row = np.asarray(ids[at : at + CONTEXT])
                logits = model.logits(row).astype(np.float64)[:-1]
                top = logits.max(axis=-1)
                norm = top + np.log(np.exp(logits - top[:, None]).sum(axis=-1))
                nll += float((norm - logits[np.arange(len(row) - 1), row[1:]]).sum())
                count += len(row) - 1
            self.assertLess(abs(nll / count - loss["target int4"]), 0.02)


class ScaleSearchTest(unittest.TestCase):
    def test_beats_plain_rounding_where_channels_stand_out(self) -> None:
        torch.manual_seed(0)
        shape = train_pair.Shape(128, 256, 2, 4, 2)
        plain = train_pair.new_model(shape, 320, 256).eval()
        with torch.no_grad():
            for layer in plain.model.layers:
                for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                    norm.weight[::17] *= 30
        scaled = train_pair.new_model(shape, 320, 256).eval()
        scaled.load_state_dict(plain.state_dict())
        batches = list(torch.randint(0, 320, (8, 64)).split(4))
        probe = torch.randint(0, 320, (4, 64))
        with torch.no_grad():
            wanted = plain(probe).logits
            quantize_awq.quantize_model(scaled, batches, 128)
            for name, module in plain.named_modules():
                if isinstance(module, torch.nn.Linear) and name != "lm_head":
                    module.weight.copy_(quantize_awq.round_to_int4(module.weight, 128).dequantize())
            error = {
                name: (model(probe).logits - wanted).square().mean().item()
                for name, model in (("plain", plain), ("scaled", scaled))
            }
        self.assertLess(error["scaled"], 0.6 * error["plain"])


if __name__ == "__main__":
    unittest.main()
