#!/usr/bin/env python3
"""sbom.py ADAPTDL SOURCE_ROOT BUILD_ROOT: `adaptdl licenses --sbom` follows CycloneDX 1.5 and lists
everything that is linked.

The rules are those of the format's schema (bom-1.5.schema.json) for the fields that occur: required
fields, no unknown ones, values of enumerations, patterns. What is linked is read from build.ninja.
"""
import json
import os
import re
import subprocess
import sys
import unittest

ADAPTDL, SOURCE, BUILD = sys.argv[1:4]

TYPES = {"application", "framework", "library", "container", "platform", "operating-system",
         "device", "device-driver", "firmware", "file", "machine-learning-model", "data"}
LICENSES = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC-BY-4.0", "GPL-2.0-only",
            "GPL-3.0-or-later", "GCC-exception-3.1", "IJG", "LGPL-2.1-or-later", "MIT", "Qhull",
            "Zlib", "blessing", "curl", "libpng-2.0"}  # of SPDX's list, those that occur
OPERATORS = {"AND", "OR", "WITH"}
# https://github.com/package-url/purl-spec: type, namespaces and name, version, qualifiers.
PURL = re.compile(r"pkg:[a-z][a-z0-9.+-]*(/[\w.%~+-]+)+@[\w.%~:-]+(\?[a-z_]+=[\w.%~:-]+"
                  r"(&[a-z_]+=[\w.%~:-]+)*)?")
# Our own code in build.ninja is named by paths in the build folder.
SYSTEM_ARCHIVE = re.compile(r" /(?!\S*/subprojects/)\S*/(lib[^/ ]+\.a)(?= |$)", re.MULTILINE)


def made():
    return json.loads(subprocess.run([ADAPTDL, "licenses", "--sbom"], check=True, text=True,
                                     capture_output=True).stdout)


def link_lines():
    """The libraries of adaptdl and of the worker in it."""
    with open(os.path.join(BUILD, "build.ninja"), encoding="utf-8") as file:
        text = file.read()
    return "\n".join(re.findall(r"^build (?:adaptdl|runtime/adaptdl-worker): .*\n"
                                r"(?: .*\n)*? LINK_ARGS = (.*)$", text, re.MULTILINE))


class Format(unittest.TestCase):
    def fields(self, record, required, optional=()):
        self.assertLessEqual(set(required), set(record), record)
        self.assertLessEqual(set(record), {*required, *optional}, record)

    def check_component(self, record):
        self.fields(record, ["type", "name"], [
            "bom-ref", "supplier", "version", "description", "licenses", "purl",
            "externalReferences", "properties", "components", "hashes"])
        self.assertIn(record["type"], TYPES)
        self.assertTrue(record["name"])
        if "supplier" in record:
            self.fields(record["supplier"], ["name"])
        for license_choice in record.get("licenses", []):
            self.fields(license_choice, ["expression"])
            words = set(license_choice["expression"].split())
            self.assertLessEqual(words, LICENSES | OPERATORS)
        self.assertLessEqual(len(record.get("licenses", [])), 1)  # the format's rule
        if "purl" in record:
            self.assertRegex(record["purl"], re.compile(f"^{PURL.pattern}$"))
        for reference in record.get("externalReferences", []):
            self.fields(reference, ["url", "type"])
            self.assertEqual(reference["type"], "website")
            self.assertRegex(reference["url"], r"^https?://\S+$")
        for hashed in record.get("hashes", []):
            self.fields(hashed, ["alg", "content"])
            self.assertEqual(hashed["alg"], "SHA-256")
            self.assertRegex(hashed["content"], r"^[0-9a-f]{64}$")
        for part in record.get("properties", []):
            self.fields(part, ["name", "value"])
        for part in record.get("components", []):
            self.check_component(part)

    def test_format(self):
        sbom = made()
        self.fields(sbom, ["bomFormat", "specVersion", "version"],
                    ["metadata", "components", "dependencies"])
        self.assertEqual((sbom["bomFormat"], sbom["specVersion"], sbom["version"]),
                         ("CycloneDX", "1.5", 1))
        self.fields(sbom["metadata"], ["component"])
        components = [sbom["metadata"]["component"], *sbom["components"]]
        for component in components:
            self.check_component(component)
        names = [component["bom-ref"] for component in components]
        self.assertEqual(len(names), len(set(names)))
        for dependency in sbom["dependencies"]:
            self.fields(dependency, ["ref", "dependsOn"])
            self.assertLessEqual({dependency["ref"], *dependency["dependsOn"]}, set(names))
            self.assertEqual(len(dependency["dependsOn"]), len(set(dependency["dependsOn"])))

    def test_every_component_has_what_a_reader_needs(self):
        for component in made()["components"]:
            for field in ("version", "supplier", "licenses", "purl", "properties"):
                self.assertTrue(component.get(field), (component["name"], field))


class Contents(unittest.TestCase):
    def test_every_library_is_listed(self):
        listed = {part["name"]: part["hashes"] for component in made()["components"]
                  for part in component.get("components", [])}
        linked = set(SYSTEM_ARCHIVE.findall(link_lines()))
        self.assertIn("libsqlite3.a", linked)
        self.assertLessEqual(linked, set(listed))
        self.assertLessEqual({"libstdc++.a", "libgcc.a"}, set(listed))

    def test_every_subproject_is_listed(self):
        names = {component["name"] for component in made()["components"]}
        wraps = {name[:-len(".wrap")] for name in os.listdir(os.path.join(SOURCE, "subprojects"))
                 if name.endswith(".wrap")}
        self.assertTrue(wraps)
        self.assertLessEqual(wraps, names)

    def test_what_is_loaded_is_listed(self):
        names = {component["name"] for component in made()["components"]
                 if {"name": "adaptdl:linkage", "value": "dynamic"} in component["properties"]}
        self.assertEqual(names, {"glibc"} | ({"torch"} if "-ltorch_cpu" in link_lines() else set()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
