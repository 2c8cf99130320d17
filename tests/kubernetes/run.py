"""Runs a test program against a real API server.

Usage: run.py PROGRAM [ARGUMENTS...]

ADAPTDL_TEST_KUBERNETES names a folder with the binaries of a Kubernetes (bin/kube-apiserver,
bin/etcd, ...; images/adaptdl-busybox.tar for a node), from which a cluster is started for the test,
or the kubeconfig file of a cluster in which the test may create namespaces. Without it the test is
skipped with a message (exit 77).
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback

import cluster
from support import SKIPPED, end_by_sigterm, kill_child, skip_all, write

PATIENCE_S = 1100  # less than meson's timeout, which leaves no time to stop a cluster


def run(program, environment, failures):
    """Returns the program's exit code. Also appends its report of failures to `failures`, which is
    printed again after the cluster's logs: readers of a long output look at its end."""
    process = subprocess.Popen(program, env={**os.environ, **environment}, text=True,
                               errors="replace", stdout=subprocess.PIPE)
    reader = threading.Thread(target=pass_on, args=(process.stdout, failures), daemon=True)
    reader.start()
    try:
        return process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        print(f"FAILED: not done within {PATIENCE_S} s", flush=True)
        failures.append(f"FAILED: not done within {PATIENCE_S} s\n")
        return 1
    finally:
        kill_child(process)
        reader.join(5)  # it continues if a leftover process holds the pipe


def pass_on(lines, failures):
    failing = False
    for line in lines:
        print(line, end="", flush=True)
        failing = line.startswith("FAILED ") or (failing and line.startswith("    "))
        if failing:
            failures.append(line)


def outliving(body):
    """Returns body()'s exit code. It runs in a process of its own session, and ends by SIGTERM when
    this process ends: meson kills a test half a second after it is interrupted, and a cluster takes
    longer to stop."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(writer)
        threading.Thread(target=end_at_end_of, args=(reader,), daemon=True).start()
        code = 1
        try:
            end_by_sigterm()
            code = body()
        except SystemExit as ended:
            code = ended.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(reader)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.kill(child, signal.SIGTERM))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def end_at_end_of(reader):
    os.read(reader, 1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.kill(os.getpid(), signal.SIGTERM)


def with_cluster(binaries, use):
    """Returns the exit code of use(cluster, environment of a test program); 0 is success."""
    # Socket paths must be short: not below a build folder.
    folder = tempfile.mkdtemp(prefix="adaptdl-kube-")
    started = cluster.Cluster(binaries, folder)
    failed = True
    try:
        why_not = cluster.can_run_node(binaries)
        if why_not:
            print(f"without a node: {why_not}", flush=True)
        started.up(with_node=not why_not)
        environment = {"ADAPTDL_TEST_KUBECONFIG": os.path.join(folder, "admin")}
        if not why_not:
            environment["ADAPTDL_TEST_IMAGE"] = cluster.IMAGE
            environment["ADAPTDL_TEST_REGISTRY"] = started.start_registry() or ""
            environment["ADAPTDL_TEST_CONTAINERD"] = started.path("containerd.sock")
            environment["ADAPTDL_TEST_BASE"] = os.path.join(binaries, "images/adaptdl-busybox.tar")
        # The program requests a restart by a signal, and waits until it is done.
        done = os.path.join(folder, "restarted")
        restart = write(os.path.join(folder, "restart"),
                        f"#!/bin/sh\nrm -f {done}\nkill -USR1 {os.getpid()}\n"
                        f"until test -e {done}; do sleep 0.1; done\n")
        os.chmod(restart, 0o755)

        def on_restart(_signal, _frame):
            started.restart_api_server()
            write(done)
        signal.signal(signal.SIGUSR1, on_restart)
        environment["ADAPTDL_TEST_RESTART"] = restart
        code = use(started, environment)
        failed = code not in (0, SKIPPED)
        return code
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing interrupts the end
        started.stop()
        if failed:
            for name in sorted(started.commands):
                print(f"---- end of {name}.log", *started.tail(name), sep="\n", flush=True)
        shutil.rmtree(folder, ignore_errors=True)


def on_binaries(use, at_end=lambda: None):
    """Like with_cluster if ADAPTDL_TEST_KUBERNETES names binaries; else skips. Then at_end()."""
    given = os.environ.get("ADAPTDL_TEST_KUBERNETES")
    if not given:
        skip_all("ADAPTDL_TEST_KUBERNETES names neither binaries of a Kubernetes nor a kubeconfig: "
                 "nothing was tested on a real API server")
    if os.path.isfile(given):
        skip_all(f"{given} is no folder of binaries, and this test kills what they run")
    if not os.path.exists(os.path.join(given, "bin/kube-apiserver")):
        print(f"ADAPTDL_TEST_KUBERNETES: {given} has no bin/kube-apiserver", flush=True)
        return 1
    def body():
        try:
            return with_cluster(given, use)
        finally:
            at_end()

    return outliving(body)


def on_node(use):
    """Like on_binaries, but skips where no node can run pods."""
    def use_node(started, environment):
        if "ADAPTDL_TEST_IMAGE" not in environment:
            print("SKIPPED: no node can run pods here", flush=True)
            return SKIPPED
        return use(started, environment)

    return on_binaries(use_node)


def main():
    given = os.environ.get("ADAPTDL_TEST_KUBERNETES", "")
    if os.path.isfile(given):
        return run(sys.argv[1:], {"ADAPTDL_TEST_KUBECONFIG": given}, [])
    failures = []
    return on_binaries(lambda _cluster, environment: run(sys.argv[1:], environment, failures),
                       lambda: print("".join(failures), end="", flush=True))


if __name__ == "__main__":
    sys.exit(main())
