"""A copy of the demo draft for each test, to break."""

import json
import shutil
import struct
import tempfile
from pathlib import Path

import process
from process import DRAFT


class EditedCheckpoint(process.CommandLine):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.model = Path(self.folder.name) / "model"
        shutil.copytree(DRAFT, self.model)

    def tearDown(self):
        self.folder.cleanup()

    def edit_config(self, **fields):
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        config.update(fields)
        path.write_text(json.dumps(config))

    def edit_header(self, edit):
        path = self.model / "model.safetensors"
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        edit(header)
        encoded = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data[8 + length :])
