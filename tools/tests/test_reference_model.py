"""The numpy forward pass against transformers' logits in tests/goldens; needs numpy only.

example: python3 -m unittest discover -s tools/tests -p 'test_reference_model.py'
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

TOOLS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOOLS))

import golden_weights  # noqa: E402
from reference_model import ReferenceModel  # noqa: E402
from safetensors_io import STORAGE_TYPES, read_header  # noqa: E402

TOLERANCE = 1e-4  # max |difference| over the logits' root mean square


def golden_arrays(directory: Path) -> dict[str, np.ndarray]:
    infos = read_header(directory / "golden.safetensors")
    data = (directory / "golden.safetensors").read_bytes()
    return {
        name: np.frombuffer(data[info.begin : info.end], STORAGE_TYPES[info.dtype]).reshape(
            info.shape
        )
        for name, info in infos.items()
    }


class GoldenTest(unittest.TestCase):
    def test_every_family(self) -> None:
        with tempfile.TemporaryDirectory() as out:
            golden_weights.make_all(Path(out))
            self.compare(Path(out))

    def compare(self, goldens: Path) -> None:
        directories = sorted(path.parent for path in goldens.glob("*/golden.json"))
        self.assertGreaterEqual(len(directories), 14)
        for directory in directories:
            with self.subTest(family=directory.name):
                arrays = golden_arrays(directory)
                model = ReferenceModel(directory).keep_layers()
                logits = model.logits(arrays["tokens"])[arrays["positions"]]
                wanted = arrays["logits"]
                self.assertTrue(np.isfinite(wanted).all())
                rms = np.sqrt(np.mean(np.square(wanted)))
                self.assertLess(np.abs(logits - wanted).max() / rms, TOLERANCE)

                golden = json.loads((directory / "golden.json").read_text(encoding="utf-8"))
                part = golden["generate"]
                made = model.generate(part["prompt_tokens"], len(part["tokens"]))
                self.assertEqual(made, part["tokens"])


if __name__ == "__main__":
    unittest.main()
