"""GGUF files hold the checkpoint's weights; skipped where the gguf package is missing.

example: python3 -m unittest discover -s tools/tests -p 'test_to_gguf.py'
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

TOOLS = Path(__file__).resolve().parents[1]
TARGET = TOOLS.parent / "models" / "demo-target"
DRAFT = TOOLS.parent / "models" / "demo-draft"
sys.path.insert(0, str(TOOLS))

try:
    import gguf
except ImportError as error:
    raise unittest.SkipTest("needs the gguf package") from error

import to_gguf  # noqa: E402
from reference_model import ReferenceModel  # noqa: E402


def read(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a GGUF file as f32."""
    return {
        t.name: gguf.dequantize(t.data, t.tensor_type).reshape(tuple(reversed(t.shape.tolist())))
        for t in gguf.GGUFReader(path).tensors
    }


class ToGgufTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name) / "model.gguf"

    def test_awq_becomes_q4_1_with_only_the_minimum_rounded(self) -> None:
        to_gguf.convert(TARGET, self.path)
        tensors = read(self.path)
        model = ReferenceModel(TARGET)
        layer = model.layer(3)
        up = tensors["blk.3.ffn_up.weight"]
        step = 15 * np.abs(layer["mlp.up_proj"]).max() / 7  # no scale is larger than this over 15
        self.assertLess(np.abs(up - layer["mlp.up_proj"]).max(), step * 2.0**-11)
        # llama.cpp pairs dimensions 2j and 2j + 1 of a head where Hugging Face pairs j and j + 32.
        q = tensors["blk.3.attn_q.weight"].reshape(8, 32, 2, 512)
        wanted = layer["self_attn.q_proj"].reshape(8, 2, 32, 512)
        np.testing.assert_allclose(q.swapaxes(1, 2), wanted, atol=1e-3)
        embedding = model.checkpoint.float32("model.embed_tokens.weight")
        np.testing.assert_array_equal(tensors["token_embd.weight"], embedding)

    def test_bf16_keeps_its_bits(self) -> None:
        to_gguf.convert(DRAFT, self.path)
        tensors = read(self.path)
        layer = ReferenceModel(DRAFT).layer(1)
        np.testing.assert_array_equal(tensors["blk.1.ffn_down.weight"], layer["mlp.down_proj"])
        np.testing.assert_array_equal(tensors["blk.1.attn_norm.weight"], layer["input_layernorm"])
        rows = tensors["blk.1.attn_k.weight"].reshape(32, 2, 192).swapaxes(0, 1).reshape(64, 192)
        np.testing.assert_array_equal(rows, layer["self_attn.k_proj"])

    def test_refuses_a_sliding_window(self) -> None:
        window = TOOLS.parent / "tests" / "goldens" / "mistral-window"
        with self.assertRaisesRegex(ValueError, "sliding window of 32"):
            to_gguf.convert(window, self.path)


if __name__ == "__main__":
    unittest.main()
