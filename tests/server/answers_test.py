"""Answers of models that reason and of models that call tools: formats hold behind the reasoning,
forced calls end, calls that were cut are none; log-probabilities, fields and errors as clients of
OpenAI's API and of vLLM read them."""

import itertools
import json
import tempfile
from pathlib import Path

import cases
import serving

STRATEGIES = ["autoregressive", "serial_tree", "parallel_tree", "sparse_self", "pipelined", "auto"]
# The demo pair's last token becomes this tag, so that the models can be made to write it.
TAG, TAG_TOKEN, ITS_OLD_TEXT = "</think>", 8191, "cb"
MESSAGES = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
TOOLS = "{% if tools %}{{ tools | tojson }}\n{% endif %}"
CALLS = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}{% endfor %}"
)
# Opens the reasoning in the prompt, unless it is told not to.
OPENS = (
    TOOLS + MESSAGES + CALLS + "{% if add_generation_prompt %}assistant: <think>\n"
    "{% if enable_thinking is defined and not enable_thinking %}\n</think>\n\n{% endif %}"
    "{% endif %}"
)
# Leaves the opening tag to the model.
LEAVES = (
    TOOLS + MESSAGES + CALLS + "{# </think> #}{% if add_generation_prompt %}assistant: {% endif %}"
)
SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["file", "folder"]},
        "size": {"type": "integer", "maximum": 99},
    },
    "required": ["kind", "size"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "entry", "schema": SCHEMA}}
CHAT = "/v1/chat/completions"
ASKED = {"messages": [{"role": "user", "content": "An entry."}]}


def changed_pair(folder, template):
    """The demo pair with another chat template, and a tag for a token."""
    made = []
    for model in (serving.TARGET, serving.DRAFT):
        copy = Path(folder) / model.name
        copy.mkdir()
        for file in model.iterdir():
            if not file.name.startswith("tokenizer"):
                (copy / file.name).symlink_to(file)
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        assert vocabulary.pop(ITS_OLD_TEXT) == TAG_TOKEN
        vocabulary[TAG] = TAG_TOKEN
        merges = tokenizer["model"]["merges"]
        tokenizer["model"]["merges"] = [pair for pair in merges if "".join(pair) != ITS_OLD_TEXT]
        plain = {**tokenizer["added_tokens"][0], "special": False}
        tokenizer["added_tokens"].append({**plain, "id": TAG_TOKEN, "content": TAG})
        (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
        config = json.loads((model / "tokenizer_config.json").read_text())
        (copy / "tokenizer_config.json").write_text(
            json.dumps({**config, "chat_template": template})
        )
        made.append(copy)
    return made


class ChangedPair(serving.ServerTest):
    TEMPLATE = OPENS

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        model, draft = changed_pair(cls.folder.name, cls.TEMPLATE)
        cls.server = serving.Server(*cls.FLAGS, model=model, draft=draft)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def chat(self, **fields):
        status, _, answer = self.server.post(CHAT, {**ASKED, **fields})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]

    def streamed(self, **fields):
        """Reasoning, content, calls, and how it ended, put together from a stream."""
        reasoning, content, calls, reason = "", "", [], None
        for event in self.server.stream(CHAT, {**ASKED, **fields}):
            for choice in event["choices"]:
                delta = choice["delta"]
                reasoning += delta.get("reasoning_content") or ""
                content += delta.get("content") or ""
                for call in delta.get("tool_calls") or []:
                    if "id" in call:
                        calls.append({"name": call["function"]["name"], "arguments": ""})
                    calls[-1]["arguments"] += call["function"]["arguments"]
                reason = choice["finish_reason"] or reason
        return reasoning, content, calls, reason


class Reasoning(ChangedPair):
    def check_entry(self, text):
        entry = json.loads(text)
        self.assertEqual(sorted(entry), ["kind", "size"])
        self.assertIn(entry["kind"], ("file", "folder"))

    def test_a_format_holds_behind_the_reasoning(self):
        reasoned = 0
        for turn, (seed, bias) in enumerate(((1, 9), (2, 10), (3, 11))):
            asked = {"seed": seed, "temperature": 1.0, "max_tokens": 300, "response_format": FORMAT}
            asked["logit_bias"] = {str(TAG_TOKEN): bias}
            said = set()
            for number, strategy in enumerate(STRATEGIES):
                if number > 0 and serving.PART > 1 and (turn + number) % 3 != 0:
                    continue
                choice = self.chat(**asked, strategy=strategy)
                message = choice["message"]
                if choice["finish_reason"] == "stop":
                    self.check_entry(message["content"])
                else:
                    self.assertEqual(message["content"], "")
                said.add((message.get("reasoning_content", ""), message["content"]))
            self.assertEqual(len(said), 1, said)
            (reasoning, content) = said.pop()
            self.assertNotIn(TAG, reasoning + content)
            reasoned += bool(reasoning) and bool(content)
            self.assertEqual(self.streamed(**asked)[:2], (reasoning, content))
        self.assertGreater(reasoned, 0)

    def test_reasoning_that_does_not_end_is_cut(self):
        choice = self.chat(max_tokens=8, temperature=0, response_format=FORMAT)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(choice["message"]["content"], "")
        self.assertTrue(choice["message"]["reasoning_content"])
        plain = self.chat(max_tokens=8, temperature=0)["message"]
        self.assertEqual(choice["message"]["reasoning_content"], plain["reasoning_content"])

    def test_without_reasoning_it_holds_at_once(self):
        off = {"chat_template_kwargs": {"enable_thinking": False}}
        for form in ({"response_format": FORMAT}, {"guided_json": SCHEMA}):
            choice = self.chat(max_tokens=100, temperature=0, **form, **off)
            self.check_entry(choice["message"]["content"])
            self.assertNotIn("reasoning_content", choice["message"])

    def test_responses_too(self):
        body = {"input": "An entry.", "temperature": 0, "max_output_tokens": 100}
        body["text"] = {"format": {"type": "json_schema", "name": "entry", "schema": SCHEMA}}
        body["logit_bias"] = {str(TAG_TOKEN): 100}
        status, _, answer = self.server.post("/v1/responses", body)
        self.assertEqual(status, 200, answer)
        (message,) = [item for item in answer["output"] if item["type"] == "message"]
        self.check_entry(message["content"][0]["text"])

    def test_forced_calls_come_behind_it(self):
        asked = {"tools": cases.TOOLS, "tool_choice": "required", "temperature": 1.0, "seed": 5}
        asked |= {"max_tokens": 300, "logit_bias": {str(TAG_TOKEN): 11}}
        choice = self.chat(**asked)
        self.assertEqual(choice["finish_reason"], "tool_calls")
        (call,) = choice["message"]["tool_calls"]
        json.loads(call["function"]["arguments"])
        self.assertIsNone(choice["message"]["content"])


class ReasoningByItself(ChangedPair):
    TEMPLATE = LEAVES

    def test_an_answer_may_begin_with_its_format(self):
        said = set()
        for strategy in STRATEGIES:
            choice = self.chat(
                max_tokens=100, temperature=0.8, seed=4, response_format=FORMAT, strategy=strategy
            )
            self.assertEqual(choice["finish_reason"], "stop")
            said.add((choice["message"].get("reasoning_content"), choice["message"]["content"]))
        self.assertEqual(len(said), 1, said)
        self.assertIn(json.loads(said.pop()[1])["kind"], ("file", "folder"))

    def test_or_with_its_own_reasoning(self):
        # '<' begins the tag and no entry; then the tag is all that may follow.
        less = self.server.post("/tokenize", {"prompt": "<"})[2]["tokens"]
        self.assertEqual(len(less), 1)
        asked = {"temperature": 0, "max_tokens": 200, "response_format": FORMAT}
        asked["logit_bias"] = {str(less[0]): 100, str(TAG_TOKEN): 100}
        message = self.chat(**asked)["message"]
        text = message.get("reasoning_content", "") + message["content"]
        self.assertNotIn("<think>", text)
        if message["content"]:
            self.assertIn(json.loads(message["content"])["kind"], ("file", "folder"))


class Calls(ChangedPair):
    TEMPLATE = TOOLS + MESSAGES + CALLS + "{% if add_generation_prompt %}assistant: {% endif %}"

    def forced(self, **fields):
        asked = {"tools": cases.TOOLS, "temperature": 1.0, "seed": 3, "max_tokens": 400}
        return {**asked, **fields}

    def test_one_call_where_one_is_asked_for(self):
        named = {"type": "function", "function": {"name": "look"}}
        choices = (
            {"tool_choice": named},
            {"tool_choice": named, "parallel_tool_calls": True},
            {"tool_choice": "required"},
            {"tool_choice": "required", "parallel_tool_calls": False},
        )
        for turn, fields in enumerate(choices):
            for seed in range(3) if serving.PART == 1 else [turn % 3]:
                asked = self.forced(**fields, seed=seed)
                choice = self.chat(**asked)
                self.assertEqual(choice["finish_reason"], "tool_calls", fields)
                (call,) = choice["message"]["tool_calls"]
                _, content, calls, reason = self.streamed(**asked)
                self.assertEqual((content, reason), ("", "tool_calls"))
                self.assertEqual(
                    calls, [{key: call["function"][key] for key in ("name", "arguments")}]
                )
        several = self.forced(tool_choice="required", parallel_tool_calls=True, max_tokens=2000)
        choice = self.chat(**several)
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertLessEqual(len(choice["message"]["tool_calls"]), 16)

    def test_a_call_that_is_cut_is_none(self):
        named = {"type": "function", "function": {"name": "look"}}
        asked = self.forced(tool_choice=named)
        whole = self.chat(**asked)
        used = self.server.post(CHAT, {**ASKED, **asked})[2]["usage"]["completion_tokens"]
        (call,) = whole["message"]["tool_calls"]
        for most in itertools.chain(range(1, used, 3 * serving.PART - 2), (used,)):
            choice = self.chat(**{**asked, "max_tokens": most})
            self.assertEqual(choice["message"]["content"] or "", "", most)
            for got in choice["message"].get("tool_calls", []):
                self.assertEqual(got["function"], call["function"])
            if most < used // 2:
                self.assertNotIn("tool_calls", choice["message"])
                self.assertEqual(choice["finish_reason"], "length")
            _, content, _, reason = self.streamed(**{**asked, "max_tokens": most})
            self.assertEqual((content, reason), ("", choice["finish_reason"]))
        for stop in ("city", "tool_call", '"arguments"'):
            choice = self.chat(**asked, stop=stop)
            self.assertEqual(choice["message"]["content"], "")
            self.assertNotIn("tool_calls", choice["message"])
            self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))
            _, content, _, reason = self.streamed(**asked, stop=stop)
            self.assertEqual((content, reason), ("", "stop"))
        body = {"input": "x", "tools": [{"type": "function", "name": "rest"}]}
        body |= {"tool_choice": "required", "max_output_tokens": 6}
        answer = self.server.post("/v1/responses", body)[2]
        self.assertEqual((answer["status"], answer["output"]), ("incomplete", []))

    def test_a_schema_of_a_tool_is_named(self):
        bad = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)"}}}
        tools = [cases.TOOLS[1], {"type": "function", "function": {"name": "f", "parameters": bad}}]
        error = self.refused(
            self.server.post(CHAT, {**ASKED, "tools": tools, "tool_choice": "required"}), 400
        )
        self.assertEqual(error["param"], "tools[1].function.parameters", error)


class Fields(serving.ServerTest):
    def test_tools_that_a_template_leaves_out(self):
        asked = {**ASKED, "tools": cases.TOOLS, "max_tokens": 2}
        for choice in ({}, {"tool_choice": "auto"}, {"tool_choice": "required"}):
            error = self.refused(self.server.post(CHAT, {**asked, **choice}), 400, "template")
            self.assertEqual(error["param"], "tools")
        status, _, answer = self.server.post(CHAT, {**asked, "tool_choice": "none"})
        self.assertEqual(status, 200, answer)

    def test_params_are_what_was_sent(self):
        def param(path, body, *words):
            return self.refused(self.server.post(path, body), 400, *words)["param"]

        user = {"role": "user", "content": "x"}
        image = [{"type": "text", "text": "x"}, {"type": "image_url"}]
        items = [
            {"role": "user", "content": "x"},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{"},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_image"}]},
        ]
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "big"}}}
        for path, body, expected in (
            (CHAT, {"messages": [user, {**user, "content": image}]}, "messages[1].content[1].type"),
            (CHAT, {**ASKED, "tool_choice": "auto"}, "tool_choice"),
            (CHAT, {**ASKED, "tool_choice": "required"}, "tool_choice"),
            (CHAT, {**ASKED, "response_format": schema}, "response_format.json_schema.schema"),
            (CHAT, {**ASKED, "guided_json": {"type": "big"}}, "guided_json"),
            (CHAT, {**ASKED, "grammar": "root = x"}, "grammar"),
            (CHAT, {**ASKED, "max_completion_tokens": 3, "min_tokens": 4}, "min_tokens"),
            (CHAT, {**ASKED, "speculation": {"draft_depth": -1}}, "speculation.draft_depth"),
            (CHAT, {**ASKED, "logit_bias": {"5": 100.5}}, "logit_bias"),
            (CHAT, {**ASKED, "logit_bias": {"5": -101}}, "logit_bias"),
            (CHAT, {**ASKED, "stop_token_ids": [5, 8192]}, "stop_token_ids[1]"),
            (CHAT, {**ASKED, "stop_token_ids": [5, -1]}, "stop_token_ids[1]"),
            (CHAT, {"messages": [{**user, "content": "x " * 9000}]}, "messages"),
            ("/v1/completions", {"prompt": ["a", {}]}, "prompt[1]"),
            ("/v1/completions", {"prompt": ["a", [5] * 9000]}, "prompt[1]"),
            ("/v1/completions", {"prompt": [5] * 9000}, "prompt"),
            (
                "/v1/completions",
                {"prompt": "a", "structured_outputs": {"regex": "("}},
                "structured_outputs.regex",
            ),
            ("/v1/responses", {"input": items[:1] + [{"type": "x"}]}, "input[1].type"),
            ("/v1/responses", {"input": [3]}, "input[0]"),
            ("/v1/responses", {"input": items[:2]}, "input[1].arguments"),
            (
                "/v1/responses",
                {"input": [items[0], {**items[1], "arguments": "{}"}, items[2]]},
                "input[2].output[0].type",
            ),
            (
                "/v1/responses",
                {"instructions": "i", "input": [{"role": "user", "content": 3}]},
                "input[0].content",
            ),
            ("/v1/responses", {"input": "x " * 9000}, "input"),
            ("/v1/responses", {"input": "x", "include": ["nothing"]}, "include[0]"),
            (
                "/v1/responses",
                {
                    "input": "x",
                    "text": {
                        "format": {"type": "json_schema", "name": "x", "schema": {"type": "big"}}
                    },
                },
                "text.format.schema",
            ),
        ):
            self.assertEqual(param(path, body), expected, body if len(str(body)) < 500 else path)

    def test_the_context_is_told_in_openais_words(self):
        for path, body in (
            (CHAT, {"messages": [{"role": "user", "content": "x " * 9000}]}),
            ("/v1/completions", {"prompt": [5] * 9000}),
            ("/v1/responses", {"input": "x " * 9000}),
        ):
            error = self.refused(
                self.server.post(path, body),
                400,
                "This model's maximum context length is 8192 tokens. However, ",
            )
            self.assertEqual(error["code"], "context_length_exceeded")
        # A client's words are not the engine's.
        words = "prompt: found 9 tokens; accepted: at most 7 for a context of 8"
        error = self.refused(
            self.server.post("/v1/completions", {"prompt": "x", "seed": words}), 400
        )
        self.assertIsNone(error["code"])

    def test_what_stopped_an_answer(self):
        body = {"prompt": "def f(", "max_tokens": 30, "temperature": 0}
        whole = self.server.completion(**body, return_token_ids=True)["choices"][0]
        self.assertIsNone(whole["stop_reason"])
        stop = whole["text"][5:9]
        cut = self.server.completion(**body, stop=["never said", stop])["choices"][0]
        self.assertEqual((cut["finish_reason"], cut["stop_reason"]), ("stop", stop))
        token = whole["token_ids"][6]
        cut = self.server.completion(**body, stop_token_ids=[token])["choices"][0]
        self.assertEqual((cut["finish_reason"], cut["stop_reason"]), ("stop", token))
        events = self.server.stream("/v1/completions", {**body, "stop": stop})
        self.assertEqual(events[-1]["choices"][0]["stop_reason"], stop)
        events = self.server.stream(
            CHAT, {**ASKED, "temperature": 0, "stop": "e", "max_tokens": 99}
        )
        self.assertEqual(events[-1]["choices"][0]["stop_reason"], "e")

    def test_token_ids_and_continuous_usage(self):
        options = {"include_usage": True, "continuous_usage_stats": True}
        body = {"prompt": ["def f(", "x"], "max_tokens": 12, "temperature": 0}
        whole = self.server.completion(**body, return_token_ids=True)
        streamed = {0: [], 1: []}
        asked = {**body, "return_token_ids": True, "stream_options": options}
        for event in self.server.stream("/v1/completions", asked):
            for choice in event["choices"]:
                idx = choice["index"]
                if not streamed[idx]:
                    self.assertEqual(
                        choice["prompt_token_ids"], whole["choices"][idx]["prompt_token_ids"]
                    )
                streamed[idx] += choice["token_ids"]
                self.assertEqual(event["usage"]["completion_tokens"], len(streamed[idx]))
                self.assertEqual(
                    event["usage"]["prompt_tokens"], len(whole["choices"][idx]["prompt_token_ids"])
                )
        for choice in whole["choices"]:
            self.assertEqual(choice["token_ids"], streamed[choice["index"]])
            self.assertEqual(len(choice["token_ids"]), 12)
        chat = {**ASKED, "max_tokens": 9, "temperature": 0, "return_token_ids": True}
        whole = self.server.post(CHAT, chat)[2]
        self.assertEqual(len(whole["prompt_token_ids"]), whole["usage"]["prompt_tokens"])
        events = self.server.stream(CHAT, {**chat, "stream_options": options})
        self.assertEqual(events[0]["prompt_token_ids"], whole["prompt_token_ids"])
        tokens = [t for e in events for c in e["choices"] for t in c.get("token_ids", [])]
        self.assertEqual(tokens, whole["choices"][0]["token_ids"])
        counts = [event["usage"]["completion_tokens"] for event in events]
        self.assertEqual((counts, counts[0], counts[-1]), (sorted(counts), 0, 9))
        # Without include_usage there is none, as in vLLM.
        only = {**chat, "stream_options": {"continuous_usage_stats": True}}
        self.assertNotIn("usage", self.server.stream(CHAT, only)[1])

    def test_tokens_that_cut_characters(self):
        text = "grün, 漢字 🦙!"
        tokens = self.server.post("/tokenize", {"prompt": text})[2]["tokens"]
        self.assertGreater(len(tokens), len(text))
        asked = {"max_tokens": 0, "echo": True, "logprobs": 5}
        choice = self.server.completion(tokens, **asked)["choices"][0]
        logprobs = choice["logprobs"]
        self.assertEqual(choice["text"], text)

        def bytes_of(spelled):
            if not spelled.startswith("bytes:"):
                return spelled.encode()
            return bytes.fromhex(spelled[len("bytes:") :].replace("\\x", ""))

        pieces = [bytes_of(token) for token in logprobs["tokens"]]
        self.assertEqual(b"".join(pieces).decode(), text)
        self.assertTrue(any(token.startswith("bytes:\\x") for token in logprobs["tokens"]))
        before = b""
        for piece, offset in zip(pieces, logprobs["text_offset"]):
            self.assertEqual(offset, len(before.decode(errors="ignore")))
            before += piece
        for token, top in zip(logprobs["tokens"][1:], logprobs["top_logprobs"][1:]):
            self.assertIn(token, top)
            self.assertIn(len(top), (5, 6))
        # The same for drawn tokens: forces a character of which each byte is a token.
        forced = self.server.completion(
            "x", max_tokens=9, logprobs=3, guided_choice=["漢🦙!"], temperature=0
        )["choices"][0]
        logprobs = forced["logprobs"]
        before = b""
        for piece, offset in zip(map(bytes_of, logprobs["tokens"]), logprobs["text_offset"]):
            self.assertEqual(offset, len(before.decode(errors="ignore")))
            before += piece
        self.assertTrue(before.decode(errors="replace").startswith(forced["text"]))
        ids = self.server.completion(tokens, **asked, return_tokens_as_token_ids=True)
        self.assertEqual(
            ids["choices"][0]["logprobs"]["tokens"], [f"token_id:{token}" for token in tokens]
        )

    def test_probabilities_of_responses(self):
        body = {"input": "Write a loop.", "max_output_tokens": 8, "temperature": 0}
        include = {"include": ["message.output_text.logprobs"]}
        plain = self.server.post("/v1/responses", body)[2]
        self.assertEqual(plain["output"][0]["content"][0]["logprobs"], [])
        for fields, alternatives in (
            (include, 0),
            ({**include, "top_logprobs": 3}, 3),
            ({"top_logprobs": 2}, 2),
        ):
            answer = self.server.post("/v1/responses", {**body, **fields})[2]
            (part,) = answer["output"][0]["content"]
            entries = part["logprobs"]
            self.assertEqual(b"".join(bytes(e["bytes"]) for e in entries).decode(), part["text"])
            self.assertEqual({len(entry["top_logprobs"]) for entry in entries}, {alternatives})
            events = self.server.stream("/v1/responses", {**body, **fields}, ends_with=None)
            told = [
                entry
                for event in events
                if event["type"] == "response.output_text.delta"
                for entry in event["logprobs"]
            ]
            self.assertEqual(told, entries)
            done = [e for e in events if e["type"] == "response.output_text.done"]
            self.assertEqual(done[0]["logprobs"], entries)
        refused = self.server.post("/v1/responses", {**body, "top_logprobs": 21})
        self.assertEqual(self.refused(refused, 400)["param"], "top_logprobs")

    def test_a_refusal_is_read(self):
        part = {"type": "refusal", "refusal": "I cannot."}
        messages = [*ASKED["messages"], {"role": "assistant", "content": [part]}]
        messages.append({"role": "user", "content": "Why?"})
        plain = [messages[0], {"role": "assistant", "content": "I cannot."}, messages[2]]
        made = [
            self.server.post("/tokenize", {"messages": sent})[2]["tokens"]
            for sent in (messages, plain)
        ]
        self.assertEqual(made[0], made[1])

    def test_slots_are_all_there(self):
        slots = self.server.get("/slots")[2]
        self.assertEqual([slot["id"] for slot in slots], list(range(len(slots))))
        self.assertEqual(len(slots), self.server.get("/props")[2]["total_slots"])
        self.assertFalse(any(slot["is_processing"] for slot in slots))
        with serving.Server("--max-requests", "3", draft=False) as server:
            self.assertEqual(len(server.get("/slots")[2]), 3)


if __name__ == "__main__":
    serving.main()
