"""Gathers the licence texts of all that is linked statically into one C++ source file.

Usage: generate.py OUTPUT.cpp LICENSE CURL_COPYING LIBARCHIVE_COPYING FMT_LICENSE
       DIGITS_NOTICE

Debian keeps each package's licence in /usr/share/doc/PACKAGE/copyright. Where that file is missing
(another distribution), the entry names the licence and where its text is to be found.
"""

import glob
import re
import sys

# title, licence, home page, package of Debian or Ubuntu (a pattern; the newest match counts)
PACKAGES = [
    ("Boost", "BSL-1.0", "https://www.boost.org", "libboost[0-9]*-dev"),
    ("CLI11", "BSD-3-Clause", "https://github.com/CLIUtils/CLI11", "libcli11-dev"),
    ("yaml-cpp", "MIT", "https://github.com/jbeder/yaml-cpp", "libyaml-cpp-dev"),
    ("JSON for Modern C++", "MIT", "https://github.com/nlohmann/json", "nlohmann-json3-dev"),
    ("libjpeg-turbo", "IJG and BSD-3-Clause and Zlib", "https://libjpeg-turbo.org",
     "libjpeg*turbo*-dev"),
    ("libpng", "libpng-2.0", "http://www.libpng.org/pub/png/libpng.html", "libpng-dev"),
    ("OpenSSL", "Apache-2.0", "https://www.openssl.org", "libssl-dev"),
    ("Qhull", "Qhull", "http://www.qhull.org", "libqhull-dev"),
    ("zlib", "Zlib", "https://zlib.net", "zlib1g-dev"),
    ("Zstandard", "BSD-3-Clause or GPL-2.0", "https://facebook.github.io/zstd", "libzstd-dev"),
    ("The GCC runtime libraries libstdc++ and libgcc",
     "GPL-3.0-or-later with the GCC Runtime Library Exception", "https://gcc.gnu.org",
     "libstdc++-*-dev"),
]


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip("\n")


def package_text(package):
    def version(path):
        return [int(n) for n in re.findall(r"\d+", path)]

    found = sorted(glob.glob(f"/usr/share/doc/{package}/copyright"), key=version)
    return read(found[-1]) if found else None


def main():
    output, own, curl, libarchive, fmt, digits = sys.argv[1:]
    entries = [("libcurl", "curl", "https://curl.se", read(curl)),
               ("libarchive", "BSD-2-Clause", "https://libarchive.org", read(libarchive)),
               ("{fmt}", "MIT", "https://github.com/fmtlib/fmt", read(fmt))]
    for title, license_name, home, package in PACKAGES:
        text = package_text(package)
        if text is None:
            print(f"no licence text of {title} here: only its name goes in", file=sys.stderr)
            text = f"The text was not installed where this was built; it is found at {home}."
        entries.append((title, license_name, home, text))
    entries.sort(key=lambda entry: entry[0].strip("{").lower())

    parts = ["adaptdl is licensed under the Apache License 2.0 (text below). It contains:\n"]
    parts += [f"- {title}: {license_name} ({home})" for title, license_name, home, _ in entries]
    parts += ["- the example data set digits: CC BY 4.0", ""]
    for title, text in [("adaptdl", read(own)), ("Example data set: digits", read(digits))] + [
            (title, text) for title, _, _, text in entries]:
        parts += ["=" * 80, title, "=" * 80, text, ""]

    with open(output, "w", encoding="utf-8") as file:
        file.write('#include "cli/licenses.h"\n\nnamespace adaptdl {\n\n')
        file.write("const std::string_view kLicenses =")
        for line in "\n".join(parts).split("\n"):
            escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
            file.write(f'\n    "{escaped}\\n"')
        file.write(";\n\n}  // namespace adaptdl\n")


if __name__ == "__main__":
    main()
