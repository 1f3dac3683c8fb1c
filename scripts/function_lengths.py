#!/usr/bin/env python3
"""No function is longer than 120 lines, from its first line to its closing brace.

Reads what git tracks of C++, CUDA and Python. Tables that a tool writes are *.inc files, which
it does not read. Needs the lizard of tests/server/requirements.txt; scripts/test runs it.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

from lizard import analyze_file

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 120
# Lizard goes by a file's ending and knows neither CUDA's nor bench/run, which has none.
READ_AS = {".cc": ".cc", ".h": ".cc", ".cu": ".cc", ".cuh": ".cc", ".py": ".py"}
PYTHON_WITHOUT_ENDING = {"bench/run"}


def read_as(path: str) -> str | None:
    return ".py" if path in PYTHON_WITHOUT_ENDING else READ_AS.get(Path(path).suffix)


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    functions: Counter[str] = Counter()
    too_long = []
    for path in listed.stdout.splitlines():
        ending = read_as(path)
        if ending is None or not (ROOT / path).exists():
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        found = analyze_file.analyze_source_code(path + ending, text).function_list
        functions[Path(path).suffix] += len(found)
        too_long += [
            f"{path}:{function.start_line}: {function.name} has {function.length} lines"
            f" of {MOST_LINES} at most"
            for function in found
            if function.length > MOST_LINES
        ]
    for suffix in (".cc", ".h", ".cu", ".py"):
        if functions[suffix] == 0:
            too_long.append(f"no function was found in any *{suffix}: lizard does not read them")
    for line in too_long:
        print(line, file=sys.stderr)
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
