"""A copy of the demo draft for each test, to break."""

import json
import shutil
import struct
import tempfile
from pathlib import Path

import process
from process import DRAFT


def tensors_of(folder):
    """Dtype, shape and bytes of every tensor of a directory."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:begin]).items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[begin + first : begin + end])
    return found


def write_tensors(path, tensors):
    header, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    data = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


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
