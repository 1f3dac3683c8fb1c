"""train_head.py on a toy target; skipped where torch is missing.

example: python3 -m unittest discover -s tools/tests -p 'test_train_head.py'
"""

from __future__ import annotations

import contextlib
import io
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
except ImportError as error:
    raise unittest.SkipTest("needs torch") from error

import safetensors_io  # noqa: E402
import train_head  # noqa: E402
from checkpoint_writer import planned, write_checkpoint  # noqa: E402
from head_training import acceptance, layout, preparing, prompts  # noqa: E402
from head_training.attention import attend  # noqa: E402
from head_training.generation import ANSWER, USER, Conversation, Start, Writer  # noqa: E402
from head_training.head import Head, HeadShape, Unrolled, as_int4  # noqa: E402
from head_training.loss import soft_cross_entropy  # noqa: E402
from head_training.noise import target_noise  # noqa: E402
from head_training.target import Target  # noqa: E402
from head_training.token_file import TokenRows, pack  # noqa: E402
from reference_model import ReferenceModel  # noqa: E402

CPU = torch.device("cpu")
WIDTH, FFN, LAYERS, HEADS, KV_HEADS, VOCAB = 128, 256, 6, 4, 2, 96
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "eos_token_id": 2,
    "torch_dtype": "float32",
}


def write_target(folder: Path) -> Path:
    """A random target whose text repeats itself enough for a head to learn."""
    draw = np.random.default_rng(3)
    kv = WIDTH * KV_HEADS // HEADS
    shapes = {"model.embed_tokens": (VOCAB, WIDTH)}
    for idx in range(LAYERS):
        layer = f"model.layers.{idx}"
        shapes |= {
            f"{layer}.self_attn.q_proj": (WIDTH, WIDTH),
            f"{layer}.self_attn.k_proj": (kv, WIDTH),
            f"{layer}.self_attn.v_proj": (kv, WIDTH),
            f"{layer}.self_attn.o_proj": (WIDTH, WIDTH),
            f"{layer}.mlp.gate_proj": (FFN, WIDTH),
            f"{layer}.mlp.up_proj": (FFN, WIDTH),
            f"{layer}.mlp.down_proj": (WIDTH, FFN),
        }
    weights = {name: draw.normal(0, shape[1] ** -0.5, shape) for name, shape in shapes.items()}
    weights["model.embed_tokens"] *= 4
    norms = ["model.norm"]
    for idx in range(LAYERS):
        norms += [f"model.layers.{idx}.{name}_layernorm" for name in ("input", "post_attention")]
    weights |= {name: draw.uniform(0.5, 1.5, WIDTH) for name in norms}
    tensors = [
        planned(f"{name}.weight", "F32", values.astype(np.float32))
        for name, values in weights.items()
    ]
    write_checkpoint(folder, tensors, 1 << 30, lambda _: None)
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return folder


def head_of(target: Target, draft_vocab: int = VOCAB, int4: bool = False) -> Head:
    torch.manual_seed(5)
    tokens = torch.arange(draft_vocab) * VOCAB // draft_vocab
    shape = HeadShape(HEADS, KV_HEADS, WIDTH // HEADS, FFN, draft_vocab, draft_vocab < VOCAB, int4)
    return Head(target, shape, target.default_taps(), tokens)


class TrainHeadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.target_path = write_target(cls.folder / "target")
        cls.target = Target(cls.target_path, CPU, torch.float32)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.scratch.cleanup()

    def run_tool(self, *arguments) -> str:
        out = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["train_head.py", *map(str, arguments)]),
            contextlib.redirect_stdout(out),
        ):
            self.assertEqual(train_head.main(), 0)
        return out.getvalue()

    def test_target_is_the_reference_model(self) -> None:
        tokens = torch.randint(VOCAB, (2, 40), generator=torch.Generator().manual_seed(1))
        hidden, taps = self.target.hidden_states(tokens, [0, 3, LAYERS])
        reference = ReferenceModel(self.target_path)
        for row, found in zip(tokens.numpy(), hidden @ self.target.head.T):
            np.testing.assert_allclose(found.numpy(), reference.logits(row), rtol=1e-3, atol=1e-3)
        self.assertTrue(torch.equal(taps[..., :WIDTH], self.target.embedding[tokens]))
        normed = taps[..., 2 * WIDTH :]
        normed = (
            normed * torch.rsqrt(normed.square().mean(-1, keepdim=True) + 1e-5) * self.target.norm
        )
        torch.testing.assert_close(normed, hidden)

    def test_attention_of_prefix_and_own_keys(self) -> None:
        torch.manual_seed(2)
        length, steps = 13, 3
        parts = [torch.randn(2, 3, length, 16, requires_grad=True) for _ in range(3 + 2 * steps)]
        q, k, v, own_k, own_v = *parts[:3], parts[3 : 3 + steps], parts[3 + steps :]
        prefix = (q @ k.transpose(-1, -2)).masked_fill(
            torch.ones(length, length).triu(1).bool(), -torch.inf
        )
        own = torch.stack([(q * key).sum(-1) for key in own_k], -1)
        weights = (torch.cat([prefix, own], -1) / 4).softmax(-1)
        wanted = weights[..., :length] @ v
        wanted = wanted + sum(weights[..., length + n, None] * own_v[n] for n in range(steps))
        grad = torch.randn_like(wanted)
        found = attend(q, k, v, own_k, own_v)
        torch.testing.assert_close(found, wanted)
        for by_hand, by_function in zip(
            torch.autograd.grad(wanted, parts, grad), torch.autograd.grad(found, parts, grad)
        ):
            torch.testing.assert_close(by_function, by_hand)

    def test_loss_is_cross_entropy_with_the_whole_distribution(self) -> None:
        torch.manual_seed(3)
        students = torch.randn(2, 9, 8, requires_grad=True)
        weight = torch.randn(20, 8, requires_grad=True)
        teacher, teacher_weight, weights = torch.randn(9, 8), torch.randn(20, 8), torch.rand(2, 9)
        logits = students @ weight.T
        wanted = (teacher @ teacher_weight.T).softmax(-1)
        by_hand = -(weights * (wanted * logits.log_softmax(-1)).sum(-1)).sum()
        loss, by_step, agreed = soft_cross_entropy(
            students, weight, teacher, teacher_weight, weights
        )
        torch.testing.assert_close(loss, by_hand)
        torch.testing.assert_close(by_step.sum(), by_hand)
        self.assertEqual(agreed.tolist(), (logits.argmax(-1) == wanted.argmax(-1)).sum(1).tolist())
        for found, expected in zip(
            torch.autograd.grad(loss, [students, weight]),
            torch.autograd.grad(by_hand, [students, weight]),
        ):
            torch.testing.assert_close(found, expected)

    def test_unrolled_head_is_the_head_that_guesses(self) -> None:
        """Step n of a row, and a chain of n guesses that are the text: the same features."""
        head = head_of(self.target, 48)
        tokens = torch.randint(VOCAB, (30,), generator=torch.Generator().manual_seed(4))
        _, taps = self.target.hidden_states(tokens[None], head.taps)
        steps = 4
        with torch.no_grad():
            outputs = Unrolled(head, self.target)(tokens[None], taps, steps)
            guesses = acceptance.Guesses(head, self.target, tokens, taps[0], steps)
            roots = torch.arange(3, 20)
            logits = [guesses.begin(roots)]
            ancestors = torch.zeros(len(roots), steps, dtype=torch.bool)
            for depth in range(1, steps):
                ancestors[:, depth] = True
                depths = torch.full_like(roots, depth)
                logits.append(
                    guesses.add(depth, tokens[roots + depth], depths - 1, depths, ancestors)
                )
            for found, output in zip(logits, outputs):
                torch.testing.assert_close(
                    found, output[0, roots - 1] @ head.lm_head.weight.T, rtol=1e-4, atol=1e-4
                )

    def test_int4_is_what_files_hold(self) -> None:
        head = head_of(self.target, 48, int4=True)
        layout.write_head(self.folder / "int4", head, self.target, {})
        read = layout.read_head(self.folder / "int4", self.target)
        torch.testing.assert_close(read.fc.weight, as_int4(head.fc.weight), rtol=0, atol=1e-6)
        self.assertEqual(read.tokens.tolist(), head.tokens.tolist())
        config = json.loads((self.folder / "int4" / "config.json").read_text())
        self.assertEqual(config["eagle_aux_hidden_state_layer_ids"], [2, 3, 3])
        has_row = safetensors_io.Checkpoint(self.folder / "int4").raw("t2d")
        self.assertEqual(has_row.nonzero()[0].tolist(), head.tokens.tolist())

    def test_noise_is_forerun_s(self) -> None:
        """Values of philox() in src/base/noise.h."""
        seeds = torch.tensor([0, (1 << 40) + 7])
        found = target_noise(seeds, torch.tensor([5, 1000]), 6)
        for row, (seed, position) in enumerate(((0, 5), ((1 << 40) + 7, 1000))):
            expected = [gumbel(seed, position, token) for token in range(6)]
            np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-6)

    def test_rows_follow_the_turns(self) -> None:
        turns = Conversation([7], [8, 9], [11], [2, 3])
        writer = Writer(self.target, turns, 3, 120, 0.05)
        starts = [
            Start([7, 20], USER, 0.8, 6),
            Start([7, 21, 2, 8, 9], ANSWER, 0.0, 6),
            Start([30], ANSWER, 1.0, 6),
        ]
        rows = writer.write(starts)
        for start, row, made in zip(starts, rows.tokens.tolist(), rows.made.tolist()):
            self.assertEqual(row[: len(start.prompt)], start.prompt)
            self.assertFalse(any(made[: len(start.prompt)]))
            self.assertNotIn(3, row)
            at, role = len(start.prompt), start.role
            while at < len(row):
                end = row.index(2, at) if 2 in row[at:] else len(row) - 1
                self.assertEqual(set(made[at : end + 1]), {role == ANSWER})
                if role == USER:
                    self.assertLessEqual(end - at, 6)
                header = [turns.to_answer, turns.to_user][role]
                following = row[end + 1 : end + 1 + len(header)]
                self.assertEqual(following, header[: len(following)])
                at, role = end + 1 + len(header), 1 - role
        greedy = rows.tokens[1].long()
        logits = self.target.hidden_states(greedy[None], [0])[0][0] @ self.target.head.T
        agree = (logits.argmax(-1)[:-1] == greedy[1:])[rows.made[1][1:]]
        self.assertGreater(
            float(agree.float().mean()), 0.9
        )  # but where an end was written for another

    def test_guarded_prompts_are_kept_out(self) -> None:
        guard = prompts.Guard([list(range(20, 40))], list(range(8)))
        rows = pack(
            [(list(range(60)), 0), ([*range(50, 58), *range(25, 34)], 17), (list(range(24)), 24)],
            60,
        )
        self.assertEqual(guard.clean(rows).tolist(), [True, False, True])

    def test_a_chat_template_is_taken_apart(self) -> None:
        def render(messages: list[dict]) -> str:
            return "s" + "".join(f"{turn['role'][0]}:{turn['content']}." for turn in messages)

        found = prompts.conversation_of(
            render, lambda text: [ord(char) for char in text], [ord("!"), ord(".")]
        )
        self.assertEqual(found.prefix, [ord(char) for char in "su:"])
        self.assertEqual(found.to_answer, [ord(char) for char in "a:"])
        self.assertEqual(found.to_user, [ord(char) for char in "u:"])
        self.assertEqual(found.ends, [ord("."), ord("!")])
        with self.assertRaisesRegex(ValueError, "accepted: a token that ends texts"):
            prompts.conversation_of(render, lambda text: [ord(char) for char in text], [ord("!")])

    def test_kinds_of_rows(self) -> None:
        given = prompts.Prompts(Conversation([7], [8, 9], [11], [2]))
        given.frames, given.questions, given.document_openers = [[[4], [5]]], [[6]], [[12]]
        given.openers, given.openers_turn = [[3]], [20]
        given.passages = [list(range(20, 90))]
        for kind, prefix, role in (
            ("opener", [7, 3], USER),
            ("question", [7], USER),
            ("passage", [7, 4], ANSWER),
            ("continuation", [], ANSWER),
            ("document", [12], USER),
        ):
            start = prompts.Mixer(given, [], {kind: 1.0}, {0.5: 1.0}, 160, 1).start()
            self.assertEqual(start.prompt[: len(prefix)], prefix)
            self.assertEqual((start.role, start.temperature), (role, 0.5))
            self.assertLess(len(start.prompt), 160)
        given.frames = []
        with self.assertRaisesRegex(
            ValueError, "found passage; accepted with these prompts: opener, question"
        ):
            prompts.Mixer(given, [], {"passage": 1.0}, {0.5: 1.0}, 160, 1)

    def test_rows_come_from_batches(self) -> None:
        class CharText:
            ends = [2]

            def __init__(self, directory: Path) -> None:
                pass

            def encode(self, text: str) -> list[int]:
                return [ord(char) - 32 for char in text]

            def decode(self, tokens: list[int]) -> str:
                return "".join(chr(token + 32) for token in tokens)

        given = prompts.Prompts(Conversation([], [], [], [2]), passages=[list(range(3, 90))])
        given.save(self.folder / "base.json")
        asked, answered, rows = (
            self.folder / name for name in ("asked.jsonl", "answered.jsonl", "batch.pt")
        )
        with mock.patch.object(preparing, "TargetText", CharText):
            self.run_tool(
                *("requests", self.target_path, asked, "--prompts", self.folder / "base.json"),
                *("--count", 3, "--length", 48),
            )
            requests = [json.loads(line) for line in asked.read_text().splitlines()]
            results = [{"index": 1, "error": "x"}, {"index": 2, "tokens": [1, 2, 3]}]
            answered.write_text("".join(json.dumps(result) + "\n" for result in results))
            self.run_tool(
                "pack",
                self.target_path,
                rows,
                "--requests",
                asked,
                "--results",
                answered,
                "--length",
                48,
            )
        self.assertEqual(len(requests), 3)
        found = TokenRows.load(rows)
        prompt = CharText.encode(None, requests[2]["prompt"])
        self.assertEqual(found.tokens[0, : len(prompt) + 3].tolist(), [*prompt, 1, 2, 3])
        self.assertEqual(found.made.sum(), 3)

    def test_pieces_train_and_evaluate(self) -> None:
        turns = Conversation([], [], [], [2])
        given = prompts.Prompts(turns, passages=[list(range(3, 90)), list(range(90, 2, -1))])
        given.save(self.folder / "prompts.json")
        rows, out = self.folder / "rows.pt", self.folder / "head"
        self.run_tool(
            *("generate", self.target_path, rows, "--prompts", self.folder / "prompts.json"),
            *("--mix", "continuation:1", "--batch", 48, "--length", 64, "--batches", 2),
        )
        self.assertEqual(TokenRows.load(rows).tokens.shape, (96, 64))
        bench = [
            {"category": "a", "tokens": [5, 6, 7], "seed": 1},
            {"category": "b", "tokens": [9], "seed": 2},
        ]
        (self.folder / "bench.json").write_text(json.dumps(bench))
        options = (
            "--rows",
            rows,
            "--unroll",
            3,
            "--held",
            8,
            "--batch-tokens",
            1024,
            "--log-every",
            4,
        )
        plan = ("--draft-vocab", 64, "--warmup", 5, "--max-steps", 24, "--learning-rate", 3e-3)
        self.run_tool("train", self.target_path, out, *options, *plan, "--minutes", 0)
        self.run_tool("train", self.target_path, out, *options, *plan)
        curve = json.loads((out / "curve.json").read_text())
        self.assertEqual([entry["step"] for entry in curve], [4, 8, 12, 16, 20, 24])
        self.assertLess(curve[-1]["loss"][0], curve[0]["loss"][0])
        self.assertTrue((out / "curve.svg").read_text().startswith("<svg"))
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            with mock.patch.object(
                sys,
                "argv",
                list(
                    map(
                        str,
                        [
                            "x",
                            "train",
                            self.target_path,
                            out,
                            *options,
                            *plan,
                            "--optimizer",
                            "adamw",
                        ],
                    )
                ),
            ):
                self.assertEqual(train_head.main(), 1)
        self.assertIn("state.pt: found a run of", errors.getvalue())
        for temperature in (0.0, 0.8):
            self.run_tool(
                *("evaluate", self.target_path, out, "--prompts", self.folder / "prompts.json"),
                *(
                    "--bench",
                    self.folder / "bench.json",
                    "--texts",
                    self.folder / f"texts-{temperature}.json",
                ),
                *(
                    "--out",
                    self.folder / "accepted.json",
                    "--temperature",
                    temperature,
                    "--max-tokens",
                    40,
                ),
            )
            table = json.loads((self.folder / "accepted.json").read_text())["by_category"]
            self.assertEqual(set(table), {"a", "b", "all"})
            self.assertEqual(set(table["all"]), {"chain5", "tree16", "text5"})
            self.assertGreaterEqual(table["all"]["tree16"][2], 1.0)


def gumbel(seed: int, position: int, token: int) -> float:
    counter, key = [token // 4, position, 0, 0x464F5245], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        high, low = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(low >> 32) ^ counter[1] ^ key[0], low, (high >> 32) ^ counter[3] ^ key[1], high]
        counter = [value & 0xFFFFFFFF for value in counter]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return float(-np.log(-np.log(((counter[token % 4] >> 8) + 0.5) * 2.0**-24)))


if __name__ == "__main__":
    unittest.main()
