"""Every function that a public header declares without defining it can be linked: the library shows
it. The functions are read from the headers by clang, so a new one cannot be forgotten.

Usage: exports.py LIBRARY INCLUDE_DIRECTORY
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FUNCTIONS = ("FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl")


def syntax_trees(compiler, include):
    headers = sorted((include / "forerun").glob("*.h"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "all.cc"
        source.write_text("".join(f'#include "forerun/{header.name}"\n' for header in headers))
        done = subprocess.run(
            [compiler, "-std=c++20", "-fsyntax-only", f"-I{include}", str(source)]
            + ["-Xclang", "-ast-dump=json", "-Xclang", "-ast-dump-filter=forerun::"],
            capture_output=True,
            text=True,
            check=True,
        )
    decoder, at, text = json.JSONDecoder(), 0, done.stdout
    while at < len(text):
        tree, at = decoder.raw_decode(text, at)
        while at < len(text) and text[at].isspace():
            at += 1
        yield tree


def declared(node, hidden=False):
    """(name, symbol) of the functions that others may call and whose bodies are elsewhere."""
    if node.get("isImplicit") or node["kind"] in ("ClassTemplateDecl", "FunctionTemplateDecl"):
        return
    inner = [child for child in node.get("inner", []) if "kind" in child]
    if node["kind"] in FUNCTIONS:
        has_body = any(child["kind"] == "CompoundStmt" for child in inner)
        is_made = node.get("explicitlyDefaulted") or node.get("explicitlyDeleted")
        if not (hidden or has_body or is_made or node.get("pure")):
            yield node["name"], node["mangledName"]
        return
    private = node["kind"] == "CXXRecordDecl" and node.get("tagUsed") == "class"
    for child in inner:
        if child["kind"] == "AccessSpecDecl":
            private = child["access"] == "private"
        elif node["kind"] in ("CXXRecordDecl", "NamespaceDecl"):
            yield from declared(child, hidden or private)


def main():
    library, include = sys.argv[1], Path(sys.argv[2])
    compiler = next(
        (name for name in ("clang++", "clang++-14", "clang++-18") if shutil.which(name)), None
    )
    if compiler is None:
        print("exports: no clang to read the headers with, left out")
        return 0
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    symbols = {line.split()[-1].split("@")[0] for line in shown.splitlines() if line.split()}
    functions = set()
    for tree in syntax_trees(compiler, include):
        functions.update(declared(tree))
    missing = sorted(name for name, symbol in functions if symbol not in symbols)
    for name in missing:
        print(f"{name}: declared in include/forerun, and not exported; src/forerun.map lists them")
    # These functions are known to be declared; if they are missing, nothing was read.
    found = {name for name, _ in functions}
    if not {"create", "sample_seed", "next_for"} <= found:
        print(f"exports: found only {sorted(found)}")
        return 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
