"""OpenAI's own Python client, and its published shapes, against the server.

The client comes from build/venv (scripts/test); skipped where it is not there. Shapes are those of
../shared/data/api, where that is there.
"""

import json
import lzma
import os
import sys
import unittest
from pathlib import Path

import serving

try:
    import jsonschema
    import openai
except ImportError:
    if serving.PYTHON.exists() and os.path.realpath(sys.prefix) != os.path.realpath(
        serving.PYTHON.parent.parent
    ):
        os.execv(serving.PYTHON, [str(serving.PYTHON), *sys.argv])
    serving.skip("skipped: no openai client; scripts/test installs tests/server/requirements.txt")

SPECIFICATION = serving.ROOT.parent / "shared" / "data" / "api" / "openai-openapi.json.xz"


class Client(serving.ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)
        cls.model = cls.client.models.list().data[0].id

    def chat(self, **fields):
        fields = {"model": self.model, "max_tokens": 12, "seed": 5, **fields}
        fields.setdefault("messages", [{"role": "user", "content": "Write a loop."}])
        return self.client.chat.completions.create(**fields)

    def test_chat_and_its_stream_say_the_same(self):
        whole = self.chat(temperature=0.7)
        pieces = list(
            self.chat(temperature=0.7, stream=True, stream_options={"include_usage": True})
        )
        text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(pieces[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(
            [p.choices[0].finish_reason for p in pieces if p.choices][-1],
            whole.choices[0].finish_reason,
        )

    def test_several_choices(self):
        whole = self.chat(n=3, temperature=1.0)
        self.assertEqual([choice.index for choice in whole.choices], [0, 1, 2])
        texts = {}
        for piece in self.chat(n=3, temperature=1.0, stream=True):
            for choice in piece.choices:
                texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
        self.assertEqual([texts[i] for i in range(3)], [c.message.content for c in whole.choices])

    def test_the_stream_helper(self):
        with self.client.chat.completions.stream(
            model=self.model, messages=[{"role": "user", "content": "x"}], max_tokens=8
        ) as stream:
            text = "".join(event.delta for event in stream if event.type == "content.delta")
        self.assertTrue(text)

    def test_completions(self):
        whole = self.client.completions.create(
            model=self.model, prompt=["def f(", "x = "], max_tokens=6, temperature=0, logprobs=2
        )
        self.assertEqual(len(whole.choices), 2)
        self.assertEqual(len(whole.choices[0].logprobs.tokens), 6)
        pieces = self.client.completions.create(
            model=self.model, prompt="def f(", max_tokens=6, temperature=0, stream=True
        )
        self.assertEqual("".join(p.choices[0].text for p in pieces), whole.choices[0].text)

    def test_a_prompt_is_scored(self):
        scored = self.client.completions.create(
            model=self.model, prompt="def f(x):", max_tokens=0, temperature=0, logprobs=1, echo=True
        )
        logprobs = scored.choices[0].logprobs
        self.assertEqual("".join(logprobs.tokens), "def f(x):")
        self.assertIsNone(logprobs.token_logprobs[0])
        for chosen, top in zip(logprobs.token_logprobs[1:], logprobs.top_logprobs[1:]):
            self.assertLessEqual(chosen, max(top.values()))
        self.assertEqual(scored.usage.completion_tokens, 0)
        chat = self.chat(extra_body={"prompt_logprobs": 1})
        self.assertEqual(len(chat.prompt_logprobs), chat.usage.prompt_tokens)

    def test_log_probabilities(self):
        entries = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        for entry in entries:
            self.assertLessEqual(entry.logprob, 0)
            self.assertEqual(len(entry.top_logprobs), 3)

    def test_tools_are_taken(self):
        tools = [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks",
                    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
                },
            }
        ]
        with self.assertRaisesRegex(openai.BadRequestError, "chat template does not write them"):
            self.chat(tools=tools, tool_choice="auto")
        messages = [
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"at": "it"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
        ]
        with serving.Server("--tool-format", "hermes") as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            for sent in (messages[:1], messages):
                answer = client.chat.completions.create(
                    model=self.model, max_tokens=12, messages=sent, tools=tools, tool_choice="auto"
                )
                self.assertIn(answer.choices[0].finish_reason, ("stop", "length", "tool_calls"))

    def test_probabilities_of_responses(self):
        answer = self.client.responses.create(
            model=self.model,
            input="Write a loop.",
            max_output_tokens=6,
            top_logprobs=2,
            include=["message.output_text.logprobs"],
        )
        logprobs = answer.output[0].content[0].logprobs
        self.assertEqual("".join(entry.token for entry in logprobs), answer.output_text)
        self.assertEqual([len(entry.top_logprobs) for entry in logprobs], [2] * len(logprobs))

    def test_responses(self):
        asked = {"model": self.model, "instructions": "Be brief.", "max_output_tokens": 12}
        asked |= {"temperature": 0.7, "extra_body": {"seed": 5}}
        whole = self.client.responses.create(**asked, input="Write a loop.")
        self.assertEqual(whole.status, "incomplete")
        self.assertEqual(whole.usage.output_tokens, 12)
        parts = [{"type": "input_text", "text": "Write a loop."}]
        pieces = list(
            self.client.responses.create(
                **asked, input=[{"role": "user", "content": parts}], stream=True
            )
        )
        text = "".join(p.delta for p in pieces if p.type == "response.output_text.delta")
        self.assertEqual(text, whole.output_text)
        self.assertEqual(pieces[-1].response.output_text, whole.output_text)
        self.assertEqual([p.sequence_number for p in pieces], list(range(len(pieces))))
        with self.assertRaises(openai.BadRequestError):
            self.client.responses.create(model=self.model, input="x", previous_response_id="resp_1")

    def test_calls_are_forced(self):
        schema = {
            "type": "object",
            "properties": {"city": {"enum": ["Bonn", "Kiel"]}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        }
        look = {"type": "function", "function": {"name": "look", "parameters": schema}}
        rest = {"type": "function", "function": {"name": "rest"}}
        named = {"type": "function", "function": {"name": "look"}}
        with serving.Server("--tool-format", "hermes") as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            asked = {"model": self.model, "messages": [{"role": "user", "content": "Weather?"}]}
            asked |= {"tools": [look, rest], "temperature": 1.0, "seed": 3, "max_tokens": 300}
            asked |= {"parallel_tool_calls": False}
            texts = set()
            for strategy in ("autoregressive", "serial_tree", "parallel_tree"):
                answer = client.chat.completions.create(
                    **asked, tool_choice=named, extra_body={"strategy": strategy}
                )
                (call,) = answer.choices[0].message.tool_calls
                self.assertEqual(call.function.name, "look")
                jsonschema.validate(json.loads(call.function.arguments), schema)
                self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
                texts.add(call.function.arguments)
            self.assertEqual(len(texts), 1)
            answer = client.chat.completions.create(**asked, tool_choice="required")
            self.assertIn(answer.choices[0].message.tool_calls[0].function.name, ("look", "rest"))
            pieces = client.chat.completions.create(**asked, tool_choice=named, stream=True)
            calls = [c for p in pieces for ch in p.choices for c in ch.delta.tool_calls or []]
            self.assertEqual("".join(c.function.arguments for c in calls), texts.pop())

    def test_errors_are_its_own_kinds(self):
        with self.assertRaises(openai.NotFoundError):
            self.chat(model="gpt-4o")
        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat(temperature=-1)
        self.assertEqual(refused.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError):
            self.chat(messages=[])

    def test_a_key(self):
        with serving.Server(env={"FORERUN_API_KEY": "k"}) as server:
            wrong = openai.OpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0)
            with self.assertRaises(openai.AuthenticationError):
                wrong.models.list()
            right = openai.OpenAI(base_url=server.url + "/v1", api_key="k", max_retries=0)
            self.assertEqual(right.models.list().data[0].id, self.model)

    def test_keys_do_not_see_what_others_have_had_read(self):
        prompt = "The same words again. " * 40
        keys = Path(serving.HOME.name) / "keys"
        keys.write_text("first\nsecond\n")
        with serving.Server("--api-key-file", keys) as server:

            def cached(key, **fields):
                client = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)
                answer = client.completions.create(
                    model=self.model, prompt=prompt, max_tokens=1, extra_body=fields
                )
                return answer.usage.prompt_tokens_details.cached_tokens

            self.assertEqual(cached("first"), 0)
            self.assertGreater(cached("first"), 64)
            self.assertEqual(cached("second"), 0)
            self.assertGreater(cached("second"), 64)
            # Nor by a salt that both name.
            self.assertEqual(cached("first", cache_salt="ours"), 0)
            self.assertEqual(cached("second", cache_salt="ours"), 0)
            self.assertGreater(cached("second", cache_salt="ours"), 64)


def with_nulls(schema):
    """The specification says "nullable" as OpenAPI 3.0 did, which JSON Schema does not know."""
    if isinstance(schema, list):
        return [with_nulls(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: with_nulls(value) for key, value in schema.items()}
    if made.pop("nullable", False) is True:
        return {"anyOf": [made, {"type": "null"}]}
    return made


class Shapes(serving.ServerTest):
    """Every answer against OpenAI's published schema of it."""

    @classmethod
    def setUpClass(cls):
        if not SPECIFICATION.exists():
            raise unittest.SkipTest(f"skipped: there is no {SPECIFICATION}")
        cls.components = with_nulls(json.loads(lzma.open(SPECIFICATION).read())["components"])
        super().setUpClass()

    def check(self, name, answer):
        schema = {"$ref": f"#/components/schemas/{name}", "components": self.components}
        errors = list(jsonschema.Draft202012Validator(schema).iter_errors(answer))
        self.assertEqual([f"{e.json_path}: {e.message[:200]}" for e in errors], [])

    def test_answers(self):
        chat = {
            "messages": [{"role": "user", "content": "x"}],
            "max_tokens": 5,
            "logprobs": True,
            "top_logprobs": 1,
        }
        _, _, answer = self.server.post("/v1/chat/completions", {**chat, "n": 2})
        self.check("CreateChatCompletionResponse", answer)
        for event in self.server.stream(
            "/v1/chat/completions",
            {
                **chat,
                "return_token_ids": True,
                "stop": "e",
                "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            },
        ):
            self.check("CreateChatCompletionStreamResponse", event)
        text = {"prompt": "def f(", "max_tokens": 5, "logprobs": 1, "return_token_ids": True}
        self.check("CreateCompletionResponse", self.server.post("/v1/completions", text)[2])
        # The specification has no shape of a chunk, whose reason is null until the last one.
        for event in self.server.stream("/v1/completions", text):
            for choice in event["choices"]:
                choice["finish_reason"] = choice["finish_reason"] or "stop"
            self.check("CreateCompletionResponse", event)
        asked = {"input": "x", "max_output_tokens": 5, "top_logprobs": 1}
        asked["include"] = ["message.output_text.logprobs"]
        self.check("Response", self.server.post("/v1/responses", asked)[2])
        for event in self.server.stream("/v1/responses", asked, ends_with=None):
            self.check("ResponseStreamEvent", event)
        self.check("ListModelsResponse", self.server.get("/v1/models")[2])
        self.check("ErrorResponse", self.server.post("/v1/completions", {})[2])


if __name__ == "__main__":
    serving.main()
