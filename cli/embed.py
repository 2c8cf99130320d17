#!/usr/bin/env python3
"""embed.py OUT FILE...: C++ that holds the files' texts (see embedded.h)."""
import os
import sys

CHUNK = 8000  # characters per literal: compilers promise 65535 bytes, the compiler joins them


def literal(text):
    parts = [text[i:i + CHUNK] for i in range(0, len(text), CHUNK)] or ['']
    return '\n'.join('R"adaptdl(' + part + ')adaptdl"' for part in parts)


out, files = sys.argv[1], sys.argv[2:]
with open(out, 'w', encoding='utf-8') as result:
    result.write('#include "cli/embedded.h"\n\nnamespace adaptdl::cli {\n\n'
                 'std::string_view embedded(std::string_view name) {\n')
    for path in files:
        with open(path, encoding='utf-8', newline='') as source:
            text = source.read()
        name = os.path.basename(path)
        result.write(f'  if (name == "{name}") return {literal(text)};\n')
    result.write('  return {};\n}\n\n}  // namespace adaptdl::cli\n')
