"""The categories of Spec-Bench's prompts."""

from __future__ import annotations

# MT-Bench's, of ten prompts each, which count as one.
MT_BENCH = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
)


def group_of(category: str) -> str:
    return "mt_bench" if category in MT_BENCH else category
