#!/usr/bin/env python3
"""embed.py OUT HEADER FUNCTION FILE...: C++ that holds the files' texts.

HEADER declares FUNCTION, such as adaptdl::cli::embedded: it takes a file's name without folders,
and gives its text, or none.
"""
import os
import sys

CHUNK = 8000  # characters per literal: compilers promise 65535 bytes, the compiler joins them


def literal(text):
    parts = [text[i:i + CHUNK] for i in range(0, len(text), CHUNK)] or ['']
    return '\n'.join('R"adaptdl(' + part + ')adaptdl"' for part in parts)


out, header, function, *files = sys.argv[1:]
namespace, _, name = function.rpartition('::')
with open(out, 'w', encoding='utf-8') as result:
    result.write(f'#include "{header}"\n\nnamespace {namespace} {{\n\n'
                 f'std::string_view {name}(std::string_view name) {{\n')
    for path in files:
        with open(path, encoding='utf-8', newline='') as source:
            text = source.read()
        result.write(f'  if (name == "{os.path.basename(path)}") return {literal(text)};\n')
    result.write(f'  return {{}};\n}}\n\n}}  // namespace {namespace}\n')
