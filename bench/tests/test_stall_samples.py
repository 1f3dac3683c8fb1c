"""Stretches of instructions that ran equally often, from what Nsight Compute prints."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stall_samples import read_instructions, report  # noqa: E402

PAGE = """"Kernel Name","void kernel<(int)64>(Args)",
"Address","Source","# Samples","Instructions Executed","stall_wait","stall_long_sb","stall_wait (Not Issued)"
"0x10","      MOV R1, R2","1","8","1","0","0"
"0x20","@!P0  BRA   0x10","39","8","0","39","0"
"0x30","      FFMA R1, R2, R3, R4","30","512","20","0","20"
"0x40","      HMMA R1, R2, R3, R4","29","512","29","0","5"
"0x50","      EXIT","1","8","0","0","0"
"""


class StallSamples(unittest.TestCase):
    def test_adds_up_stretches_and_their_reasons(self) -> None:
        table = list(report(read_instructions(iter(PAGE.splitlines())), 2.0))
        stretches = [line.split() for line in table[1:-1] if line[8:9] == " " and "to" in line]
        self.assertEqual(
            [line[:3] for line in stretches], [["40.0%", "8", "2"], ["59.0%", "512", "2"]]
        )
        self.assertIn("long_sb 98%", table[1])
        self.assertIn("wait 83%", table[4])
        self.assertIn("@!P0 BRA 0x10", table[2])
        self.assertEqual(table[-1].split()[0], "1.0%")

    def test_says_what_is_missing(self) -> None:
        with self.assertRaisesRegex(ValueError, "no column '# Samples'"):
            read_instructions(iter(["a,b", "1,2"]))
        without = [line.replace('"39"', '"0"').replace('"30"', '"0"') for line in PAGE.splitlines()]
        empty = [line.replace('"29"', '"0"').replace('"1"', '"0"') for line in without]
        with self.assertRaisesRegex(ValueError, "no samples"):
            list(report(read_instructions(iter(empty)), 2.0))


if __name__ == "__main__":
    unittest.main()
