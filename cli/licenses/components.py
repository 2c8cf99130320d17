"""What the program contains or loads: one table for the licence texts and the list of components.

Facts about what is installed come from dpkg; elsewhere versions are those that meson found.
"""

import dataclasses
import glob
import hashlib
import os
import re
import subprocess
from urllib.parse import quote


@dataclasses.dataclass
class Component:
    name: str
    title: str
    license: str  # an SPDX expression
    home: str
    package: str = ""  # of Debian or Ubuntu; a pattern, of which the newest match counts
    archives: tuple = ()  # files linked statically
    linkage: str = "static"  # or headers, dynamic, data
    # Of what is no package of the distribution; elsewhere found out below.
    purl: str = "pkg:generic/{name}@{version}"
    supplier: str = ""  # the title
    version: str = ""
    text: str = ""
    files: list = dataclasses.field(default_factory=list)  # (name, SHA-256)


COMPONENTS = [
    Component("boost", "Boost", "BSL-1.0", "https://www.boost.org", "libboost[0-9]*-dev",
              linkage="headers"),
    Component("cli11", "CLI11", "BSD-3-Clause", "https://github.com/CLIUtils/CLI11",
              "libcli11-dev", linkage="headers"),
    Component("yaml-cpp", "yaml-cpp", "MIT", "https://github.com/jbeder/yaml-cpp",
              "libyaml-cpp-dev", ("libyaml-cpp.a",)),
    Component("nlohmann-json", "JSON for Modern C++", "MIT", "https://github.com/nlohmann/json",
              "nlohmann-json3-dev", linkage="headers"),
    Component("libjpeg-turbo", "libjpeg-turbo", "IJG AND BSD-3-Clause AND Zlib",
              "https://libjpeg-turbo.org", "libjpeg*turbo*-dev", ("libjpeg.a",)),
    Component("libpng", "libpng", "libpng-2.0", "http://www.libpng.org/pub/png/libpng.html",
              "libpng-dev", ("libpng16.a",)),
    Component("openssl", "OpenSSL", "Apache-2.0", "https://www.openssl.org", "libssl-dev",
              ("libssl.a", "libcrypto.a")),
    Component("qhull", "Qhull", "Qhull", "http://www.qhull.org", "libqhull-dev",
              ("libqhullstatic_r.a",)),
    Component("sqlite", "SQLite", "blessing", "https://www.sqlite.org", "libsqlite3-dev",
              ("libsqlite3.a",)),
    Component("zlib", "zlib", "Zlib", "https://zlib.net", "zlib1g-dev", ("libz.a",)),
    Component("zstd", "Zstandard", "BSD-3-Clause OR GPL-2.0-only",
              "https://facebook.github.io/zstd", "libzstd-dev", ("libzstd.a",)),
    Component("gcc", "The GCC runtime libraries libstdc++ and libgcc",
              "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org",
              "libstdc++-{major}-dev", ("libstdc++.a", "libgcc.a", "libgcc_eh.a")),
]
# Built here: subprojects/NAME.wrap. (OpenSSL too, where the system's is old.)
SUBPROJECTS = [
    Component("curl", "libcurl", "curl", "https://curl.se"),
    Component("libarchive", "libarchive", "BSD-2-Clause", "https://libarchive.org"),
    Component("fmtlib", "{fmt}", "MIT", "https://github.com/fmtlib/fmt"),
]
# Not in the binary, so that their licences are not printed.
LOADED = [
    Component("glibc", "The GNU C Library", "LGPL-2.1-or-later",
              "https://www.gnu.org/software/libc", "libc6", linkage="dynamic"),
    Component("torch", "LibTorch", "BSD-3-Clause", "https://pytorch.org", linkage="dynamic",
              purl="pkg:pypi/torch@{version}", supplier="PyTorch"),
]
DIGITS = Component("digits", "Example data set: digits", "CC-BY-4.0",
                   "https://doi.org/10.24432/C50P49", linkage="data", version="1998",
                   supplier="UCI Machine Learning Repository")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip("\n")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def output_of(*command):
    """What a command prints; nothing if it fails or is missing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def system():
    """ID and version of the distribution, such as ("debian", "12")."""
    if not os.path.exists("/etc/os-release"):
        return "linux", ""
    found = dict(re.findall(r'^(\w+)="?([^"\n]*)', read("/etc/os-release"), re.MULTILINE))
    return found.get("ID", "linux"), found.get("VERSION_ID", "")


def deb_purl(distribution, release, package, version, architecture, source=""):
    """`source`: the source package, by which Debian lists vulnerabilities, of a binary one."""
    return (f"pkg:deb/{distribution}/{quote(package)}@{quote(version, safe=':~')}"
            f"?arch={architecture}" + (f"&distro={distribution}-{release}" if release else "")
            + (f"&upstream={quote(source)}" if source else ""))


def installed(pattern):
    """The newest installed package that matches: name, version, architecture, source package and
    licence text. None without one."""
    def numbers(path):
        return [int(n) for n in re.findall(r"\d+", path)]

    for path in sorted(glob.glob(f"/usr/share/doc/{pattern}/copyright"), key=numbers, reverse=True):
        package = os.path.basename(os.path.dirname(path))
        facts = output_of("dpkg-query", "-W", "-f",
                          "${Version} ${Architecture} ${source:Package}\n", package)
        if facts:
            return package, *facts.split("\n")[0].split(), read(path)
    return None


def fill_library(component, compiler, version):
    """What comes with the system or its compiler; `version` is what meson found."""
    found = installed(component.package) if component.package else None
    distribution, release = system()
    if found:
        package, component.version, architecture, source, component.text = found
        component.purl = deb_purl(distribution, release, package, component.version, architecture,
                                  source)
        component.supplier = distribution.capitalize()
    else:
        component.version = version
        component.text = ("The text was not installed where this was built; it is found at "
                          f"{component.home}.")
    for name in component.archives:
        path = output_of(compiler, "-print-file-name=" + name)
        if os.path.isabs(path):
            component.files.append((name, sha256(path)))


def fill_subproject(component, copying):
    """A source tree that has this licence file: Debian's, unpacked by bootstrap, or the release."""
    tree = os.path.dirname(copying)
    wrap = dict(re.findall(r"^(\w+) = (.*)$",
                           read(os.path.join(tree, "..", component.name + ".wrap")), re.MULTILINE))
    component.text = read(copying)
    changelog = os.path.join(tree, "debian/changelog")
    if os.path.exists(changelog):
        component.version = re.match(r"\S+ \((\S+)\)", read(changelog)).group(1)
        component.supplier = "Debian"
        component.purl = deb_purl("debian", "13", component.name, component.version, "source")
        known = re.search(f"^{re.escape(f'{component.name}={component.version}@')}([0-9a-f]+)",
                          read(os.path.join(tree, "../../bootstrap")), re.MULTILINE)
        if known:
            component.files = [(f"{component.name}_{component.version}.dsc", known.group(1))]
    else:
        component.version = wrap["directory"].rpartition("-")[2]
        component.files = [(wrap["source_filename"], wrap["source_hash"])]
        component.purl = (f"pkg:generic/{component.name}@{component.version}"
                          f"?download_url={quote(wrap['source_url'], safe='')}"
                          f"&checksum=sha256:{wrap['source_hash']}")


def gather(compiler, versions, copyings, digits):
    """Everything, with its facts. `versions`: meson's; `copyings`: licence files; both by name."""
    libraries = [part for part in COMPONENTS + SUBPROJECTS + LOADED
                 if part.name in versions or part.name in copyings]
    for component in libraries:
        if component.name in copyings:
            fill_subproject(component, copyings[component.name])
        else:
            component.package = component.package.format(major=versions["gcc"].split(".")[0])
            fill_library(component, compiler, versions[component.name])
    DIGITS.text = read(digits)
    parts = sorted(libraries, key=lambda part: part.title.strip("{").lower())
    parts.append(DIGITS)
    for part in parts:
        part.purl = part.purl.format(name=part.name, version=quote(part.version))
        part.supplier = part.supplier or part.title
    return parts
