"""LangChain's client of OpenAI's API, a second opinion on the server beside OpenAI's own.

It brings two dozen packages, so scripts/test does not install it; skipped where it is not there:

    build/venv/bin/pip install langchain-openai==1.7.3
"""

import os
import sys

import serving

try:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_openai import ChatOpenAI, OpenAI
except ImportError:
    if serving.PYTHON.exists() and os.path.realpath(sys.prefix) != os.path.realpath(
        serving.PYTHON.parent.parent
    ):
        os.execv(serving.PYTHON, [str(serving.PYTHON), *sys.argv])
    serving.skip("skipped: no LangChain; build/venv/bin/pip install langchain-openai==1.7.3")

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Bonn", "Kiel"]}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
ENTRY = {
    "title": "entry",
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "size": {"type": "integer", "minimum": 0, "maximum": 500},
    },
    "required": ["name", "size"],
    "additionalProperties": False,
}


class LangChain(serving.ServerTest):
    FLAGS = ("--tool-format", "hermes")

    def chat(self, **fields):
        fields = {"max_tokens": 16, "temperature": 0.7, "seed": 5, **fields}
        return ChatOpenAI(
            base_url=self.server.url + "/v1",
            api_key="none",
            model="demo-target",
            max_retries=0,
            **fields,
        )

    def test_a_conversation_and_its_stream_say_the_same(self):
        messages = [SystemMessage("Be brief."), HumanMessage("Write a loop.")]
        whole = self.chat().invoke(messages)
        pieces = list(self.chat(stream_usage=True).stream(messages))
        self.assertTrue(whole.content)
        self.assertEqual("".join(piece.content for piece in pieces), whole.content)
        self.assertEqual(whole.usage_metadata["output_tokens"], 16)
        self.assertEqual(whole.response_metadata["finish_reason"], "length")
        counted = [piece.usage_metadata for piece in pieces if piece.usage_metadata]
        self.assertEqual(counted[-1]["output_tokens"], 16)

    def test_several_at_a_time_by_every_strategy(self):
        texts = {
            tuple(
                answer.content
                for answer in self.chat(extra_body={"strategy": strategy}).batch(
                    ["Write a loop.", "And a class.", "And a test."]
                )
            )
            for strategy in ("autoregressive", "serial_tree", "sparse_self")
        }
        self.assertEqual(len(texts), 1, texts)

    def test_probabilities(self):
        answer = self.chat(logprobs=True, top_logprobs=2).invoke("x")
        content = answer.response_metadata["logprobs"]["content"]
        self.assertEqual(len(content), 16)
        self.assertEqual(len(content[0]["top_logprobs"]), 2)

    def test_tools(self):
        chat = self.chat(max_tokens=200).bind_tools(
            [WEATHER], tool_choice="weather", parallel_tool_calls=False
        )
        answer = chat.invoke("How is the weather?")
        (call,) = answer.tool_calls
        self.assertEqual(call["name"], "weather")
        self.assertIn(call["args"]["city"], ("Bonn", "Kiel"))
        gathered = None
        for piece in chat.stream("How is the weather?"):
            gathered = piece if gathered is None else gathered + piece
        self.assertEqual(gathered.tool_calls[0]["args"], call["args"])
        history = [HumanMessage("How is the weather?"), answer]
        history.append(ToolMessage("Rain.", tool_call_id=call["id"]))
        self.assertIsInstance(self.chat().invoke(history), AIMessage)

    def test_structured_output(self):
        for method in ("json_schema", "function_calling"):
            chat = self.chat(max_tokens=200).with_structured_output(ENTRY, method=method)
            entry = chat.invoke("An entry.")
            self.assertEqual(sorted(entry), ["name", "size"], method)
            self.assertTrue(0 <= entry["size"] <= 500)

    def test_responses(self):
        answer = self.chat(use_responses_api=True, seed=None).invoke("Write a loop.")
        self.assertEqual(answer.usage_metadata["output_tokens"], 16)
        self.assertTrue(answer.text)

    def test_completions(self):
        client = OpenAI(
            base_url=self.server.url + "/v1",
            api_key="none",
            model="demo-target",
            max_tokens=12,
            temperature=0,
            max_retries=0,
        )
        whole = client.invoke("def f(")
        self.assertEqual("".join(client.stream("def f(")), whole)

    def test_errors_are_its_own(self):
        with self.assertRaisesRegex(Exception, "max_tokens|max_completion_tokens"):
            self.chat(max_tokens=-3).invoke("x")


if __name__ == "__main__":
    serving.main()
