"""First words of users' turns and of documents in English, which a chat model finishes itself.

They name kinds of tasks, not tasks: instructions, questions, problems with numbers, sentences to translate, texts to
sum up. A number in front is the most tokens of the turn. Frames stand around a passage, which is {}.
"""

from __future__ import annotations

import random

TASK, QUESTION, PROBLEM, SENTENCE, ARTICLE = 160, 32, 110, 64, 400

INSTRUCTIONS = """Write|Explain|Describe|Give|List|Create|Compose|Draft|Imagine|Pretend|You are|Compare|Please|I|Let
My|Discuss|Suppose|Consider|Discuss the|How do|Analyze|Provide|Design|Develop|Outline|Evaluate|Act as|As a|Could you
Help me|Tell me|Suggest|What are|Why do|Implement|Edit the following|Rewrite the following|Identify|Extract|Classify
Given|Embrace the role of|Craft|Which|Determine|Find|Solve|Calculate|Can you|Is it|Should|Write a Python function
Write a Python program|Write a C++ program|Write code|Write a function|Implement a|Write a story|Write a poem
Write a short essay|Write an email|Write a letter|Write a blog post|Write a persuasive|Describe a|Explain the concept of
Explain in simple terms|What is the difference between|What are the main|How does the|In the field of|A company|A train
The product of|If x|Solve for|Find the|Given the following|Read the following|Extract the following
Evaluate the following|Imagine you are|You are a"""
QUESTIONS = """who|Who|what|What|when|When|where|Where|how many|How many|which|Which|who is the|Who was the|who played
who sings|who wrote|what is the|What was the|what year did|when did the|When was the|when was|where is|Where was the
where does the|how long|How much|what does|what are the|in which|the|name the|why is|what type of|who won the
how old"""
NAMES = """Tom Mary John Sarah Lisa Mike Emma Jack Anna David Emily Sam Kate Ben Julia Alex Maria Peter Lucy Paul Mia
Henry Grace Daniel Olivia Carlos Nina Omar Leo Ruby Mark Jane James Ella Ryan Sophie Adam Lily Tina Bob"""
DEEDS = """has|had|bought|buys|is|wants to|works|sells|runs|earns|makes|needs|reads|bakes|drives|saves|plants|collects
spends|went|has 3|has 5|and"""
PROBLEMS = """A bakery|A farmer|A school|A store|A class|A box|A car|There are|A group of|In a|The price of|A garden|Two
Three|A restaurant|A teacher|The cost of|A book"""
GERMAN = """Der Die Das Ein Eine In Im Am Nach Bei Mit Für Auf Es Er Sie Wir Ich Wenn Aber Auch Als Seit Zum Vor Und
Dies Diese Bereits Heute Jetzt Viele Zwei Laut Beim An Von Durch Noch Nur So Man Da Doch Dabei Trotz Während"""
SENTENCES = """Translate English to German:|Translate French to English:|Translate to Spanish:
Translate the following sentence"""
NEWS = """The A In On By For More At An Two After When It Police President Scientists Researchers New Former According
Last One Three Despite With This While Thousands Officials Mr. Dr. London Washington He She They As From Many Most Some
Since Although"""
DOCUMENTS = """The history of|In the year|The town of|A new study|The film|The album|The team|The river|The city of
Born in|The first|(CNN)|It was|The government of|The university|The song|The novel|His|Her|Early in the|The species
The company|During the|The battle of|The church|The season|The series"""

FRAMES = ["Summarize: {}"] * 6 + [
    "Summarize: {}\n",
    "Summarize the following text:\n\n{}",
    "{}\n\nSummarize the text above.",
    "{}\n\nWhat is this about?",
    "{}\n\nWhat are the main points?",
    "{}\n\nGive a short answer: what happened?",
    "Read the text and explain it.\n\n{}",
    "Write a summary of this article.\n{}",
    "{}\n\nWho is mentioned in the text?",
    "Rewrite this text:\n{}",
    "{}",
]
ON_PASSAGES = """Who|What|When|Where|How many|Which|who|what is|when did|where|how|What is the|Who was|In what year
Why did|what was the name of|Which of|According to the text,"""


def parts(text: str, between: str = "|") -> list[str]:
    """What `between` or the end of a line separates."""
    return [part for line in text.splitlines() for part in line.split(between)]


def turns() -> list[tuple[int, str]]:
    """Most tokens of a turn and its first words; as often as the kind should be drawn."""
    draw = random.Random(0)
    news, german = parts(NEWS, " "), parts(GERMAN, " ")
    found = [(TASK, "")] * 24 + [(TASK, words) for words in parts(INSTRUCTIONS)]
    found += [(QUESTION, words) for words in parts(QUESTIONS)] * 4
    found += [
        (PROBLEM, f"{name} {deed}")
        for name in parts(NAMES, " ")
        for deed in draw.sample(parts(DEEDS), 6)
    ]
    found += [(PROBLEM, words) for words in parts(PROBLEMS)] * 3
    found += [(SENTENCE, f"Translate German to English: {word}") for word in german] * 5
    found += [(SENTENCE, "Translate German to English:")] * 40 + [
        (SENTENCE, words) for words in parts(SENTENCES)
    ] * 4
    found += [(ARTICLE, f"Summarize: {word}") for word in news] * 2
    return (
        found
        + [
            (ARTICLE, words)
            for words in ("Summarize:", "Summarize the following", "Please summarize")
        ]
        * 5
    )


def questions() -> list[str]:
    """First words of a question behind a passage."""
    return [f"{gap}{words}" for gap in ("\n", "\n\n") for words in parts(ON_PASSAGES)]


def documents() -> list[str]:
    """First words of articles and stories."""
    years = [f"In {year}," for year in range(1900, 2020, 5)]
    return parts(NEWS, " ") + parts(DOCUMENTS) + years + parts(NAMES, " ")
