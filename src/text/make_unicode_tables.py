#!/usr/bin/env python3
"""Writes unicode_tables.inc (normalization data and lower-case mappings) from Python's unicodedata.

Usage: make_unicode_tables.py > unicode_tables.inc
"""

import unicodedata

HANGUL = range(0xAC00, 0xAC00 + 11172)


def code_points():
    return (c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF and c not in HANGUL)


def emit(kind, name, items, per_line=12):
    print(f"constexpr {kind} {name}[] = {{")
    for start in range(0, len(items), per_line):
        row = ",".join(items[start : start + per_line])
        print("    " + row.replace(", ", ",") + ",")
    print("};\n")


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] + 1 == c:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


decompositions, text, offsets = [], [], {}


def intern(expansion):
    if expansion not in offsets:
        offsets[expansion] = len(text)
        text.extend(ord(c) for c in expansion)
    return offsets[expansion]


pairs, classes, unsafe, lower = [], {}, set(), []
for c in code_points():
    char = chr(c)
    nfd, nfkd = unicodedata.normalize("NFD", char), unicodedata.normalize("NFKD", char)
    if nfd != char or nfkd != char:
        decompositions.append(
            f"{{0x{c:x}, {intern(nfd)}, {len(nfd)}, {intern(nfkd)}, {len(nfkd)}}}"
        )
    if unicodedata.normalize("NFC", char) != char:
        unsafe.add(c)
    raw = unicodedata.decomposition(char)
    if (
        raw
        and "<" not in raw
        and len(raw.split()) == 2
        and unicodedata.normalize("NFC", char) == char
    ):
        first, second = (int(part, 16) for part in raw.split())
        pairs.append((first, second, c))
        unsafe.add(second)
    if unicodedata.combining(char):
        classes[c] = unicodedata.combining(char)
        unsafe.add(c)
    if len(char.lower()) == 1 and char.lower() != char:
        lower.append((c, ord(char.lower())))
unsafe.update(range(0x1161, 0x1176))
unsafe.update(range(0x11A8, 0x11C3))

class_ranges = []
for c in sorted(classes):
    if class_ranges and class_ranges[-1][1] + 1 == c and class_ranges[-1][2] == classes[c]:
        class_ranges[-1][1] = c
    else:
        class_ranges.append([c, c, classes[c]])

print(
    f"// Written by make_unicode_tables.py from Unicode {unicodedata.unidata_version}; not edited."
)
print("// clang-format off")
emit("Decomposition", "kDecompositions", decompositions, 5)
emit("char32_t", "kExpansions", [f"0x{c:x}" for c in text], 14)
emit(
    "Composition",
    "kCompositions",
    [f"{{0x{a:x}, 0x{b:x}, 0x{c:x}}}" for a, b, c in sorted(pairs)],
    5,
)
emit(
    "ClassRange", "kCombiningClasses", [f"{{0x{a:x}, 0x{b:x}, {k}}}" for a, b, k in class_ranges], 6
)
emit(
    "CodePointRange", "kMayChangeUnderNfc", [f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(unsafe)], 7
)
emit("LowerCase", "kLowerCase", [f"{{0x{a:x}, 0x{b:x}}}" for a, b in lower], 7)
