"""Checks the walls between modules: which folder may include which.

Usage: includes.py SOURCE_ROOT. Prints file:line and the rule for every include that crosses a
wall; exits 1 if there is any. ARCHITECTURE.md says what each module is for.
"""

import os
import re
import sys

# What a module may include besides itself. The longest matching folder decides.
RULES = {
    "core/base": [],
    "core/events": ["core/base"],
    "core/kube": ["core/base"],
    "core/oci": ["core/base"],
    "core/strategy": ["core/base"],
    "core/goodput": ["core/base"],
    "core/job": ["core/base", "core/goodput"],
    "core/policy": ["core/base", "core/goodput"],
    "core/cluster": ["core/base", "core/goodput", "core/job"],
    "core/cluster/kubernetes": ["core/base", "core/goodput", "core/job", "core/cluster", "core/kube",
                                "core/policy", "core/sched"],
    "core/cluster/local": ["core/base", "core/goodput", "core/job", "core/cluster", "core/launch",
                           "core/policy", "core/sched"],
    "core/sched": ["core/base", "core/goodput", "core/job", "core/policy", "core/cluster"],
    "core/launch": ["core/base", "core/job"],
    "core/sim": ["core/base", "core/goodput", "core/job", "core/policy", "core/sched",
                 "core/cluster"],
    "core/tune": ["core/base", "core/job", "core/cluster"],
    "runtime": ["core/base", "core/events", "core/goodput", "core/job", "core/strategy",
                "core/launch"],
    "cli": ["core"],
}

# Parts of runtime/ on plain buffers: they compile fast, are fuzzed and run under ThreadSanitizer.
TORCH_FREE = ["runtime/comm", "runtime/data", "runtime/gns", "runtime/profile",
              "runtime/checkpoint"]
for part in TORCH_FREE:
    RULES[part] = RULES["runtime"] + TORCH_FREE

TORCH_HEADER = re.compile(r"(torch|ATen|c10|nccl)[/.]|cuda")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def module_of(path):
    return max((m for m in RULES if inside(path, m)), key=len, default=None)


def check_include(path, quote, target):
    """The rule that this include breaks, or None."""
    module = module_of(os.path.dirname(path))
    if module is None:
        return "this folder is in no row of the table in tests/house/includes.py"
    if quote == "<":
        torch_free = not path.startswith("runtime/") or module in TORCH_FREE
        if torch_free and TORCH_HEADER.match(target):
            return f"{module} is free of Torch and CUDA"
        return None
    if target.split("/")[0] not in ("core", "runtime", "cli"):
        return "includes of our own headers start at the root of the repository"
    if inside(target, module) or any(inside(target, allowed) for allowed in RULES[module]):
        return None
    allowed = ", ".join(RULES[module]) or "nothing of ours"
    return f"{module} may include {allowed}"


def check_tree(root):
    problems = []
    for top in ("core", "runtime", "cli"):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            if inside(os.path.relpath(folder, root), "cli/templates"):
                continue  # sources that `adaptdl init` writes: programs of their own
            for name in sorted(names):
                if not name.endswith((".cpp", ".h", ".cu")):
                    continue
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    for number, line in enumerate(file, 1):
                        match = INCLUDE.match(line)
                        rule = match and check_include(path, match[1], match[2])
                        if rule:
                            problems.append(f"{path}:{number}: includes {match[2]}, but {rule}")
    return problems


if __name__ == "__main__":
    found = check_tree(sys.argv[1])
    print("\n".join(found) or "every include keeps to the table")
    sys.exit(1 if found else 0)
