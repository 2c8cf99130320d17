"""Runs the checks of this folder on small trees with faults: each fault must be found."""

import os
import shutil
import subprocess
import tempfile
import unittest

import includes
import links
import python_lint
import python_names
import registered
import rooms


ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


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
                              ("runtime/session/a.h", '"adaptdl/b.h"'),
                              ("runtime/include/adaptdl/a.h", '"adaptdl/b.h"'),
                              ("runtime/include/adaptdl/a.h", "<c10/core/Device.h>"),
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
                              ("runtime/session/a.h", '"runtime/include/adaptdl/b.h"'),
                              ("runtime/include/adaptdl/a.h", '"core/base/b.h"'),
                              ("runtime/include/adaptdl/a.h", '"runtime/session/b.h"'),
                              ("runtime/comm/a.h", '"adaptdl/b.h"'),
                              ("cli/a.cpp", "<adaptdl/b.h>"),
                              ("core/base/a.h", '"error.h"'),
                              ("core/unknown/a.h", '"core/base/b.h"')]:
            found = self.problems(path, include)
            self.assertEqual(len(found), 1, (path, include))
            self.assertTrue(found[0].startswith(f"{path}:2: "), found)


    def test_finds_rules_for_what_is_not_there(self):
        with tempfile.TemporaryDirectory() as root:
            write(root, {f"{module}/a.h": "" for module in includes.RULES if module != "core/net"})
            write(root, {"core/launch/io/protocol.h": ""})
            found = includes.check_rules(root)
            self.assertEqual([problem.split(":")[0] for problem in found], ["core/net"], found)


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


@unittest.skipUnless(shutil.which("git"), "git is not there")
@unittest.skipUnless(python_lint.find_ruff(ROOT), "ruff is not there")
class PythonLintTest(unittest.TestCase):
    def test_finds_what_is_wrong_in_tracked_files(self):
        with tempfile.TemporaryDirectory() as root:
            write(root, {"a.py": "import os\n", "b.py": "print(1)\n", "c.py": "import os\n",
                         "tool": "#!/usr/bin/env python3\nx = lambda: None; print(x)\n"})
            subprocess.run(["git", "-C", root, "init", "-q"], check=True)
            subprocess.run(["git", "-C", root, "add", "a.py", "b.py", "tool"], check=True)
            found = python_lint.check_tree(root, python_lint.find_ruff(ROOT))
            self.assertEqual({problem.split(":")[0] for problem in found}, {"a.py", "tool"}, found)


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

    def test_finds_the_forgotten_scenario(self):
        with tempfile.TemporaryDirectory() as root:
            write(root, {"a.py": "main(one, two,\n     three)\n", "b.py": "main(one, two)\n"})
            a, b = (os.path.join(root, name) for name in ("a.py", "b.py"))
            commands = [["python3", a, "--only", "one"], ["python3", a, "--only", "three"],
                        ["python3", b, "--only", "one"], ["python3", b], ["/bin/true"]]
            self.assertEqual(registered.never_run(commands), [f"{a}: two"])


class RoomsTest(unittest.TestCase):
    def problems(self, files):
        with tempfile.TemporaryDirectory() as root:
            write(root, files)
            return rooms.check_tree(root)

    def test_allowed(self):
        for files in ({"core/kube/a.cpp": "", "core/kube/a.h": ""},
                      {"core/tool/start.cpp": "#include <string>\nint main(int, char**) {}\n"},
                      {"cli/commands/ls.cpp": '#include "cli/frame/output.h"\n'},
                      {"core/sim/scenario/a.h": '#include "core/sim/profiles/profile.h"\n'},
                      {"core/sim/profiles/a.h": '#include "core/sim/job.h"\n'},
                      {"core/sim/a.h": '#include "core/sim/profiles/profile.h"\n'},
                      {"core/policy/sia/a.h": '#include "core/policy/b.h"\n'},
                      {"core/policy/policy.cpp": '#include "core/policy/sia/b.h"\n',
                       "core/policy/policy.h": ""},
                      {f"core/kube/{i}.h": "" for i in range(50)}):
            self.assertEqual(self.problems(files), [], files)

    def test_refused(self):
        crowded = {f"core/kube/{i}{end}": "" for i in range(41) for end in (".cpp", ".h")}
        for files, beginning in [
                ({"core/kube/a.cpp": "void main_part();\n"}, "core/kube/a.cpp: "),
                ({"core/sim/profiles/a.h": '\n#include "core/sim/scenario/b.h"\n'},
                 "core/sim/profiles/a.h:2: "),
                ({"cli/frame/a.h": '#include "cli/commands/b.h"\n'}, "cli/frame/a.h:1: "),
                ({"core/policy/a.h": '#include "core/policy/sia/b.h"\n'}, "core/policy/a.h:1: "),
                (crowded, "core/kube: 41 sources ")]:
            found = self.problems(files)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(beginning), found)


if __name__ == "__main__":
    unittest.main()
