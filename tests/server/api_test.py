"""The API without a client of its own: what comes out equals the engine's, bad fields are named."""

import json
import re

import serving

PROMPTS = [
    "def read_lines(path):",
    "class Stack:",
    "import os\n",
    "The quick brown fox",
    "x = [",
    "# Sort",
]
STRATEGIES = ["autoregressive", "serial_tree", "parallel_tree", "sparse_self", "pipelined", "auto"]


class Api(serving.ServerTest):
    def test_streamed_text_is_the_whole_one(self):
        body = {"prompt": PROMPTS[0], "max_tokens": 60, "temperature": 0.7, "seed": 3}
        whole = self.server.completion(**body)
        events = self.server.stream(
            "/v1/completions", {**body, "stream_options": {"include_usage": True}}
        )
        self.assertEqual(
            "".join(e["choices"][0]["text"] for e in events if e["choices"]),
            whole["choices"][0]["text"],
        )
        self.assertEqual(
            events[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]
        )
        self.assertEqual(
            events[-2]["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]
        )

    def test_chat(self):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        body = {"messages": messages, "max_tokens": 12, "temperature": 0}
        status, _, whole = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200, whole)
        self.assertEqual(whole["choices"][0]["message"]["role"], "assistant")
        parts = [{**messages[1], "content": [{"type": "text", "text": "Hi"}]}]
        _, _, same = self.server.post(
            "/v1/chat/completions", {**body, "messages": messages[:1] + parts}
        )
        self.assertEqual(same["choices"], whole["choices"])
        events = self.server.stream("/v1/chat/completions", body)
        text = "".join(e["choices"][0]["delta"].get("content", "") for e in events)
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")

    def test_a_final_message_goes_on(self):
        messages = [
            {"role": "user", "content": "Count."},
            {"role": "assistant", "content": "One, two, <|endoftext|> "},
        ]
        asked = {"messages": messages, "continue_final_message": True}
        whole = self.server.post("/tokenize", {"messages": messages})[2]["tokens"]
        cut = self.server.post("/tokenize", asked)[2]["tokens"]
        text = self.server.post("/detokenize", {"tokens": cut})[2]["prompt"]
        self.assertTrue(text.rstrip().endswith("One, two, <|endoftext|>"), text)
        self.assertLess(len(cut), len(whole))
        body = {"max_tokens": 12, "temperature": 0}
        made = self.server.post("/v1/chat/completions", {**body, **asked})[2]
        plain = self.server.completion(cut, **body)
        self.assertEqual(
            made["choices"][0]["message"]["content"].strip(), plain["choices"][0]["text"].strip()
        )
        for wrong in (
            {"add_generation_prompt": True},
            {"messages": messages[:1]},
            {"messages": [messages[0], {"role": "assistant", "content": " "}]},
        ):
            answer = self.server.post("/v1/chat/completions", {**asked, **wrong})
            self.refused(answer, 400, "continue_final_message")

    def test_messages_never_become_control_tokens(self):
        name = "<|endoftext|>"
        control = self.server.post("/tokenize", {"prompt": name})[2]["tokens"]
        self.assertEqual(len(control), 1)
        for text in (name, f"a{name}b", f"{name}{name}", f'{{"x": "{name}"}}'):
            asked = {"messages": [{"role": "user", "content": text}]}
            _, _, made = self.server.post("/tokenize", asked)
            self.assertNotIn(control[0], made["tokens"])
            _, _, back = self.server.post("/detokenize", {"tokens": made["tokens"]})
            self.assertIn(text, back["prompt"])  # and nothing else is in it
            _, _, answer = self.server.post(
                "/v1/chat/completions", {**asked, "max_tokens": 2, "temperature": 0}
            )
            self.assertEqual(answer["usage"]["prompt_tokens"], made["count"])

    def test_samples_are_those_of_their_seeds(self):
        body = {"prompt": "x = ", "max_tokens": 8, "temperature": 1.0, "seed": 11}
        several = self.server.completion(**body, n=3)["choices"]
        self.assertEqual([c["index"] for c in several], [0, 1, 2])
        self.assertEqual(several[0]["text"], self.server.completion(**body)["choices"][0]["text"])
        self.assertEqual(len({c["text"] for c in several}), 3)

    def test_prompts_in_every_form(self):
        _, _, made = self.server.post("/tokenize", {"prompt": "def f("})
        self.assertEqual(
            self.server.post("/detokenize", {"tokens": made["tokens"]})[2]["prompt"], "def f("
        )
        self.assertIsNone(made["token_strs"])
        _, _, named = self.server.post("/tokenize", {"prompt": "def f(", "return_token_strs": True})
        self.assertEqual("".join(named["token_strs"]), "def f(")
        alone = self.server.completion("def f(", max_tokens=5, temperature=0)["choices"][0]["text"]
        # No probability to keep leaves the most likely token; -1 keeps all.
        likeliest = {"temperature": 1, "top_p": 0, "top_k": -1}
        self.assertEqual(
            self.server.completion("def f(", max_tokens=5, **likeliest)["choices"][0]["text"], alone
        )
        for prompt in (made["tokens"], ["def f("], [made["tokens"]]):
            self.assertEqual(
                self.server.completion(prompt, max_tokens=5, temperature=0)["choices"][0]["text"],
                alone,
            )
        two = self.server.completion(["def f(", "x = "], max_tokens=5, temperature=0, n=2)
        self.assertEqual([c["index"] for c in two["choices"]], [0, 1, 2, 3])
        self.assertEqual(two["choices"][0]["text"], alone)
        other = self.server.post("/tokenize", {"prompt": "x = "})[2]
        self.assertEqual(two["usage"]["prompt_tokens"], made["count"] + other["count"])

    def test_stops_echo_and_biases(self):
        body = {"prompt": "def f(", "max_tokens": 30, "temperature": 0}
        text = self.server.completion(**body)["choices"][0]["text"]
        stop = text[5:9]
        cut = self.server.completion(**body, stop=stop)["choices"][0]
        self.assertEqual((cut["text"], cut["finish_reason"]), (text[: text.index(stop)], "stop"))
        kept = self.server.completion(**body, stop=stop, include_stop_str_in_output=True)
        self.assertEqual(kept["choices"][0]["text"], text[: text.index(stop) + len(stop)])
        self.assertEqual(kept["choices"][0]["finish_reason"], "stop")
        self.assertEqual(
            self.server.completion(**body, echo=True)["choices"][0]["text"], "def f(" + text
        )
        _, _, made = self.server.post("/tokenize", {"prompt": "x"})
        biased = self.server.completion(
            "a", max_tokens=3, temperature=0, logit_bias={str(made["tokens"][0]): 100}
        )
        self.assertEqual(biased["choices"][0]["text"], "xxx")

    def test_nothing_ends_before_min_tokens(self):
        body = {"prompt": "def f(", "max_tokens": 30, "temperature": 0}
        tokens = self.server.post(
            "/tokenize", {"prompt": self.server.completion(**body)["choices"][0]["text"]}
        )[2]["tokens"]
        ends = sorted(set(tokens))[:64]
        ended = self.server.completion(**body, stop_token_ids=ends)
        self.assertLess(ended["usage"]["completion_tokens"], 12)
        texts = set()
        for strategy in STRATEGIES:
            held = self.server.completion(
                **body, stop_token_ids=ends, min_tokens=12, strategy=strategy
            )
            self.assertGreater(held["usage"]["completion_tokens"], 12)
            texts.add(held["choices"][0]["text"])
        self.assertEqual(len(texts), 1, texts)
        # A stop string counts only behind so many tokens.
        stop = ["(", ")", "e", "s", " "]
        cut = self.server.completion(**body, stop=stop)["usage"]["completion_tokens"]
        self.assertLess(cut, 12)
        held = self.server.completion(**body, stop=stop, min_tokens=12)
        self.assertGreater(held["usage"]["completion_tokens"], 12)
        self.refused(
            self.server.post("/v1/completions", {**body, "min_tokens": 31}), 400, "min_tokens"
        )

    def test_prefixes_are_shared_within_a_salt(self):
        body = {"prompt": "The same words again. " * 40, "max_tokens": 2}

        def cached(**fields):
            usage = self.server.completion(**body, **fields)["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual(cached(cache_salt="one"), 0)
        self.assertGreater(cached(cache_salt="one"), 64)
        self.assertEqual(cached(cache_salt="two"), 0)
        self.assertEqual(cached(), 0)
        self.assertGreater(cached(), 64)
        for salt in ("", "x" * 1025, 3):
            answer = self.server.post("/v1/completions", {**body, "cache_salt": salt})
            self.refused(answer, 400, "cache_salt")

    def test_logprobs(self):
        logprobs = self.server.completion("def f(", max_tokens=4, temperature=0, logprobs=2)[
            "choices"
        ][0]["logprobs"]
        self.assertEqual(
            [
                len(logprobs[key])
                for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
            ],
            [4] * 4,
        )
        body = {
            "messages": [{"role": "user", "content": "x"}],
            "max_tokens": 3,
            "logprobs": True,
            "top_logprobs": 2,
        }
        _, _, answer = self.server.post("/v1/chat/completions", body)
        tokens = answer["choices"][0]["logprobs"]["content"]
        self.assertEqual([len(token["top_logprobs"]) for token in tokens], [2] * len(tokens))
        self.assertEqual(bytes(tokens[0]["bytes"]).decode(errors="replace"), tokens[0]["token"])

    def test_prompts_are_scored(self):
        shared = {"temperature": 0, "logprobs": 2}
        prompt = self.server.post("/tokenize", {"prompt": "def f("})[2]["tokens"]
        written = self.server.completion(prompt, max_tokens=90, strategy="autoregressive", **shared)
        answer = written["choices"][0]["logprobs"]
        tokens = self.server.post(
            "/tokenize", {"prompt": "def f(" + written["choices"][0]["text"]}
        )[2]["tokens"]
        scored = self.server.completion(tokens, max_tokens=0, echo=True, **shared)
        choice = scored["choices"][0]
        logprobs = choice["logprobs"]
        self.assertEqual(scored["usage"]["completion_tokens"], 0)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(choice["text"], "def f(" + written["choices"][0]["text"])
        self.assertEqual([len(entries) for entries in logprobs.values()], [len(tokens)] * 4)
        self.assertEqual((logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]), (None, None))
        self.assertEqual("".join(logprobs["tokens"]), choice["text"])
        self.assertEqual(logprobs["text_offset"][0], 0)
        for offset, token in zip(logprobs["text_offset"], logprobs["tokens"]):
            self.assertTrue(choice["text"][offset:].startswith(token))
        # The text tokenizes to the drawn tokens at least at its beginning; compares that far.
        same = len(prompt)
        while (
            same < len(tokens) and logprobs["tokens"][same] == answer["tokens"][same - len(prompt)]
        ):
            same += 1
        self.assertGreater(same - len(prompt), 30)
        for key in ("token_logprobs", "top_logprobs"):
            self.assertEqual(logprobs[key][len(prompt) : same], answer[key][: same - len(prompt)])
        # The same of a text, in a stream, and with text behind it.
        body = {"prompt": "def f(x):\n", "max_tokens": 4, "echo": True, **shared}
        whole = self.server.completion(**body)["choices"][0]
        streamed = {key: [] for key in logprobs}
        for event in self.server.stream("/v1/completions", body):
            for key, entries in (event["choices"][0]["logprobs"] or {}).items():
                streamed[key] += entries
        self.assertEqual(streamed, whole["logprobs"])
        self.assertIsNone(streamed["token_logprobs"][0])
        self.assertEqual("".join(streamed["tokens"]), whole["text"])

    def test_prompt_logprobs_as_vllm_has_them(self):
        body = {"prompt": ["def f(x):", "x"], "max_tokens": 1, "prompt_logprobs": 2}
        long, short = self.server.completion(**body)["choices"]
        tokens = self.server.post("/tokenize", {"prompt": "def f(x):"})[2]["tokens"]
        self.assertEqual(len(long["prompt_logprobs"]), len(tokens))
        self.assertIsNone(long["prompt_logprobs"][0])
        self.assertEqual(short["prompt_logprobs"], [None])
        for token, entry in zip(tokens[1:], long["prompt_logprobs"][1:]):
            self.assertIn(len(entry), (2, 3))
            self.assertIn(str(token), entry)
            ranks = sorted(found["rank"] for found in entry.values() if found["rank"])
            self.assertEqual(ranks, [1, 2])
            for found in entry.values():
                self.assertLessEqual(found["logprob"], 0)
                self.assertIsInstance(found["decoded_token"], str)
        chat = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
        answer = self.server.post("/v1/chat/completions", {**chat, "prompt_logprobs": 0})[2]
        self.assertEqual(len(answer["prompt_logprobs"]), answer["usage"]["prompt_tokens"])
        self.assertEqual({len(entry) for entry in answer["prompt_logprobs"][1:]}, {1})
        plain = self.server.post("/v1/chat/completions", chat)[2]
        self.assertNotIn("prompt_logprobs", plain)
        self.refused(
            self.server.post(
                "/v1/chat/completions", {**chat, "prompt_logprobs": 1, "stream": True}
            ),
            400,
            "prompt_logprobs",
        )

        streamed = {**chat, "prompt_logprobs": 0, "stream": True}
        self.assertTrue(self.server.stream("/v1/chat/completions", streamed))
        many = {"prompt": [1] * 5000, "n": 100, "prompt_logprobs": 2, "max_tokens": 0}
        self.refused(self.server.post("/v1/completions", many), 400, "1500000 scores")

    def test_speculation_is_shown_where_asked_for(self):
        body = {
            "prompt": "for i in range(10):\n    print(i)\nfor i in range(",
            "max_tokens": 40,
            "temperature": 0,
            "strategy": "serial_tree",
            "speculation": {"strategy": "serial_tree", "source": "model", "shape": "chain"},
        }
        events = self.server.stream(
            "/v1/completions",
            {**body, "return_speculation": True, "stream_options": {"include_usage": True}},
        )
        shown = [e["choices"][0]["speculation"] for e in events if e["choices"]]
        tokens = [token for each in shown for token in each["tokens"]]
        self.assertEqual(len(tokens), 40)
        self.assertTrue(any(token["drafted"] for token in tokens))
        self.assertTrue(any(len(r["nodes"]) > 1 for each in shown for r in each["rounds"]))
        figures = events[-1]["usage"]["speculation"]
        self.assertEqual(figures["strategy"], "serial_tree")
        self.assertGreater(figures["accepted_tokens"], 0)

    def test_guesses_say_whose_they_are(self):
        body = {
            "prompt": "for i in range(10):\n    print(i)\nfor i in range(" * 30,
            "max_tokens": 40,
            "temperature": 0,
            "return_speculation": True,
        }
        model = {"strategy": "serial_tree", "source": "model", "shape": "best"}
        for speculation, expected in (
            (model, {"model"}),
            ({**model, "source": "suffix"}, {"source"}),
            ({**model, "source": "model+suffix"}, {"model", "source", "both"}),
            ({"strategy": "pipelined", "source": "suffix", "shape": "best"}, {"source"}),
            ({"strategy": "sparse_self", "view_budget": 192}, {"self"}),
        ):
            events = self.server.stream("/v1/completions", {**body, "speculation": speculation})
            sources = {
                node["source"]
                for event in events
                for each in event["choices"]
                for found in each["speculation"]["rounds"]
                for node in found["nodes"][1:]
            }
            self.assertTrue(sources and sources <= expected, (speculation, sources))

    def test_answers_keep_to_their_format(self):
        schema = {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 12},
                "size": {"type": "integer", "minimum": 0, "maximum": 500},
                "kind": {"enum": ["file", "folder", "grün"]},
            },
            "required": ["name", "size", "kind"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "entry", "schema": schema}}
        body = {"max_tokens": 200, "temperature": 0.9, "prompt": "An entry: "}
        for seed in range(4):
            texts = set()
            for turn, strategy in enumerate(STRATEGIES):
                if turn > 0 and not serving.runs(turn, seed):
                    continue
                asked = {**body, "seed": seed, "strategy": strategy, "response_format": form}
                status, _, answer = self.server.post("/v1/completions", asked)
                if status == 400:
                    self.assertIn(strategy, str(answer))
                    continue
                self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
                texts.add(answer["choices"][0]["text"])
            self.assertEqual(len(texts), 1, texts)
            entry = json.loads(texts.pop())
            self.assertEqual(sorted(entry), ["kind", "name", "size"])
            self.assertIn(entry["kind"], ["file", "folder", "grün"])
            self.assertTrue(0 <= entry["size"] <= 500 and len(entry["name"]) <= 12)
        chosen = self.server.completion("x", max_tokens=20, guided_choice=["yes", "no", 'a "b"'])
        self.assertIn(chosen["choices"][0]["text"], ["yes", "no", 'a "b"'])
        dated = self.server.completion(
            "Today is ", max_tokens=20, grammar='root ::= [0-9]{4} "-" [0-9]{2} "-" [0-9]{2}'
        )
        self.assertRegex(dated["choices"][0]["text"], r"^\d{4}-\d{2}-\d{2}$")
        regex = r"[a-f]{3}-(\d|x){2,5}"
        for guide in ({"guided_regex": regex}, {"structured_outputs": {"regex": regex}}):
            texts = {
                self.server.completion(
                    "x", max_tokens=20, temperature=1, seed=3, strategy=strategy, **guide
                )["choices"][0]["text"]
                for strategy in STRATEGIES
            }
            self.assertEqual(len(texts), 1, texts)
            self.assertRegex(texts.pop(), f"^{regex}$")
        for outputs, accepted in (
            ({"choice": ["yes", "no"]}, "^(yes|no)$"),
            ({"grammar": 'root ::= "<" [0-9] ">"'}, "^<[0-9]>$"),
            ({"json": {"enum": ["a", 1]}}, '^("a"|1)$'),
            ({"json": '{"type": "boolean"}'}, "^(true|false)$"),
        ):
            made = self.server.completion("x", max_tokens=9, structured_outputs=outputs)
            self.assertRegex(made["choices"][0]["text"], accepted)
        # The forms that llama-server accepts.
        for form in (
            {"json_schema": {"const": "42"}},
            {"response_format": {"type": "json_object", "schema": {"const": "42"}}},
            {"response_format": {"type": "json_schema", "schema": {"const": "42"}}},
        ):
            made = self.server.completion("x", max_tokens=9, **form)
            self.assertEqual(made["choices"][0]["text"], '"42"')
        for wrong, word in (
            ({"guided_regex": "(a"}, "regex"),
            ({"guided_regex": 3}, "guided_regex"),
            ({"guided_regex": "a" * 300_000}, "bytes"),
            ({"structured_outputs": {}}, "structured_outputs"),
            ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
            ({"structured_outputs": {"structural_tag": "a"}}, "structured_outputs"),
            ({"guided_regex": "a", "min_tokens": 2}, "min_tokens"),
            ({"response_format": {"type": "json_schema"}}, "response_format"),
            ({"response_format": {"type": "json_object", "schema": 3}}, "response_format"),
            ({"response_format": {"type": "json_object", "schema": {"type": "big"}}}, "type"),
            ({"grammar": "root = x"}, "line 1"),
            ({"grammar": 'root ::= "x"', "guided_json": {}}, "grammar"),
            ({"guided_json": {"type": "string", "pattern": "(?=a)"}}, "pattern"),
            ({"guided_json": {}, "ignore_eos": True}, "ignore_eos"),
        ):
            self.refused(self.server.post("/v1/completions", {"prompt": "x", **wrong}), 400, word)

    def test_what_is_wrong_is_named(self):
        prompt = {"prompt": "x"}
        cases = [
            ({}, "prompt"),
            ({"prompt": {"a": 1}}, "prompt"),
            ({"prompt": []}, "prompt"),
            ({"prompt": [1, -2]}, "prompt"),
            ({"prompt": [10**7]}, "prompt"),
            ({**prompt, "temperature": "hot"}, "temperature"),
            ({**prompt, "temperature": -1}, "temperature"),
            ({**prompt, "top_p": 1.5}, "top_p"),
            ({**prompt, "max_tokens": -1}, "max_tokens"),
            ({**prompt, "prompt_logprobs": 99}, "prompt_logprobs"),
            ({**prompt, "max_tokens": 1.5}, "max_tokens"),
            ({**prompt, "max_tokens": 10**30}, "max_tokens"),
            ({**prompt, "n": 1000}, "n"),
            ({**prompt, "stop": [1]}, "stop[0]"),
            ({**prompt, "stop": [""]}, "stop[0]"),
            ({**prompt, "tool_choice": "auto"}, "tool_choice"),
            ({**prompt, "speculation": {"draft_depth": 100_000}}, "speculation.draft_depth"),
            ({**prompt, "speculation": {"depth": 3}}, "speculation.depth"),
            ({**prompt, "stop": ["x"] * 100}, "stop"),
            ({**prompt, "stop": ["x", "x" * 4097]}, "stop[1]"),
            ({**prompt, "logit_bias": {"no": 1}}, "logit_bias"),
            ({**prompt, "logit_bias": {"99999999": 1}}, "logit_bias"),
            ({**prompt, "logit_bias": [1]}, "logit_bias"),
            ({**prompt, "seed": "x"}, "seed"),
            ({**prompt, "stream": "yes"}, "stream"),
            ({**prompt, "stream_options": {}}, "stream_options"),
            ({**prompt, "logprobs": 99}, "logprobs"),
            ({**prompt, "suffix": "x"}, "suffix"),
            ({**prompt, "best_of": 3}, "best_of"),
            ({**prompt, "seed": 2**64}, "seed"),
            ({**prompt, "bad_words": ["the"]}, "bad_words"),
            ({**prompt, "allowed_token_ids": [5]}, "allowed_token_ids"),
            ({**prompt, "truncate_prompt_tokens": 3}, "truncate_prompt_tokens"),
            ({**prompt, "use_beam_search": True}, "use_beam_search"),
            ({**prompt, "strategy": "magic"}, "strategy"),
            ({**prompt, "speculation": {"verify_tokens": "x"}}, "speculation.verify_tokens"),
        ]
        for body, param in cases:
            error = self.refused(self.server.post("/v1/completions", body), 400, param)
            self.assertEqual(error["type"], "invalid_request_error")
            if param != "strategy":
                self.assertEqual(error["param"], param, error)
        # A client's words within a message are not taken for the engine's.
        words = "prompt: found 9 tokens; accepted: at most 7 for a context of 8"
        error = self.refused(self.server.post("/v1/completions", {**prompt, "seed": words}), 400)
        self.assertIsNone(error["code"], error)
        chat = {"messages": [{"role": "user", "content": "x"}]}
        for body, word in (
            ({"messages": "x"}, "messages"),
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "user"}]}, "messages[0]"),
            ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url"),
            ({**chat, "top_logprobs": 3}, "top_logprobs"),
            ({**chat, "tools": [1]}, "tools"),
            ({**chat, "response_format": {"type": "xml"}}, "response_format"),
            ({**chat, "functions": [{"name": "f"}]}, "functions"),
            ({**chat, "modalities": ["text", "audio"]}, "modalities"),
            ({**chat, "chat_template": "{{ x }}"}, "chat_template"),
            ({**chat, "echo": True}, "echo"),
        ):
            self.refused(self.server.post("/v1/chat/completions", body), 400, word)

    def test_unknown_fields_and_nulls_are_left_aside(self):
        body = {
            "prompt": "x",
            "max_tokens": 2,
            "user": "me",
            "whatever": [1],
            "temperature": None,
            "stop": None,
            "bad_words": [],
            "use_beam_search": False,
        }
        self.assertEqual(self.server.post("/v1/completions", body)[0], 200)
        chat = {
            "messages": [{"role": "user", "content": "x"}],
            "max_tokens": 2,
            "functions": None,
            "modalities": ["text"],
            "reasoning_effort": "low",
            "documents": [{"title": "a", "text": "b"}],
        }
        self.assertEqual(self.server.post("/v1/chat/completions", chat)[0], 200)

    def test_too_long_a_prompt(self):
        error = self.refused(
            self.server.post("/v1/completions", {"prompt": [5] * 9000}), 400, "9000"
        )
        self.assertEqual(error["code"], "context_length_exceeded")

    def test_models(self):
        _, _, models = self.server.get("/v1/models")
        name = models["data"][0]["id"]
        self.assertEqual(self.server.get("/v1/models/" + name)[2]["id"], name)
        why = f"model: found 'other'; accepted: '{name}'"
        self.refused(self.server.get("/v1/models/other"), 404, why)
        error = self.refused(
            self.server.post("/v1/completions", {"model": "other", "prompt": "x"}), 404, why
        )
        self.assertEqual(error["code"], "model_not_found")
        self.assertEqual(
            self.server.post("/v1/completions", {"model": name, "prompt": "x"})[0], 200
        )

    def test_the_dashboard_asks_for_what_metrics_there_are(self):
        self.server.completion("x", max_tokens=8, strategy="serial_tree")
        _, _, text = self.server.get("/metrics")
        there = set(re.findall(r"^(forerun_\w+)", text.decode(), re.MULTILINE))
        dashboard = (serving.ROOT / "docs" / "grafana-dashboard.json").read_text()
        asked = [
            target["expr"]
            for panel in json.loads(dashboard)["panels"]
            for target in panel["targets"]
        ]
        names = {name for expression in asked for name in re.findall(r"forerun_\w+", expression)}
        self.assertGreater(len(names), 10)
        self.assertEqual(names - there, set())

    def test_what_is_not_done_says_so(self):
        self.refused(self.server.post("/v1/embeddings", {"input": "x"}), 501)

    def test_a_path_without_v1_is_told(self):
        self.refused(self.server.post("/chat/completions", {}), 404, "/v1/chat/completions")
        self.assertIn("version", self.server.get("/version")[2])

    def test_llama_servers_endpoints(self):
        defaults = self.server.get("/props")[2]["default_generation_settings"]
        self.assertEqual(defaults["n_ctx"], 8192)
        self.assertEqual(defaults["frequency_penalty"], 0)
        _, _, made = self.server.post("/tokenize", {"content": "def f(", "with_pieces": True})
        self.assertEqual("".join(token["piece"] for token in made["tokens"]), "def f(")


if __name__ == "__main__":
    serving.main()
