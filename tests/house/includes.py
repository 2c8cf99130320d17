"""Checks the boundaries between modules: which folder may include which.

Usage: includes.py SOURCE_ROOT. Prints file:line and the rule for every forbidden include,
and each rule for a folder that does not exist; exits 1 if there is any. ARCHITECTURE.md describes
each module.
"""

import os
import re
import sys

# What a module may include besides itself. The longest matching folder applies.
RULES = {
    "core/base": [],
    "core/formats": ["core/base"],
    "core/net": ["core/base", "core/formats"],
    "core/tensorboard": ["core/base", "core/formats"],
    "core/kube": ["core/base", "core/formats", "core/net"],
    "core/oci": ["core/base", "core/formats", "core/net"],
    "core/goodput": ["core/base"],
    "core/job": ["core/base", "core/formats", "core/goodput"],
    "core/policy": ["core/base", "core/goodput"],
    "core/sched": ["core/base", "core/formats", "core/net", "core/goodput", "core/job",
                   "core/policy"],
    "core/launch": ["core/base", "core/formats", "core/net", "core/tensorboard", "core/job"],
}
RULES["core/sim"] = RULES["core/sched"] + ["core/sched"]
RULES["core/cluster/local"] = RULES["core/sched"] + ["core/sched", "core/launch",
                                                     "core/tensorboard"]
RULES["core/cluster/kubernetes"] = RULES["core/cluster/local"] + ["core/kube"]
RULES["core/client"] = RULES["core/cluster/kubernetes"] + ["core/cluster", "core/oci"]
RULES["runtime"] = ["core/base", "core/formats", "core/net", "core/tensorboard", "core/goodput",
                    "core/job", "core/launch/io/protocol.h"]
# Public headers: users' programs must compile with only LibTorch and these.
PUBLIC = "runtime/include"
RULES[PUBLIC] = []
RULES["cli"] = ["core"]

# Parts of runtime/ without Torch: they compile fast and run under fuzzers and ThreadSanitizer.
TORCH_FREE = ["runtime/comm", "runtime/standalone", "runtime/data", "runtime/gns",
              "runtime/profile", "runtime/checkpoint"]
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
    public = inside(target, "adaptdl")  # as installed
    if quote == "<" and not public:
        torch_free = not path.startswith("runtime/") or module in TORCH_FREE
        if torch_free and TORCH_HEADER.match(target):
            return f"{module} is free of Torch and CUDA"
        return None
    if public:
        target = f"{PUBLIC}/{target}"
    elif target.split("/")[0] not in ("core", "runtime", "cli") or inside(target, PUBLIC):
        return ("includes of our own headers start at the root of the repository, public ones with "
                "adaptdl/")
    if inside(target, module) or any(inside(target, allowed) for allowed in RULES[module]):
        return None
    allowed = ", ".join(RULES[module]) or "nothing of ours"
    return f"{module} may include {allowed}"


def check_tree(root):
    problems = []
    for top in ("core", "runtime", "cli"):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            if inside(os.path.relpath(folder, root), "cli/templates"):
                continue  # sources written by `adaptdl init`: separate programs
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


def check_rules(root):
    named = {path for module, allowed in RULES.items() for path in (module, *allowed)}
    return [f"{path}: tests/house/includes.py has a rule for it, and it is not there"
            for path in sorted(named) if not os.path.exists(os.path.join(root, path))]


if __name__ == "__main__":
    found = check_tree(sys.argv[1]) + check_rules(sys.argv[1])
    print("\n".join(found) or "every include keeps to the table")
    sys.exit(1 if found else 0)
