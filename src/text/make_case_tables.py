#!/usr/bin/env python3
"""Writes case_tables.inc (case mappings and properties as Python's str has them) by asking str.

Usage: make_case_tables.py > case_tables.inc
"""

import unicodedata


def code_points():
    return (c for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF)


def emit(kind, name, items, per_line):
    print(f"constexpr {kind} {name}[] = {{")
    for start in range(0, len(items), per_line):
        print("    " + ",".join(items[start : start + per_line]) + ",")
    print("};\n")


def runs(points):
    """(low, high, stride) of code points at equal distances of 1 or 2."""
    out = []
    for c in sorted(points):
        if out:
            low, high, stride = out[-1]
            if (high == low and c - high <= 2) or c - high == stride:
                out[-1] = (low, c, c - high)
                continue
        out.append((c, c, 1))
    return out


def emit_set(name, points):
    emit("CaseRun", name, [f"{{0x{a:x},0x{b:x},{s}}}" for a, b, s in runs(points)], 8)


def emit_mapping(name, mapped):
    """Code points that map to one character, by distance to it; then those that map to several."""
    by_distance, special = {}, []
    for c in code_points():
        to = mapped(chr(c))
        if to == chr(c):
            continue
        if len(to) == 1:
            by_distance.setdefault(ord(to) - c, []).append(c)
        else:
            special.append(f"{{0x{c:x},{{{','.join(f'0x{ord(x):x}' for x in to)}}}}}")
    found = sorted(
        (high, low, stride, distance)
        for distance, points in by_distance.items()
        for low, high, stride in runs(points)
    )
    # No run of another distance may lie between two members of a run.
    pieces = []
    for high, low, stride, distance in found:
        others = any(low < x[0] and x[1] < high and x[3] != distance for x in found)
        members = range(low, high + 1, stride)
        parts = [(c, c, 1) for c in members] if others else [(low, high, stride)]
        pieces += [(*part, distance) for part in parts]
    pieces.sort()
    emit("CaseShift", f"k{name}", [f"{{0x{a:x},0x{b:x},{s},{d}}}" for a, b, s, d in pieces], 6)
    if special:
        emit("CaseExpansion", f"k{name}Expansions", special, 6)


def is_ignorable(char):
    """Whether looking for what is in front of a final sigma passes over it."""
    alone, behind = (char + "Σ").lower()[-1], ("A" + char + "Σ").lower()[-1]
    return alone == "σ" and behind == "ς"


print(f"// Written by make_case_tables.py from Unicode {unicodedata.unidata_version}; not edited.")
print("// clang-format off")
emit_mapping("Lower", str.lower)
emit_mapping("Upper", str.upper)
emit_mapping("Title", str.title)
emit_mapping("Folded", str.casefold)
emit_set("kCased", [c for c in code_points() if (chr(c) + "a").title()[-1] == "a"])
emit_set("kIgnorable", [c for c in code_points() if is_ignorable(chr(c))])
emit_set("kLowercase", [c for c in code_points() if chr(c).islower()])
emit_set("kUppercase", [c for c in code_points() if chr(c).isupper()])
