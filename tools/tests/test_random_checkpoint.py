"""Random checkpoints, and the writer that grown ones share; needs numpy only.

example: python3 -m unittest discover -s tools/tests -p 'test_random_checkpoint.py'
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import checkpoint_writer  # noqa: E402
from model_shapes import PUBLISHED, ModelShape  # noqa: E402
from random_checkpoint import INT4_RMS, write_random  # noqa: E402
from reference_model import ReferenceModel  # noqa: E402
from safetensors_io import INDEX_NAME, Checkpoint  # noqa: E402

SHAPE = ModelShape("qwen2", 256, 512, 3, 4, 2, 64, 1000, False)


class RandomCheckpointTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.out = Path(scratch.name)

    def test_bytes_depend_neither_on_writers_nor_on_shards(self) -> None:
        for int4 in (False, True):
            with mock.patch.object(checkpoint_writer, "MOST_WRITERS", 1):
                write_random(self.out / f"one-{int4}", SHAPE, int4)
            write_random(self.out / f"many-{int4}", SHAPE, int4, max_shard_bytes=1 << 18)
            self.assertFalse((self.out / f"one-{int4}" / INDEX_NAME).exists())
            self.assertTrue((self.out / f"many-{int4}" / INDEX_NAME).exists())
            single, sharded = (Checkpoint(self.out / f"{kind}-{int4}") for kind in ("one", "many"))
            self.assertEqual(single.config, sharded.config)
            self.assertEqual(single.tensors.keys(), sharded.tensors.keys())
            for name in single.tensors:
                np.testing.assert_array_equal(single.raw(name), sharded.raw(name))

    def test_weights_are_random_and_of_usual_size(self) -> None:
        for int4, rms in ((False, 1.5275 / 64), (True, INT4_RMS)):
            write_random(self.out / str(int4), SHAPE, int4)
            model = ReferenceModel(self.out / str(int4))
            for part in ("mlp.down_proj", "self_attn.q_proj"):
                weight = model.matrix(f"model.layers.2.{part}")
                self.assertAlmostEqual(float(np.sqrt(np.mean(weight**2))), rms, delta=0.05 * rms)
                # Nibbles center on 7.5, the zero point is 8.
                self.assertLess(abs(float(weight.mean())), 0.15 * rms)
            logits = model.logits(np.arange(40))
            self.assertEqual(logits.shape, (40, 1000))
            self.assertTrue(np.isfinite(logits).all())
            self.assertGreater(len(set(logits.argmax(axis=-1))), 1)

    def test_a_head_is_one_layer_beside_its_features(self) -> None:
        shape = ModelShape("llama", 256, 512, 3, 4, 2, 64, 1000, False)
        for int4 in (False, True):
            write_random(self.out / f"head-{int4}", shape, int4, head=96)
        head = Checkpoint(self.out / "head-False")
        self.assertEqual(head.config["draft_vocab_size"], 96)
        self.assertEqual(head.raw("fc.weight").shape, (256, 768))
        self.assertEqual(head.raw("midlayer.self_attn.k_proj.weight").shape, (128, 512))
        self.assertEqual(head.raw("lm_head.weight").shape, (96, 256))
        tokens = head.raw("d2t") + np.arange(96)
        self.assertTrue((np.diff(tokens) > 0).all() and tokens[-1] < 1000)
        self.assertEqual(
            Checkpoint(self.out / "head-True").raw("midlayer.mlp.down_proj.qweight").shape,
            (512, 32),
        )
        with self.assertRaisesRegex(ValueError, "a head of 96 tokens for qwen2"):
            write_random(self.out / "none", SHAPE, False, head=96)

    def test_a_failed_block_is_an_error_and_no_hang(self) -> None:
        def blocks():
            yield np.zeros(3, dtype=np.uint16)
            raise ValueError("a block that cannot be made")

        tensors = [
            checkpoint_writer.planned(f"t{n}", "BF16", np.zeros(8, np.uint16)) for n in range(4)
        ]
        tensors.insert(2, checkpoint_writer.PlannedTensor("bad", "BF16", (6,), blocks))
        with self.assertRaisesRegex(ValueError, "cannot be made"):
            checkpoint_writer.write_checkpoint(self.out, tensors, max_shard_bytes=16)
        short = checkpoint_writer.PlannedTensor("short", "BF16", (6,), lambda: [np.zeros(4, "<u2")])
        with self.assertRaisesRegex(ValueError, "short: 8 bytes written, 12 announced"):
            checkpoint_writer.write_checkpoint(self.out, [short])

    def test_shares_add_up_to_the_whole(self) -> None:
        shape = PUBLISHED["llama-3-70b"]
        quarter = shape.share(4)
        self.assertEqual(quarter, ModelShape("llama", 8192, 7168, 80, 16, 2, 128, 32064, False))
        self.assertEqual(shape.share(1), shape)
        for devices in (0, 3):
            with self.assertRaisesRegex(ValueError, "no equal shares"):
                shape.share(devices)


if __name__ == "__main__":
    unittest.main()
