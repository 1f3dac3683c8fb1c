"""The long contexts made on the spot: the same bytes each time, and tasks that hold their answer."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

GENERATOR = pathlib.Path(__file__).parents[1] / "workloads" / "long_context.py"


def generate(out, *arguments):
    return subprocess.run(
        [sys.executable, GENERATOR, out, *arguments], capture_output=True, text=True, check=False
    )


class LongContext(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.dir.name)
        self.addCleanup(self.dir.cleanup)

    def tasks(self, name):
        lines = (self.out / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def test_the_same_arguments_give_the_same_bytes(self):
        for folder in ("a", "b"):
            self.assertEqual(generate(self.out / folder, "--characters", "6000").returncode, 0)
        for name in ("needle", "needles", "lists"):
            first = (self.out / "a" / f"{name}.jsonl").read_bytes()
            self.assertEqual(first, (self.out / "b" / f"{name}.jsonl").read_bytes())
            self.assertEqual(len(first.splitlines()), 4)

    def test_what_should_follow_lies_far_back_once(self):
        generate(self.out, "--characters", "20000", "--count", "3")
        for name in ("needle", "needles", "lists"):
            for task in self.tasks(name):
                prompt, expected = task["prompt"], task["expected"]
                self.assertAlmostEqual(len(prompt), 20000, delta=400)
                self.assertEqual(prompt.count(expected), 1)
                self.assertLess(prompt.index(expected), 0.7 * len(prompt))
                # The prompt ends with the same text that stands right before the passage.
                before = prompt[: prompt.index(expected)].rstrip(" ")
                self.assertEqual(before[-60:], prompt[-60:])

    def test_texts_are_taken_where_they_are(self):
        text = "\n\n".join(f"Paragraph {index}. " + "word " * 50 for index in range(300))
        (self.out / "book.txt").write_text(text, encoding="utf-8")
        made = generate(self.out, "--characters", "3000", "--text", self.out, "--count", "2")
        self.assertEqual(made.returncode, 0)
        tasks = self.tasks("book")
        self.assertEqual(len(tasks), 2)
        for task in tasks:
            self.assertIn(task["prompt"], text)
            self.assertTrue(task["prompt"].startswith("Paragraph"))
        absent = generate(self.out, "--text", self.out / "absent")
        self.assertEqual(absent.returncode, 0)
        self.assertIn("no continuations", absent.stderr)

    def test_lengths_that_cannot_be_are_refused(self):
        refused = generate(self.out, "--characters", "100")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("accepted: at least 2000 and 1", refused.stderr)


if __name__ == "__main__":
    unittest.main()
