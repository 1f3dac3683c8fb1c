#!/usr/bin/env python3
"""The page that the server shows, in a headless Chromium, against the demo pair.

    page_test.py FORERUN

Skipped (exit status 77) where there is no Chromium.
"""

import json

import devtools
import serving

MESSAGE = "The old house stood at the end of the lane, and"
# Helpers for the expressions below.
HELPERS = """
const byId = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];
const lastText = () => all('.answer').at(-1)?.querySelector(':scope > .text')?.textContent ?? '';
"""
# A stream as the server would send it, for what its model would never say.
FAKE = """
window.fetch = async () => new Response(new Blob([%s]).stream(), {status: 200});
"""
CONTRAST = """
(selector) => {
  // Mixed colours are computed as color(srgb r g b), of parts up to 1.
  const parse = (text) => text.match(/[\\d.]+/g)
    .map((part, idx) => idx < 3 && text.startsWith('color(srgb') ? 255 * part : Number(part));
  const light = (colour) => {
    const [r, g, b] = parse(colour).slice(0, 3).map((each) => each / 255)
      .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if ((parse(colour)[3] ?? 1) === 1) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  return all(selector).map((node) => {
    const pair = [light(getComputedStyle(node).color), light(ground(node))];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  });
}
"""


def chunk(content="", tokens=(), rounds=(), **fields):
    choice = {
        "index": 0,
        "delta": {"content": content},
        "finish_reason": None,
        "speculation": {"tokens": list(tokens), "rounds": list(rounds)},
    }
    return {"choices": [choice], **fields}


def token(token_id, text, drafted=False):
    return {"id": token_id, "text": text, "drafted": drafted}


def events(*chunks):
    return "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"


class PageTest(serving.ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = devtools.Browser(devtools.find())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def setUp(self):
        self.page = self.open(self.server)
        self.expected_complaints = 0

    def tearDown(self):
        self.assertEqual(
            len(self.page.complaints()), self.expected_complaints, self.page.complaints()
        )
        self.page.close()

    def open(self, server, width=1280, height=900):
        page = self.browser.open(server.url + "/")
        page.resize(width, height)
        page.evaluate(HELPERS)
        page.wait("byId('model').textContent !== '…'")
        return page

    def set(self, **values):
        """Fields of the settings by id, '_' for '-'."""
        for name, value in values.items():
            field = f"byId('{name.replace('_', '-')}')"
            self.page.evaluate(
                f"{field}.value = {json.dumps(str(value))};"
                f"{field}.dispatchEvent(new Event('change'))"
            )

    def send(self, message=MESSAGE):
        self.page.evaluate("byId('message').focus()")
        self.page.type(message)
        self.page.press("Enter")

    def ask(self, message=MESSAGE):
        """Sends and waits for the end; the answer's text."""
        self.send(message)
        self.page.wait("!byId('send').hidden && byId('message').value === ''")
        return self.page.evaluate("lastText()")

    def guess(self, **values):
        """Settings under which guesses are made, whatever they cost on this machine."""
        self.set(
            **{
                "strategy": "serial_tree",
                "shape": "best",
                "temperature": 0,
                "max_tokens": 100,
                **values,
            }
        )

    def body_sent(self):
        return json.loads([each for each in self.page.sent() if "postData" in each][-1]["postData"])

    # Loading

    def test_asks_nobody_else_and_has_its_headers(self):
        status, headers, body = self.server.get("/")
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        self.assertEqual(headers["Cache-Control"], "no-cache")
        self.assertEqual(self.server.get("/page/none.js")[0], 404)
        urls = [request["url"] for request in self.page.sent()]
        self.assertIn(self.server.url + "/page/main.js", urls)
        for url in urls:
            self.assertTrue(url.startswith(self.server.url), url)

    def test_offers_the_strategies_of_the_server(self):
        props = self.server.get("/props")[2]
        offered = self.page.evaluate("all('#strategy option').map((each) => each.value)")
        self.assertEqual(offered, [each["name"] for each in props["strategies"]])
        self.assertIn("serial_tree", offered)
        self.assertEqual(self.page.evaluate("byId('model').textContent"), props["model_alias"])

    # Answers

    def test_text_streams_and_is_the_servers(self):
        self.set(temperature=0, max_tokens=1200)
        self.send()
        first = self.page.wait("lastText().length")
        self.assertTrue(self.page.evaluate("!byId('stop').hidden && byId('send').hidden"))
        self.page.wait(f"lastText().length > {first}")
        # Trees and speed are shown meanwhile.
        live = self.page.wait(
            "document.querySelector('#tree svg') && !byId('stop').hidden &&"
            " [byId('round').max, byId('count-plain').textContent]"
        )
        self.page.wait(f"+byId('round').max > {live[0]}")
        self.page.wait(
            "document.querySelector('#speed-answer .value').textContent.startsWith('≈')"
            " && !byId('stop').hidden"
        )
        self.page.wait("!byId('send').hidden")
        body = {
            "messages": [{"role": "user", "content": MESSAGE}],
            "temperature": 0,
            "max_tokens": 1200,
        }
        status, _, answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200)
        self.assertEqual(
            self.page.evaluate("lastText()"), answer["choices"][0]["message"]["content"]
        )
        self.assertIn("1,200 tokens", self.page.evaluate("all('.figures')[0].textContent"))

    def test_escape_stops_midway(self):
        self.set(temperature=0, max_tokens=7000)
        self.send()
        self.page.wait("lastText().length > 200")
        self.page.press("Escape")
        self.page.wait("!byId('send').hidden")
        self.assertIn("stopped", self.page.evaluate("all('.figures')[0].textContent"))
        length = self.page.evaluate("lastText().length")
        idle = "!slots.some((slot) => slot.is_processing)"
        self.page.wait(f"fetch('/slots').then((got) => got.json()).then((slots) => {idle})")
        self.assertEqual(self.page.evaluate("lastText().length"), length)
        # The partial answer can be compared, and the conversation continues.
        self.page.evaluate("byId('compare').click()")
        self.page.wait("byId('compare-result').textContent.startsWith('Identical')")
        self.set(max_tokens=5)
        self.assertTrue(self.ask("And then?"))
        roles = [message["role"] for message in self.body_sent()["messages"]]
        self.assertEqual(roles, ["user", "assistant", "user"])

    def test_a_new_chat_leaves_the_old_one_behind(self):
        self.set(temperature=0, max_tokens=7000)
        self.send()
        self.page.wait("lastText().length > 100")
        self.page.evaluate("byId('new-chat').click()")
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "message")
        self.set(max_tokens=5)
        self.page.type("Something else")
        self.page.press("Enter")
        self.page.wait("all('.figures')[0]?.textContent.includes('5 tokens')")
        self.assertEqual(len(self.body_sent()["messages"]), 1)
        self.assertEqual(self.page.evaluate("all('article').length"), 2)
        self.assertEqual(self.page.evaluate("all('.answer .token').length"), 5)

    def test_a_message_takes_the_place_of_a_comparison(self):
        self.set(temperature=0, max_tokens=400)
        self.ask()
        self.page.evaluate("byId('compare').click()")
        self.page.wait("!byId('compare-stop').hidden")
        self.set(max_tokens=5)
        self.ask("Next")
        self.assertEqual(self.page.evaluate("all('.answer').length"), 2)
        self.assertTrue(self.page.evaluate("byId('compare-stop').hidden"))
        self.assertEqual(self.page.evaluate("byId('compare-result').textContent"), "")
        # The first of the two answers is selected again.
        self.page.evaluate("all('.answer')[0].querySelector('.foot button').click()")
        self.assertEqual(self.page.evaluate("byId('count-plain').textContent > 0"), True)
        self.assertEqual(
            self.page.evaluate("all('.answer').map((each) => each.classList.contains('selected'))"),
            [True, False],
        )

    def test_every_strategy_writes_the_same(self):
        strategies = self.page.evaluate("all('#strategy option').map((each) => each.value)")
        texts = set()
        for strategy in strategies:
            self.set(strategy=strategy, temperature=0.7, seed=5, max_tokens=60)
            self.page.evaluate("byId('new-chat').click()")
            texts.add(self.ask())
            figures = self.page.evaluate("all('.figures').at(-1).textContent")
            self.assertTrue(figures.startswith("60 tokens"), figures)
            shown = self.page.evaluate(
                "['kept', 'bonus', 'plain'].map((each) => +byId(`count-${each}`).textContent)"
            )
            self.assertEqual(sum(shown), 60, strategy)
        self.assertEqual(len(texts), 1)

    def test_settings_are_what_is_asked_for(self):
        self.set(
            temperature=0.5,
            top_p=0.9,
            max_tokens=7,
            seed=11,
            system="Be brief.",
            strategy="serial_tree",
            shape="best",
        )
        self.ask()
        body = self.body_sent()
        self.assertEqual(body["messages"][0], {"role": "system", "content": "Be brief."})
        wanted = {
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 7,
            "seed": 11,
            "strategy": "serial_tree",
            "speculation": {"shape": "best"},
            "stream": True,
            "return_speculation": True,
        }
        self.assertEqual(wanted, {name: body[name] for name in wanted})
        self.set(seed="", temperature="", shape="")
        self.ask()
        body = self.body_sent()
        self.assertIsInstance(body["seed"], int)  # so that it can be asked again
        self.assertNotIn("temperature", body)
        self.assertNotIn("speculation", body)
        self.page.go(self.server.url + "/")  # settings last as long as the tab
        self.page.evaluate(HELPERS)
        self.page.wait("byId('strategy').options.length > 2")
        self.assertEqual(
            self.page.evaluate("[byId('strategy').value, byId('top-p').value]"),
            ["serial_tree", "0.9"],
        )

    # The display of speculation

    def test_tokens_have_the_colours_of_how_they_came(self):
        self.guess()
        text = self.ask()
        spans = self.page.evaluate("all('.answer .token').map((each) => each.textContent)")
        self.assertEqual("".join(spans), text)
        self.assertEqual(len(spans), 100)
        counts = self.page.evaluate(
            "['kept', 'bonus', 'plain'].map((each) => all(`.answer .${each}`).length)"
        )
        self.assertTrue(counts[0] > 10 and counts[1] > 5, counts)
        shown = self.page.evaluate(
            "['kept', 'bonus', 'plain'].map((each) => +byId(`count-${each}`).textContent)"
        )
        self.assertEqual(shown, counts)
        looks = self.page.evaluate(
            "['kept.depth-1', 'kept.depth-2', 'bonus', 'plain']"
            ".map((each) => getComputedStyle(document.querySelector(`.answer .${each}`)))"
            ".map((each) => [each.backgroundColor,"
            " each.textDecorationLine + ' ' + each.textDecorationStyle])"
        )
        self.assertEqual(len({colour for colour, _ in looks}), 4, looks)
        # Who guessed them: this tree's guesses are all the draft model's.
        sources = self.page.evaluate(
            "all('#legend-sources .number').map((each) => +each.textContent)"
        )
        self.assertEqual(sources, [counts[0], 0, 0, 0])
        self.assertEqual(self.page.evaluate("all('.answer .kept.from-model').length"), counts[0])
        lines = [line for _, line in looks]
        self.assertEqual(lines[0], lines[1])  # kept: a line; bonus: dashes; plain: none
        self.assertEqual(len(set(lines)), 3, looks)
        self.page.evaluate("byId('show-colours').click()")
        self.assertEqual(
            self.page.evaluate(
                "getComputedStyle(document.querySelector('.answer .bonus')).textDecorationLine"
            ),
            "none",
        )

    def test_guesses_have_the_colours_of_who_made_them(self):
        looks = self.page.evaluate(
            "all('#legend-sources .sample').map((each) => getComputedStyle(each))"
            ".map((each) => each.backgroundColor)"
        )
        self.assertEqual(len(set(looks)), 4, looks)
        lines = self.page.evaluate(
            "all('#legend-sources .sample')"
            ".map((each) => getComputedStyle(each).textDecorationStyle)"
        )
        self.assertEqual(lines, ["solid", "double", "double", "dotted"])
        # The text so far guesses beside the draft model in this tree.
        self.guess(shape="adaptive")
        self.ask("print(1)\nprint(1)\nprint(1)\n" * 6)
        kept = self.page.evaluate("all('.answer .kept').length")
        of = self.page.evaluate("all('#legend-sources .number').map((each) => +each.textContent)")
        self.assertEqual(sum(of), kept)
        for idx, source in enumerate(("model", "source", "both", "self")):
            self.assertEqual(
                self.page.evaluate(f"all('.answer .from-{source}').length"), of[idx], source
            )

    def test_plain_decoding_has_neither_colours_nor_tree(self):
        self.set(strategy="autoregressive", temperature=0, max_tokens=30)
        self.ask()
        self.assertEqual(self.page.evaluate("all('.answer .kept, .answer .bonus').length"), 0)
        self.assertEqual(self.page.evaluate("byId('count-plain').textContent"), "30")
        self.assertIn("plainly", self.page.evaluate("byId('tree-words').textContent"))
        self.assertTrue(self.page.evaluate("byId('round').disabled"))

    def test_tree_and_lanes_of_every_round(self):
        self.guess()
        self.ask()
        rounds = self.page.evaluate("+byId('round').max")
        self.assertGreater(rounds, 10)
        self.assertEqual(
            self.page.evaluate("byId('round-words').textContent"), f"Round {rounds} of {rounds}"
        )
        self.page.evaluate("byId('round').focus()")
        self.page.press("Home")
        self.page.press("ArrowRight")
        self.page.wait(f"byId('round-words').textContent === 'Round 2 of {rounds}'")
        self.assertEqual(self.page.evaluate("all('#tree .node.root').length"), 1)
        self.assertEqual(self.page.evaluate("all('#tree .node').length"), 9)  # of 8 rows, and one
        self.assertEqual(self.page.evaluate("all('#tree .edge').length"), 8)
        # The path and what the target drew are the round's tokens in the text.
        shown = "#tree .node:is(.kept, .bonus)"
        nodes = self.page.evaluate(f"all('{shown}').length")
        self.assertGreater(nodes, 0)
        self.assertEqual(self.page.evaluate("all('.token.marked').length"), nodes)
        self.assertEqual(self.page.evaluate("all('#lanes .column.selected').length"), 1)
        self.assertIn("kept", self.page.evaluate("byId('tree-words').textContent"))
        label = self.page.evaluate("document.querySelector('#tree svg').getAttribute('aria-label')")
        self.assertTrue(label.startswith("Tree: 7 guesses"), label)
        steps = self.page.evaluate("document.querySelector('#work-target .value').textContent")
        self.assertRegex(steps, rf"^{rounds} steps × [\d.]+ ms$")
        # A token leads to its round, a column too.
        self.page.evaluate("document.querySelector('.token[data-round=\"5\"]').click()")
        self.assertEqual(self.page.evaluate("byId('round').value"), "6")
        self.page.evaluate(
            "document.querySelector('#lanes [data-round=\"7\"] .column')"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        self.assertEqual(self.page.evaluate("byId('round').value"), "8")
        self.page.evaluate("byId('replay').click()")
        self.page.wait("byId('round').value === '10'")
        self.page.evaluate("byId('replay').click()")
        self.assertEqual(self.page.evaluate("byId('replay').textContent"), "Replay")

    def test_compared_with_plain_decoding_the_text_is_identical(self):
        self.guess(temperature=0.8, seed="")
        self.ask()
        self.page.evaluate("byId('compare').click()")
        said = self.page.wait("byId('compare-result').textContent")
        # The seed is the page's own: the text may end before the 100 tokens that were asked for.
        self.assertRegex(said, r"^Identical: (\d+) of \1 tokens\.")
        bodies = [json.loads(each["postData"]) for each in self.page.sent() if "postData" in each]
        self.assertEqual(bodies[1], bodies[0])
        del bodies[0]["speculation"]
        self.assertEqual(bodies[2], {**bodies[0], "strategy": "autoregressive"})
        for row in ("speed-answer", "speed-plain"):
            value = self.page.evaluate(f"document.querySelector('#{row} .value').textContent")
            self.assertRegex(value, r"^[\d,.]+ tokens/s$")

    def test_texts_that_part_are_told(self):
        def answer(last):
            tokens = [token(1, "A"), token(last, chr(last))]
            return chunk("A" + chr(last), tokens)

        for last in (66, 67):
            self.page.evaluate(FAKE % json.dumps(events(answer(last))))
            self.ask() if last == 66 else self.page.evaluate("byId('compare').click()")
        said = self.page.wait("byId('compare-result').textContent")
        self.assertIn("part at token 2: “B” and “C”", said)

    # Text

    def test_markup_is_shown_as_text(self):
        evil = (
            "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
        )
        self.set(max_tokens=4)
        self.ask(evil)
        self.assertEqual(
            self.page.evaluate("document.querySelector('.question .text').textContent"), evil
        )
        nodes = [
            {"token": 1, "text": "<b>", "parent": -1, "logprob": 0, "accepted": True},
            {"token": 2, "text": evil, "parent": 0, "logprob": -1, "accepted": True},
        ]
        rounds = [{"nodes": nodes, "bonus": 3, "bonus_text": "</b>"}]
        tokens = [token(1, "<b>"), token(2, evil, True), token(3, "</b>")]
        self.page.evaluate(FAKE % json.dumps(events(chunk("<b>" + evil + "</b>", tokens, rounds))))
        self.assertEqual(self.ask("again"), "<b>" + evil + "</b>")
        self.assertEqual(self.page.evaluate("all('img, b:not([id]), main script').length"), 0)
        self.assertNotIn("owned", self.page.evaluate("document.title"))

    def test_characters_of_several_tokens_and_tokens_without_text(self):
        unknown = "\N{REPLACEMENT CHARACTER}"
        fake = events(
            chunk("", [token(1, unknown)]),
            chunk("é a", [token(2, unknown), token(3, " a")]),
            chunk("b<", [token(4, "b"), token(5, "<br>")]),
            chunk("br>c", [token(6, "<|end|>"), token(7, "c")]),
            chunk("", [token(8, "<|endoftext|>")]),
        )
        self.page.evaluate(FAKE % json.dumps(fake))
        self.assertEqual(self.ask(), "é ab<br>c")
        self.assertEqual(
            self.page.evaluate("all('.answer .text span').map((each) => each.textContent)"),
            ["é", " a", "b", "<br>", "c"],
        )

    def test_reasoning_stands_apart(self):
        first = chunk(
            "",
            [
                token(1, "<think>"),
                token(2, "Hm"),
                token(3, "."),
                token(4, "</think>"),
                token(5, "Yes"),
            ],
        )
        first["choices"][0]["delta"] = {"reasoning_content": "Hm."}
        second = chunk("Yes")
        del second["choices"][0]["speculation"]
        self.page.evaluate(FAKE % json.dumps(events(first, second)))
        self.assertEqual(self.ask(), "Yes")
        self.assertEqual(
            self.page.evaluate("all('.reasoning .token').map((each) => each.textContent)"),
            ["Hm", "."],
        )

    # Failures

    def test_refusals_and_broken_streams_are_told(self):
        self.set(strategy="serial_tree", shape="levels")
        self.send()
        said = self.page.wait("document.querySelector('.answer .error')?.textContent")
        self.assertIn("levels", said)
        self.assertEqual(self.page.evaluate("byId('message').value"), MESSAGE)  # for another try
        self.assertEqual(
            self.page.evaluate("document.querySelector('.answer .error').getAttribute('role')"),
            "alert",
        )
        self.expected_complaints = 1  # Chromium logs status 400
        for stream, words in (
            (events(chunk("ab"), {"error": {"message": "out of luck"}}), "out of luck"),
            (events(chunk("ab")).replace("data: [DONE]\n\n", ""), "broke off"),
        ):
            self.page.evaluate("byId('message').value = '';" + FAKE % json.dumps(stream))
            self.assertEqual(self.ask(), "ab")
            self.assertIn(words, self.page.evaluate("all('.answer .error').at(-1).textContent"))

    def test_a_key_is_asked_for_and_kept_in_the_tab_alone(self):
        self.page.close()
        with serving.Server(env={"FORERUN_API_KEY": "a secret"}) as server:
            self.page = self.open(server)
            self.page.wait("byId('settings').open && document.activeElement.id === 'key'")
            self.page.type("a secret")
            self.page.press("Enter")
            self.page.wait("!byId('settings').open && byId('strategy').options.length > 2")
            self.set(max_tokens=5)
            self.assertTrue(self.ask())
            kept = self.page.evaluate(
                "[localStorage.length, document.cookie, location.href,"
                " Object.values({...sessionStorage}).filter((each) => each === 'a secret').length]"
            )
            self.assertEqual(kept, [0, "", server.url + "/", 1])
        self.expected_complaints = 1  # Chromium logs the first 401

    # Whoever looks, and how

    def test_by_keyboard_alone(self):
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "message")
        self.guess(max_tokens=40)
        order = []
        for _ in range(6):
            self.page.press("Tab")
            order.append(self.page.evaluate("document.activeElement.id"))
            outline = self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            self.assertEqual(outline, "solid", order)
        self.assertEqual(order[:3], ["strategy", "shape", "send"])
        # From the top again: skip link, new chat, settings.
        self.page.evaluate("document.activeElement.blur();document.querySelector('.skip').focus()")
        self.page.press("Tab")
        self.page.press("Tab")
        self.page.press("Enter")
        self.page.wait("byId('settings').open")
        self.assertTrue(self.page.evaluate("byId('settings').contains(document.activeElement)"))
        self.page.press("Escape")
        self.page.wait("!byId('settings').open")
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "open-settings")
        self.page.evaluate("document.querySelector('.skip').focus()")
        self.page.press("Enter")
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "message")
        self.page.type("One line")
        self.page.press("Enter", shift=True)
        self.page.type("and another")
        self.assertEqual(self.page.evaluate("byId('message').value"), "One line\nand another")
        self.page.press("Enter")
        self.page.wait("!byId('send').hidden && all('.answer .token').length === 40")
        # On to the comparison.
        for _ in range(12):
            self.page.press("Tab")
            if self.page.evaluate("document.activeElement.id") == "compare":
                break
        self.page.press("Enter")
        self.page.wait("byId('compare-result').textContent.startsWith('Identical')")
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "compare")

    def test_everything_that_can_be_used_has_a_name(self):
        self.guess(max_tokens=30)
        self.ask()
        self.page.evaluate("byId('open-settings').click()")
        self.named(at_least=9)
        self.page.press("Escape")
        self.named(at_least=10)

    def named(self, at_least):
        roles = {
            "button",
            "textbox",
            "combobox",
            "slider",
            "checkbox",
            "spinbutton",
            "log",
            "dialog",
            "image",
            "region",
            "complementary",
            "form",
        }
        found = 0
        for node in self.page.call("Accessibility.getFullAXTree")["nodes"]:
            if node["ignored"] or node["role"]["value"] not in roles:
                continue
            found += 1
            self.assertTrue(node.get("name", {}).get("value"), node)
        self.assertGreaterEqual(found, at_least)

    def test_answers_are_read_out_by_sentences(self):
        fake = events(chunk("One. Two", [token(1, "One."), token(2, " Two")]))
        self.page.evaluate(FAKE % json.dumps(fake))
        self.ask()
        self.assertEqual(self.page.evaluate("byId('live-answer').textContent"), "One. Two")
        self.assertIn("complete: 2 tokens", self.page.evaluate("byId('live-status').textContent"))

    def test_narrow_pages_do_not_scroll_sideways(self):
        self.page.resize(360, 740)
        fits = "document.documentElement.scrollWidth <= innerWidth"
        self.assertTrue(self.page.evaluate(fits))
        self.guess()
        self.ask("def " + "long_name_" * 20 + "():")
        self.assertTrue(self.page.evaluate(fits))
        self.assertGreater(self.page.evaluate("all('#lanes [data-round]').length"), 5)
        self.page.evaluate("byId('open-settings').click()")
        self.assertTrue(self.page.evaluate("byId('settings').scrollWidth <= innerWidth"))
        self.page.evaluate("byId('close-settings').click()")
        self.page.resize(1600, 900)
        self.assertTrue(self.page.evaluate(fits))

    def test_the_narrowest_pages_show_everything(self):
        self.page.resize(320, 740)
        self.assertTrue(self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
        # The model's name has a line of its own, not the few pixels beside the buttons.
        self.assertGreater(self.page.evaluate("byId('model').clientWidth"), 200)
        name = "byId('speed-plain').querySelector('dt')"
        bar = "byId('speed-plain').querySelector('.bar')"
        text = f"(() => {{ const r = new Range(); r.selectNodeContents({name}); return r; }})()"
        self.assertLess(
            self.page.evaluate(f"{text}.getBoundingClientRect().right + 3"),
            self.page.evaluate(f"{bar}.getBoundingClientRect().left"),
        )

    def test_bars_are_filled_in_high_contrast(self):
        self.page.force_colours()
        colours = self.page.evaluate(
            "all('.bar-fill').map((fill) => [getComputedStyle(fill).backgroundColor,"
            " getComputedStyle(fill.parentElement).backgroundColor])"
        )
        self.assertEqual(len(colours), 4)
        for fill, ground in colours:
            self.assertNotEqual(fill, ground)

    def test_contrast_in_light_and_dark(self):
        self.guess()
        self.ask()
        grounds = []
        for scheme in ("light", "dark"):
            self.page.prefer(color_scheme=scheme)
            grounds.append(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))
            ratios = self.page.evaluate(
                f"({CONTRAST})('.token, .hint, .figures, .who, .sample, dt, dd .value, #model,"
                " #send, label, h1, h2')"
            )
            self.assertGreater(len(ratios), 100)
            self.assertGreaterEqual(min(ratios), 4.5, scheme)
        self.assertNotEqual(*grounds)


if __name__ == "__main__":
    if devtools.find() is None:
        serving.skip("page_test: there is no Chromium (Debian's package is chromium)")
    serving.main()
