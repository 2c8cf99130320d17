#!/usr/bin/env python3
"""embed.py OUT.S OUT.cpp FILE...: the files' bytes, as declared in template_data.h.

A file is known by its folder's name and its own: digits/train.pt.
"""
import os
import sys

assembly, code, files = sys.argv[1], sys.argv[2], sys.argv[3:]
names = ['/'.join(os.path.abspath(path).split('/')[-2:]) for path in files]
with open(assembly, 'w', encoding='utf-8') as out:
    out.write('    .section .rodata\n')
    for i, path in enumerate(files):
        out.write(f'    .global adaptdl_template_{i}_begin\n    .global adaptdl_template_{i}_end\n'
                  f'    .balign 16\nadaptdl_template_{i}_begin:\n'
                  f'    .incbin "{os.path.abspath(path)}"\nadaptdl_template_{i}_end:\n')
    out.write('    .section .note.GNU-stack,"",%progbits\n')
with open(code, 'w', encoding='utf-8') as out:
    out.write('#include "cli/templates/template_data.h"\n\n'
              '// NOLINTBEGIN(readability-identifier-naming): the assembler knows these names.\n'
              'extern "C" {\n')
    for i in range(len(files)):
        out.write(f'extern const char adaptdl_template_{i}_begin[], adaptdl_template_{i}_end[];\n')
    out.write('}\n\nnamespace adaptdl::templates {\n\n'
              'std::string_view embedded_file(std::string_view name) {\n')
    for i, name in enumerate(names):
        begin, end = f'adaptdl_template_{i}_begin', f'adaptdl_template_{i}_end'
        out.write(f'  if (name == "{name}") {{\n'
                  f'    return {{{begin}, static_cast<size_t>({end} - {begin})}};\n'
                  '  }\n')
    out.write('  return {};\n}\n\n}  // namespace adaptdl::templates\n'
              '// NOLINTEND(readability-identifier-naming)\n')
