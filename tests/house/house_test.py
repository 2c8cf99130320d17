"""The checks of this folder, on small trees with faults: each must be found."""

import os
import shutil
import subprocess
import tempfile
import unittest

import includes
import links
import python_names
import registered


def write(root, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(text)


class IncludesTest(unittest.TestCase):
    def problems(self, path, include):
        with tempfile.TemporaryDirectory() as root:
            write(root, {path: f"#pragma once\n  # include {include}\n"})
            return includes.check_tree(root)

    def test_allowed(self):
        for path, include in [("core/job/a.h", '"core/goodput/b.h"'),
                              ("core/job/a.h", '"core/job/b.h"'),
                              ("core/cluster/kubernetes/a.h", '"core/kube/b.h"'),
                              ("runtime/session/a.h", "<torch/torch.h>"),
                              ("runtime/session/a.h", '"runtime/comm/b.h"'),
                              ("cli/a.cpp", '"core/launch/b.h"'),
                              ("core/base/a.h", "<vector>")]:
            self.assertEqual(self.problems(path, include), [], (path, include))

    def test_refused(self):
        for path, include in [("core/base/a.h", '"core/job/b.h"'),
                              ("core/launch/a.h", '"core/goodput/b.h"'),
                              ("core/cluster/a.h", '"core/kube/b.h"'),
                              ("core/base/a.h", "<torch/torch.h>"),
                              ("cli/a.cpp", '"runtime/comm/b.h"'),
                              ("cli/a.cpp", "<ATen/ATen.h>"),
                              ("runtime/comm/a.h", "<c10/core/Device.h>"),
                              ("runtime/comm/a.h", '"runtime/session/b.h"'),
                              ("runtime/session/a.h", '"core/sched/b.h"'),
                              ("runtime/session/a.h", '"cli/b.h"'),
                              ("core/base/a.h", '"error.h"'),
                              ("core/unknown/a.h", '"core/base/b.h"')]:
            found = self.problems(path, include)
            self.assertEqual(len(found), 1, (path, include))
            self.assertTrue(found[0].startswith(f"{path}:2: "), found)


@unittest.skipUnless(shutil.which("git"), "git is not there")
class LinksTest(unittest.TestCase):
    def problems(self, target):
        with tempfile.TemporaryDirectory() as root:
            write(root, {"data/sets/a": "", "cli/b.h": "", "build/made": ""})
            os.symlink(target, os.path.join(root, "cli/link"))
            for words in (["init", "-q"], ["add", "data", "cli"]):
                subprocess.run(["git", "-C", root, *words], check=True)
            return links.check_tree(root)

    def test_allowed(self):
        for target in ("b.h", "../data", "../data/sets/a", "../data/../cli/b.h", ".."):
            self.assertEqual(self.problems(target), [], target)

    def test_refused(self):
        for target in ("/", "../..", "../../etc", "lost.h", "../build", "../build/made"):
            found = self.problems(target)
            self.assertEqual(len(found), 1, target)
            self.assertTrue(found[0].startswith("cli/link: the link leads "), found)


@unittest.skipUnless(shutil.which("git"), "git is not there")
class PythonNamesTest(unittest.TestCase):
    def test_finds_what_hides_a_module(self):
        with tempfile.TemporaryDirectory() as root:
            write(root, {"tests/a/operator.py": "", "tests/a/operators.py": "", "tests/a/json": ""})
            subprocess.run(["git", "-C", root, "init", "-q"], check=True)
            subprocess.run(["git", "-C", root, "add", "-A"], check=True)
            found = python_names.check_tree(root)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith("tests/a/operator.py: "), found)


class RegisteredTest(unittest.TestCase):
    def test_finds_the_forgotten_file(self):
        with tempfile.TemporaryDirectory() as root:
            write(root, {
                "tests/meson.build": "files('unit/a_test.cpp', 'b/c_test.py')\n# 'forgotten.cpp'\n",
                "tests/unit/meson.build": "files('d_test.cpp')\n",
                "tests/unit/a_test.cpp": "", "tests/unit/d_test.cpp": "", "tests/b/c_test.py": "",
                "tests/forgotten.cpp": "", "core/base/lost.cpp": "",
            })
            self.assertEqual(registered.unregistered(root),
                             ["core/base/lost.cpp", "tests/forgotten.cpp"])


if __name__ == "__main__":
    unittest.main()
