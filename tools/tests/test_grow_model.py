"""Grown checkpoints compute the small model's function; needs numpy only.

example: python3 -m unittest discover -s tools/tests -p 'test_grow_model.py'
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

TOOLS = Path(__file__).resolve().parents[1]
TARGET = TOOLS.parent / "models" / "demo-target"
DRAFT = TOOLS.parent / "models" / "demo-draft"
sys.path.insert(0, str(TOOLS))

import awq_format  # noqa: E402
from byte_bpe import ByteBpe  # noqa: E402
from grow_model import grow  # noqa: E402
from growth_maps import growth_maps  # noqa: E402
from model_shapes import PUBLISHED, ModelShape, shape_named  # noqa: E402
from reference_model import ReferenceModel, round_to_bf16  # noqa: E402
from safetensors_io import Checkpoint  # noqa: E402

POSITIONS = 1000


@functools.cache
def token_ids() -> np.ndarray:
    """Text of the models' domain, Python: one of the tools."""
    text = (TOOLS / "reference_model.py").read_text(encoding="utf-8")
    return np.asarray(ByteBpe(TARGET / "tokenizer.json").encode(text)[:POSITIONS])


@functools.cache
def small_choice(directory: Path, bf16_weights: bool) -> np.ndarray:
    return ReferenceModel(directory, bf16_weights).logits(token_ids()).argmax(axis=-1)


class GrowTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.out = Path(scratch.name) / "grown"

    def agreement(self, source: Path, shape: ModelShape, int4: bool, noise: float = 0.0) -> int:
        """Positions of POSITIONS where grown and small model choose the same token."""
        grow(source, self.out, shape, int4, noise=noise, max_shard_bytes=64 << 20)
        model = ReferenceModel(self.out)
        logits = model.logits(token_ids())
        choice = logits.argmax(axis=-1)
        live = Checkpoint(source).config["vocab_size"]
        if live < shape.vocab_size:
            # No temperature in use draws an id that has no token.
            self.assertLess(logits[:, live:].max(), logits[:, :live].min() - 100)
        self.assertEqual(len(choice), POSITIONS)
        return int((choice == small_choice(source, not int4)).sum())

    def test_int4_is_equal_where_rescaling_is_a_power_of_two(self) -> None:
        shape = ModelShape("llama", 2048, 1536, 11, 12, 4, 64, 8320, True)
        self.assertEqual(self.agreement(TARGET, shape, int4=True), POSITIONS)
        # Nibbles, zero points and scales of live weights are the source's own, bit for bit.
        small, large = Checkpoint(TARGET), Checkpoint(self.out)
        maps = growth_maps(ModelShape.from_config(small.config, "small"), shape)
        rows = np.flatnonzero(maps.query >= 0)
        name = "model.layers.0.self_attn.q_proj"

        def unpacked(checkpoint: Checkpoint) -> awq_format.AwqLinear:
            parts = (checkpoint.raw(f"{name}.{p}") for p in ("qweight", "qzeros", "scales"))
            return awq_format.unpack(*parts)

        was, now = unpacked(small), unpacked(large)
        np.testing.assert_array_equal(now.q[:512, rows], was.q[:, maps.query[rows]])
        np.testing.assert_array_equal(now.zeros[:4, rows], was.zeros[:, maps.query[rows]])
        np.testing.assert_array_equal(now.scales[:4, rows], was.scales[:, maps.query[rows]])
        # What is filled is random nibbles under zero scales.
        self.assertEqual(np.abs(now.scales[4:]).max(), 0)
        counts = np.bincount(now.q[512:].ravel(), minlength=16) / now.q[512:].size
        self.assertLess(np.abs(counts - 1 / 16).max(), 0.01)

    def test_bf16_is_equal_where_rescaling_is_a_power_of_two(self) -> None:
        shape = ModelShape("llama", 2048, 1536, 11, 12, 4, 64, 8320, False)
        self.assertEqual(self.agreement(TARGET, shape, int4=False), POSITIONS)
        self.assertGreater(len(list(self.out.glob("*.safetensors"))), 1)

    def test_int4_with_wider_heads_and_an_odd_ratio(self) -> None:
        shape = ModelShape("llama", 1024, 1536, 12, 8, 4, 128, 8320, True)
        self.assertGreaterEqual(self.agreement(TARGET, shape, int4=True), 0.99 * POSITIONS)

    def test_bf16_with_wider_heads(self) -> None:
        shape = ModelShape("llama", 768, 640, 4, 8, 2, 128, 8192, True)
        self.assertGreaterEqual(self.agreement(DRAFT, shape, int4=False), 0.995 * POSITIONS)

    def test_bf16_draft_is_equal_in_a_wider_group(self) -> None:
        shape = ModelShape("llama", 768, 640, 5, 8, 2, 64, 8192, True)
        self.assertEqual(self.agreement(DRAFT, shape, int4=False), POSITIONS)

    def test_bf16_draft_in_qwen2_shape(self) -> None:
        shape = ModelShape("qwen2", 1280, 768, 4, 10, 2, 128, 8448, False)
        self.assertGreaterEqual(self.agreement(DRAFT, shape, int4=False), 0.99 * POSITIONS)

    def test_int4_draft_is_its_rounded_self(self) -> None:
        """A width of 192 is every fourth channel: rounded anew, the rest exactly nothing."""
        shape = ModelShape("llama", 768, 640, 3, 8, 2, 64, 8192, True)
        self.assertGreater(self.agreement(DRAFT, shape, int4=True), 0.7 * POSITIONS)
        name = "model.layers.1.mlp.up_proj"
        padded = np.zeros((512, 768), dtype=np.float32)
        padded[:, ::4] = round_to_bf16(Checkpoint(DRAFT).float32(f"{name}.weight"))
        expected = awq_format.quantize(padded, 128).dequantize()
        grown = ReferenceModel(self.out).matrix(name)
        np.testing.assert_array_equal(grown[:512], expected)
        dead = np.arange(768) % 4 != 0
        self.assertEqual(np.abs(grown[:512, dead]).max(), 0)

    def test_noise_moves_the_choice_by_its_size(self) -> None:
        shape = ModelShape("llama", 768, 640, 5, 8, 2, 64, 8192, True)
        kept = []
        for noise in (0.003, 0.3):
            kept.append(self.agreement(DRAFT, shape, int4=False, noise=noise))
            for path in self.out.iterdir():
                path.unlink()
        self.assertLess(kept[1], kept[0])
        self.assertLess(kept[0], POSITIONS)
        self.assertGreater(kept[0], POSITIONS // 2)

    def test_refuses_what_does_not_fit(self) -> None:
        base = {
            "model_type": "llama",
            "hidden_size": 2048,
            "intermediate_size": 1536,
            "num_layers": 11,
            "num_heads": 12,
            "num_kv_heads": 4,
            "head_dim": 64,
            "vocab_size": 8320,
            "tied": True,
        }
        for change, message in (
            ({"hidden_size": 256}, "hidden channels"),
            ({"intermediate_size": 1024}, "FFN channels"),
            ({"num_layers": 9}, "layers"),
            ({"num_kv_heads": 2}, "KV heads"),
            ({"num_kv_heads": 12}, "query heads a KV head"),
            ({"head_dim": 32}, "dimensions a head"),
            ({"head_dim": 96}, "no multiple"),
            ({"vocab_size": 4096}, "vocabulary"),
        ):
            with self.subTest(**change), self.assertRaisesRegex(ValueError, message):
                grow(TARGET, self.out, ModelShape(**{**base, **change}), True)
        with self.assertRaisesRegex(ValueError, "neither"):
            shape_named("llama-9b")

    def test_config_says_what_lives(self) -> None:
        shape = ModelShape("llama", 768, 640, 3, 8, 2, 64, 9000, True)
        grow(DRAFT, self.out, shape, False)
        config = json.loads((self.out / "config.json").read_text(encoding="utf-8"))
        self.assertNotIn("live_vocab_size", config)
        self.assertEqual(config["vocab_size"], 9000)
        self.assertEqual(config["rms_norm_eps"], 1e-5 / 4)
        self.assertTrue((self.out / "tokenizer.json").is_file())
        # Unused columns of what writes the residual stream: random, near 2^-100, never zero.
        embedding = Checkpoint(self.out).float32("model.embed_tokens.weight")
        fill = embedding[:, 192:-1]
        self.assertGreaterEqual(np.abs(fill).min(), 2.0**-100)
        self.assertLess(np.abs(fill).max(), 2.0**-99)
        self.assertEqual(set(embedding[:8192, -1]), {2.0**-78})
        self.assertEqual(set(embedding[8192:, -1]), {-(2.0**12)})

    def test_a_shape_as_narrow_names_the_live_vocabulary_instead(self) -> None:
        shape = ModelShape("llama", 192, 640, 3, 8, 2, 64, 9000, True)
        grow(DRAFT, self.out, shape, False)
        self.assertEqual(Checkpoint(self.out).config["live_vocab_size"], 8192)

    def test_published_shapes_take_the_demo_pair(self) -> None:
        from growth_maps import check_fits

        for directory in (TARGET, DRAFT):
            small = ModelShape.from_config(Checkpoint(directory).config, str(directory))
            for shape in PUBLISHED.values():
                check_fits(small, shape, "default")


if __name__ == "__main__":
    unittest.main()
