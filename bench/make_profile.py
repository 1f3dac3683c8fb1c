#!/usr/bin/env python3
"""Makes a file of bench/profiles from the Step times that measure_engine.py recorded.

Usage, from the repository's root:

    bench/measure_engine.py steps --out bench/results/engine.json
    bench/make_profile.py bench/results/engine.json bench/profiles/own.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

MODELS = {
    ("demo", "target"): "demo-target, 34 M, AWQ int4",
    ("demo", "draft"): "demo-draft, 3 M, int8",
    ("1b", "target"): "demo-target in the shape of Llama-3.2-1B, bf16",
    ("1b", "draft"): "demo-draft in the shape of Llama-3.2-1B, 5 layers, bf16",
}
CONTEXT_TOKENS = 256


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results")
    parser.add_argument("profile")
    args = parser.parse_args()
    section = json.loads(Path(args.results).read_text())["steps"]
    models: dict[str, dict] = {}
    profiles: dict[str, dict] = {}
    for row in section["rows"]:
        cores = section["machine"]["cores"] if row["devices"] == "shared" else 1
        name = f"{row['pair']}-{row['role']}-{cores}-cores"
        model = models.setdefault(
            name, {"model": MODELS[row["pair"], row["role"]], "devices": cores, "steps": []}
        )
        model["steps"].append(
            {
                "rows": row["rows"],
                "context": CONTEXT_TOKENS,
                "ms": row["ms"],
                "source": f"{Path(args.results).name}, steps",
            }
        )
        profile = profiles.setdefault(
            f"{row['pair']}-{row['devices']}", {"devices": row["devices"]}
        )
        profile[row["role"]] = name
    machine = section["machine"]
    features = ", ".join(machine["features"])
    Path(args.profile).write_text(
        json.dumps(
            {
                "forerun_profiles": 1,
                "source": f"measured by this project, {section['date'][:10]}",
                "machine": f"{machine['cores']} cores of {machine['processor']} ({features})",
                "models": models,
                "profiles": profiles,
            },
            indent=1,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
