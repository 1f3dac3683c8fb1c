"""Small tokenizers for make_text_goldens.py, one a combination of parts, and texts to encode.

Everything is trained on the few lines of CORPUS, so that the files stay small.
"""

from __future__ import annotations

import json

from template_cases import CONVERSATIONS

CORPUS = [
    "The river runs past the old mill, and the two of them walked on towards the village.",
    "def add(a, b):\n    return a + b\n\n\nfor name in names:\n    print(name, len(name))\n",
    "It's 12 o'clock; 345 people wait, and don't know why. Who'd tell them? They'll see.",
    "Grüße aus Köln: Äpfel, Öl und süße Straßen. Ça va? Où est l'été? Niño, señor, mañana.",
    "漢字とかな。日本語の文章です。漢字かな交じり文。",
]

TEXTS = [
    "",
    " ",
    "  \n\n \t x  ",
    "The river runs past the old mill.",
    "  leading and trailing  ",
    "a\r\nb\n\n\nc\td",
    "It's they'll WE'LL I'd don't 'S 'ſ",
    "1234567890 3.14 1,000,000 ٣٤ ½ ² x² ①②③ Ⓐ 1①2",
    "Grüße, Äpfel, süß; naïve café cafe\u0301 A\u030a Å ﬁ ℌ ǆ",
    "漢字とかな 日本語。文章",
    "😀 👩‍👩‍👧 🇩🇪 e\u0301\u0301 \u200b\u200c\u200d\ufeff",
    "x_y __init__ a.b->c() { return [1, 2]; } // ① end",
    "tab\tnbsp\u00a0ideographic\u3000line\u2028para\u2029nel\u0085 mong\u180e",
    "<s>text</s><s> a </s>  <|x|>y<|x|> <|x|>",
    "<mask> word<mask>word <mask>, <MASK>",
    "ŸĠà ü Ã¼ õ÷ Ġx the ü",
    "▁▁a ▁b a▁ <0x41><0x0A>",
    "\x00\x01\x7f \u0300x \u0303",
    "ABC abc İIıi ẞß ΣΑΣ",
    "$+<=>^`|~ €£¢ §¶ «x» — … ’",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "ab①b é́x _1 ²x a\u00b2b",
    "नमस्ते สวัสดี שלום مرحبا Привет Ελληνικά",
    "https://example.org/a?b=c&d=%20#e user@host v1.2.3-rc4",
    json.dumps(CONVERSATIONS["tools"]["messages"][2]["tool_calls"], ensure_ascii=False),
]

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def build_tokenizers() -> dict:
    """Names to tokenizers.Tokenizer."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, processors, trainers
    from tokenizers import normalizers as norm
    from tokenizers import pre_tokenizers as pre

    byte_alphabet = sorted(pre.ByteLevel.alphabet())

    def train(tokenizer, alphabet, special=(), vocab_size=360):
        tokenizer.train_from_iterator(
            CORPUS,
            trainers.BpeTrainer(
                vocab_size=vocab_size,
                special_tokens=list(special),
                initial_alphabet=alphabet,
                show_progress=False,
            ),
        )
        return tokenizer

    def retrained(tokenizer, change):
        """The tokenizer after `change` of its file."""
        document = json.loads(tokenizer.to_str())
        change(document)
        return Tokenizer.from_str(json.dumps(document))

    made = {}

    gpt2 = Tokenizer(models.BPE())
    gpt2.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    gpt2.decoder = decoders.ByteLevel()
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    made["byte-level"] = train(gpt2, byte_alphabet, ["</s>"])
    # Added tokens beyond the vocabulary, of letters that stand for bytes and of others.
    gpt2.add_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    gpt2.add_tokens(["日本", AddedToken("<|x|>", rstrip=True, normalized=False)])

    llama3 = Tokenizer(models.BPE(ignore_merges=True))
    llama3.normalizer = norm.NFC()
    llama3.pre_tokenizer = pre.Sequence(
        [
            pre.Split(Regex(_LLAMA3), "isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    llama3.decoder = decoders.ByteLevel()
    train(llama3, byte_alphabet, ["<s>", "</s>"])
    llama3.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    llama3.add_tokens(
        [
            AddedToken("<mask>", single_word=True, normalized=False),
            AddedToken("caf\u00e9", normalized=True),
        ]
    )
    made["nfc-llama3-split"] = llama3

    # No byte that the corpus does not have: characters are left out.
    lacking = Tokenizer(models.BPE())
    lacking.pre_tokenizer = pre.ByteLevel(add_prefix_space=True)
    lacking.decoder = decoders.ByteLevel()
    made["byte-level-lacking-bytes"] = train(lacking, [], vocab_size=200)

    words = Tokenizer(models.BPE(unk_token="<unk>"))
    words.normalizer = norm.Sequence([norm.NFKC(), norm.Lowercase(), norm.StripAccents()])
    words.pre_tokenizer = pre.Sequence([pre.Whitespace(), pre.Digits(individual_digits=True)])
    made["whitespace-unknown"] = train(words, [], ["<unk>"], vocab_size=240)

    boundaries = Tokenizer(models.BPE())
    boundaries.pre_tokenizer = pre.Sequence(
        [
            pre.Split(Regex(r"\b"), "isolated"),
            pre.Split(Regex(r"\w+|[[:punct:]]|[^\w\s]"), "merged_with_previous"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    boundaries.decoder = decoders.ByteLevel()
    made["word-boundaries"] = train(boundaries, byte_alphabet)

    llama2 = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    llama2.normalizer = norm.Sequence([norm.Prepend("▁"), norm.Replace(" ", "▁")])
    llama2.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    train(llama2, [], ["<unk>", "<s>", "</s>", *fallback], vocab_size=440)

    def without_byte_tokens(document):
        document["added_tokens"] = document["added_tokens"][:3]

    made["byte-fallback"] = retrained(llama2, without_byte_tokens)
    made["byte-fallback"].post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )

    meta = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=False))
    meta.pre_tokenizer = pre.Metaspace(prepend_scheme="first", split=True)
    meta.decoder = decoders.Metaspace(prepend_scheme="first", split=True)
    made["metaspace"] = train(meta, [], ["<unk>", "<s>", "</s>"], vocab_size=200)

    punctuation = Tokenizer(models.BPE())
    punctuation.normalizer = norm.Sequence([norm.NFD(), norm.Replace(Regex(r"\s+"), " ")])
    punctuation.pre_tokenizer = pre.Sequence(
        [
            pre.Punctuation("contiguous"),
            pre.Split(Regex(r"(?i:the|and)|\p{N}"), "merged_with_next"),
            pre.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    punctuation.decoder = decoders.ByteLevel()
    made["nfd-punctuation"] = train(punctuation, byte_alphabet)
    return made
