"""Gathers the licence texts of all that the program contains, and the list of its components, into
one C++ source file.

Usage: generate.py OUTPUT.cpp VERSION COMPILER NAME,... LICENSE DIGITS_NOTICE LICENSE_OF_NAME...
       NAME=VERSION...

The first names are those of subprojects, the others of what the system has.

Debian keeps each package's licence in /usr/share/doc/PACKAGE/copyright. Where that file is missing
(another distribution), the entry names the licence and where its text is to be found.
"""

import sys

from components import DIGITS, gather, read
from sbom import sbom


def licenses(own, components):
    inside = [part for part in components if part.linkage != "dynamic" and part is not DIGITS]
    parts = ["adaptdl is licensed under the Apache License 2.0 (text below). It contains:\n"]
    parts += [f"- {part.title}: {part.license} ({part.home})" for part in inside]
    parts += ["- the example data set digits: CC BY 4.0", ""]
    for title, text in [("adaptdl", own)] + [(part.title, part.text) for part in [DIGITS, *inside]]:
        parts += ["=" * 80, title, "=" * 80, text, ""]
    return "\n".join(parts)


def constant(name, text):
    def literal(line):
        escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        return f'\n    "{escaped}\\n"'

    return f"const std::string_view {name} ={''.join(map(literal, text.split(chr(10))))};\n\n"


def main():
    output, version, compiler, built, own, digits, *others = sys.argv[1:]
    copyings = dict(zip(built.split(","), others))
    components = gather(compiler, dict(pair.split("=", 1) for pair in others[len(copyings):]),
                        copyings, digits)
    with open(output, "w", encoding="utf-8") as file:
        file.write('#include "cli/licenses.h"\n\nnamespace adaptdl {\n\n')
        file.write(constant("kLicenses", licenses(read(own), components)))
        file.write(constant("kSbom", sbom(version, components)))
        file.write("}  // namespace adaptdl\n")


if __name__ == "__main__":
    main()
