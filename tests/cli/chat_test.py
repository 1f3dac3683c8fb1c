"""Chat, from a pipe and, through a pseudo-terminal, from somebody who types.

Usage: chat_test.py PATH_OF_FORERUN [unittest options]
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

import process
from process import DRAFT, TARGET, run


def arguments(*args, max_tokens=4):
    return [
        *map(str, ("chat", "--model", DRAFT, "--temperature", 0, "--max-tokens", max_tokens, *args))
    ]


def chat(text, *args):
    return run(*arguments(*args), input=text)


class Piped(process.CommandLine):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_the_demo_pair_chats(self):
        done = run(
            "chat",
            "--model",
            TARGET,
            "--draft",
            DRAFT,
            "--max-tokens",
            8,
            "--compare",
            input="hello\n/clear\nhow are you\n/quit\n",
        )
        self.succeeded(done)
        self.assertEqual(done.stdout.count("identical: yes"), 2)
        self.assertEqual(done.stderr.count("— 8 tokens,"), 2)

    def test_commands_that_make_no_sense(self):
        for line, *words in (
            ("/clera", "/clera", "did you mean /clear"),
            ("/xyzzy", "/help"),
            ("/seed abc", "/seed: found 'abc'", "random"),
            ("/seed 18446744073709551616", "/seed: found"),
            ("/temperature hot", "/temperature: found 'hot'"),
            ("/temperature -1", "/temperature: found '-1'; accepted: 0 to 100"),
            ("/top-p 1.5", "/top-p: found '1.5'; accepted: 0 to 1"),
            ("/top-k 1.5", "/top-k: found"),
            ("/repetition-penalty 0", "/repetition-penalty: found '0'; accepted: 0.01 to 100"),
            ("/max-tokens 0", "/max-tokens: found '0'"),
            ("/clear now", "/clear: found 'now'"),
            ("/seed", "/seed: found ''"),
            ("/load /nowhere", "/load", "/nowhere"),
            ("/regenerate", "nothing"),
        ):
            with self.subTest(line):
                done = chat(line + "\nhello\n")
                # The failure is reported and is no success; the next line is still answered.
                self.assertEqual(done.returncode, 1)
                self.assertIn("4 tokens", done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_a_leading_slash_can_be_sent(self):
        done = self.succeeded(
            chat("//clear is a path\n/save " + str(self.folder / "a.json") + "\n")
        )
        messages = json.loads((self.folder / "a.json").read_text())["messages"]
        self.assertEqual(messages[0], {"role": "user", "content": "/clear is a path"})
        self.assertEqual(messages[1]["role"], "assistant")
        self.assertIn(messages[1]["content"], done.stdout)

    def test_saved_and_loaded_conversations_go_on_alike(self):
        saved = self.folder / "saved.json"
        first = chat(f"hello\n/save {saved}\nand then\n")
        again = chat(f"/load {saved}\nand then\n")
        self.assertEqual(first.stdout.splitlines()[-1], again.stdout.splitlines()[-1])
        for text in (
            "",
            "{",
            "[]",
            '{"messages": 3}',
            '{"messages": [{"role": "user"}]}',
            '{"messages": [{"role": "cook", "content": "x"}]}',
        ):
            saved.write_text(text)
            done = chat(f"/load {saved}\n")
            self.assertEqual(done.returncode, 1)
            self.assertIn("holds no conversation", done.stderr)

    def test_settings_and_regenerate(self):
        def answers(text):
            return self.succeeded(chat(text)).stdout

        hot = "/temperature 1.5\n/max-tokens 12\n"
        once = answers(hot + "/seed 3\nhello\n")
        self.assertEqual(answers(hot + "/seed 2\nhello\n/regenerate\n").split("\n", 1)[1:], [once])
        self.assertEqual(
            answers(hot + "/seed 3\n/top-k 1\nhello\n"), answers("/max-tokens 12\nhello\n")
        )
        text = answers("/max-tokens 12\nhello\n")
        stop = text.split()[0][:2]
        flagged = self.succeeded(chat("/max-tokens 12\nhello\n", "--stop", stop)).stdout
        self.assertEqual(flagged.strip("\n"), text[: text.index(stop)].strip("\n"))
        self.assertEqual(
            answers(f"/max-tokens 12\n/stop {stop}\nhello\n").strip("\n"),
            text[: text.index(stop)].strip("\n"),
        )

    def test_a_full_context_suggests_to_clear(self):
        done = chat("word " * 300 + "\nhello\n", "--context", 128)
        self.assertEqual(done.returncode, 1)
        self.assertIn("128", done.stderr)
        self.assertIn("/clear", done.stderr)
        self.assertIn("4 tokens", done.stderr)  # what was too long is not in the way of the next

    def test_messages_never_become_control_tokens(self):
        # Each name is a token where it is taken for one, and several as the text that it is.
        text = "<|endoftext|>" * 60
        for done in (
            chat(text + "\nhello\n", "--context", 128),
            chat("hello\n", "--context", 128, "--system", text),
        ):
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"the conversation has [2-9]\d\d tokens")

    def test_an_interrupt_ends_it(self):
        running = subprocess.Popen(
            [process.forerun(), *arguments(max_tokens=7000)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.stdin.write("hello\n")
        running.stdin.flush()
        self.assertTrue(running.stdout.read(10))
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)


class Screen:
    """What a terminal shows of what was written to it."""

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column, self.wraps = columns, [[]], 0, 0, False

    def cells(self, row):
        while len(self.rows) <= row:
            self.rows.append([])
        return self.rows[row]

    def feed(self, text):
        for part in re.findall(r"\x1b\[[?]?[0-9;]*[A-Za-z@]|\x1b[^\[]|.", text, re.DOTALL):
            if part.startswith("\x1b"):
                self.control(part)
            elif part in "\r\n\b":
                self.wraps = False
                self.column = {"\r": 0, "\n": self.column, "\b": max(0, self.column - 1)}[part]
                self.row += part == "\n"
            elif part >= " ":
                self.write(part)

    def write(self, character):
        if self.wraps:
            self.row, self.column, self.wraps = self.row + 1, 0, False
        cells = self.cells(self.row)
        cells.extend(" " * (self.column + 1 - len(cells)))
        cells[self.column] = character
        self.wraps = self.column + 1 == self.columns
        self.column = min(self.column + 1, self.columns - 1)

    def control(self, sequence):
        found = re.fullmatch(r"\x1b\[(\d*)([A-Za-z@])", sequence)
        if not found or found[2] in "mh":
            return
        count, cells = int(found[1] or 1), self.cells(self.row)
        self.wraps = False
        if found[2] in "AB":
            self.row = max(0, self.row + (count if found[2] == "B" else -count))
        elif found[2] in "CD":
            self.column += count if found[2] == "C" else -count
        elif found[2] == "G":
            self.column = count - 1
        elif found[2] == "K":
            del cells[self.column :]
        elif found[2] == "J":
            del cells[self.column :], self.rows[self.row + 1 :]
        elif found[2] == "P":
            del cells[self.column : self.column + count]
        elif found[2] == "@":
            cells[self.column : self.column] = " " * count
            del cells[self.columns :]
        else:
            raise AssertionError(f"unknown: {sequence!r}")

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows).strip("\n")


class Typed(process.CommandLine):
    """Keys as a terminal sends them; what is seen decides when the next ones are sent."""

    columns = 80

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = dict(
            os.environ, XDG_STATE_HOME=folder.name, TERM="xterm", LC_ALL="C", NO_COLOR="1"
        )

    def start(self, **kwargs):
        child, self.terminal = pty.fork()
        if child == 0:
            os.execve(
                process.forerun(), [process.forerun(), *arguments(**kwargs)], self.environment
            )
        self.child = child
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, self.columns, 0, 0))
        self.seen = b""
        self.wait_for("› ")

    def wait_for(self, *texts, seconds=60):
        """Waits until these have been seen, one behind the other."""
        end = time.monotonic() + seconds

        def unseen():
            begin = 0
            for text in texts:
                begin = self.seen.find(text.encode(), begin)
                if begin < 0:
                    return text
                begin += len(text.encode())
            return None

        while (text := unseen()) is not None:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            if not ready:
                self.fail(f"no {text!r} in {self.seen!r}")
            try:
                self.seen += os.read(self.terminal, 65536)
            except OSError:
                self.fail(f"ended without {text!r} in {self.seen!r}")

    def send(self, keys):
        os.write(self.terminal, keys if isinstance(keys, bytes) else keys.encode())

    def command(self, line, then):
        """Types a line and waits for what comes of it and the next prompt."""
        self.seen = b""
        self.send(line + "\r")
        self.wait_for("\r\n", then, "› ")

    def saved(self):
        path = self.folder / f"saved-{time.monotonic_ns()}.json"
        self.seen = b""
        self.send(f"/save {path}\r")
        self.wait_for("\r\n", "› ")
        return [
            message["content"]
            for message in json.loads(path.read_text())["messages"]
            if message["role"] == "user"
        ]

    def leave(self):
        self.send(b"\x04")
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:  # the terminal of a process that has ended
            pass
        _, status = os.waitpid(self.child, 0)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)

    def test_keys(self):
        self.start()
        # A key more than a byte long is one character, whatever the locale; Backspace takes it.
        self.command("caféx\x7f\x7fé", "4 tokens")
        # Ctrl-C clears what was typed, and Alt-Enter begins another line.
        self.seen = b""
        self.send("never to be sent")
        self.wait_for("never to be sent")
        self.send(b"\x03")
        self.wait_for("^C")
        self.command("two\x1b\rlines", "4 tokens")
        self.assertEqual(self.saved(), ["café", "two\nlines"])
        # A failure is reported and does not end the chat.
        self.command("/clera", "did you mean /clear")
        self.assertEqual(self.leave(), 0)

    def test_history_is_kept(self):
        self.start()
        self.command("remember this", "4 tokens")
        self.assertEqual(self.leave(), 0)
        self.start()
        self.command("\x1b[A", "4 tokens")  # the up key
        self.assertEqual(self.saved(), ["remember this"])
        self.assertEqual(self.leave(), 0)
        history = self.folder / "forerun" / "chat-history"
        self.assertEqual(history.stat().st_mode & 0o077, 0)

    def test_what_is_pasted_is_part_of_one_message(self):
        self.start()
        lines = [f"line {number}\tof a table" for number in range(40)]
        self.seen = b""
        # A terminal sends line breaks as Enter is.
        self.send("see: \x1b[200~" + "\r".join(lines) + "\x1b[A\x03\x1b[201~!")
        self.wait_for("line 39", "!")
        self.command("", "4 tokens")
        self.command("a\tb", "4 tokens")
        self.assertEqual(self.saved(), ["see: " + "\n".join(lines) + "[A!", "a\tb"])
        self.assertEqual(self.leave(), 0)

    def test_keys_during_an_answer_are_held_back(self):
        self.start(max_tokens=400)
        self.seen = b""
        self.send("hello\r")
        self.wait_for("hello\r\n")
        while len(self.seen) < 60:  # the answer has begun
            self.seen += os.read(self.terminal, 65536)
        self.send("lateX\x7fr \x1b[200~on\x1b[201~")
        self.wait_for("tokens/s", "› ", "late", "on")
        self.assertNotIn(b"late", self.seen[: self.seen.rindex(b"tokens/s")])
        self.command("", "tokens/s")
        self.assertEqual(self.saved(), ["hello", "later on"])
        self.assertEqual(self.leave(), 0)

    def test_a_line_of_several_rows_is_shown_as_it_is(self):
        self.columns = 40
        self.start()
        text = "".join(chr(ord("a") + place % 26) for place in range(95))
        for keys, expected in (
            ((text, "\x01", "in front of it, "), "in front of it, " + text),
            ((text, "\x1b[D" * 50, "XYZ" * 9, "\x7f"), text[:45] + ("XYZ" * 9)[:-1] + text[45:]),
            ((text, "\x01", "\x1b[3~" * 30), text[30:]),
        ):
            with self.subTest(keys):
                screen, shown = Screen(self.columns), ""
                screen.feed("› " + expected)
                self.seen, wanted = "› ".encode(), screen.text()
                self.send("".join(keys))
                end = time.monotonic() + 20
                while shown != wanted and time.monotonic() < end:
                    if select.select([self.terminal], [], [], 0.2)[0]:
                        self.seen += os.read(self.terminal, 65536)
                    screen = Screen(self.columns)
                    screen.feed(self.seen.decode(errors="ignore"))
                    shown = screen.text()
                self.assertEqual(shown, wanted)
                self.send("\x03")
                self.wait_for("^C", "› ")
        self.assertEqual(self.leave(), 0)

    def test_an_interrupt_ends_an_answer_alone(self):
        self.start(max_tokens=7000)
        self.seen = b""
        self.send("hello\r")
        self.wait_for("hello\r\n")
        while len(self.seen) < 60:  # the answer has begun
            self.seen += os.read(self.terminal, 65536)
        self.send(b"\x03")
        self.wait_for("tokens/s", "› ")
        self.assertEqual(self.saved(), ["hello"])
        self.assertEqual(self.leave(), 0)


if __name__ == "__main__":
    process.main()
