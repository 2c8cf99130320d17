"""Compiles a program against the NCCL that PyTorch's wheels bring, and runs it with that library.

Usage: nccl_abi.py NCCL_ABI.cpp

$ADAPTDL_TEST_PYTHON is a Python that has them, $CXX the compiler. Skipped without NCCL there.
"""

import glob
import os
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))

#What nccl.h takes from CUDA : CUDA 's own headers need a compiler of CUDA' s.
CUDA = {"cuda_runtime.h": "typedef struct CUstream_st* cudaStream_t;\n", "cuda_fp16.h": "",
        "cuda_bf16.h": "", "cuda_fp8.h": ""}


def main():
    python = os.environ.get("ADAPTDL_TEST_PYTHON", "")
    packages = os.path.join(os.path.dirname(python), "../lib/python3*/site-packages")
    nvidia = glob.glob(os.path.join(packages, "nvidia"))
    if not python or not nvidia or not os.path.isdir(os.path.join(nvidia[0], "nccl/include")):
        print("$ADAPTDL_TEST_PYTHON has no NCCL")
        return 77
    place = nvidia[0]
    with tempfile.TemporaryDirectory(prefix="adaptdl-test-") as folder:
        program = os.path.join(folder, "nccl_abi")
        for name, text in CUDA.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        library = os.path.join(ROOT, "runtime/comm/nccl/library.cpp")
        subprocess.run([*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", "-Wall",
                        "-Wextra", "-Werror", "-I" + ROOT, f"-isystem{place}/nccl/include",
                        "-isystem" + folder, "-o", program, sys.argv[1], library, "-ldl"],
                       check=True)
#It listens where we allow it.
        return subprocess.run([program], check=False,
                              env={**os.environ, "LD_LIBRARY_PATH": f"{place}/nccl/lib",
                                   "NCCL_SOCKET_IFNAME": "lo"}).returncode


if __name__ == "__main__":
    sys.exit(main())
