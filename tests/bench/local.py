"""Figures of the local service: local.py ADAPTDL [JOBS]. Prints one line each; does not pass or
fail.

Measures the time of `submit -- /bin/true` with idle slots, of `ls` with many ended jobs, the
service's memory after a hundred jobs and after all, and the CPU time of an idle service.
"""

import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from support import (LIVE_JOBS, Folder, cpu_s, end_by_sigterm, run_command, service, status_of,
                     wait_until)

LONG_S = 3600  # more than all jobs take


def measure(local, jobs):
    pid = local.process.pid

    def command(*words):
        begun = time.perf_counter()
        run_command([local.folder.binary, *words], 0, env=local.environment, cwd=local.folder.path)
        return time.perf_counter() - begun

    def settle():
        wait_until(lambda: not local.query(LIVE_JOBS), "the end of all jobs", LONG_S, every=0.02)

    times, memory = [], {}
    for i in range(jobs):
        times.append(command("submit", "--no-start", "--", "/bin/true"))
        if i < 100:
            settle()  # slots idle
        if i == 99:
            memory[100] = int(status_of(pid, "VmRSS"))
    first, rest = times[:100], times[100:]
    print(f"submit -- /bin/true, slots idle: {statistics.median(first) * 1e3:.1f} ms median, "
          f"{max(first) * 1e3:.1f} highest of {len(first)}")
    if rest:
        print(f"submit in a loop: {statistics.median(rest) * 1e3:.1f} ms median, "
              f"{max(rest) * 1e3:.1f} highest of {len(rest)}")
    begun = time.monotonic()
    settle()
    print(f"all had ended {time.monotonic() - begun:.1f} s after the last")
    memory[jobs] = int(status_of(pid, "VmRSS"))
    print(f"memory after 100 jobs {memory[100]} kB, after {jobs} {memory[jobs]} kB: "
          f"{memory[jobs] / memory[100]:.2f} times")
    before = cpu_s(pid)
    time.sleep(60)  # the time itself is measured
    print(f"idle for 60 s: {(cpu_s(pid) - before) / 60 * 100:.3f} % of a core")
    columns = ", ".join(row["name"] for row in local.query("PRAGMA table_info(jobs)")
                        if row["name"] not in ("id", "name"))
    local.change("WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers "
                 f"WHERE i < {10_000 - jobs}) INSERT INTO jobs (name, {columns}) "
                 f"SELECT 'more-' || i, {columns} FROM numbers, "
                 "(SELECT * FROM jobs ORDER BY id LIMIT 1)")
    listed = [command("ls") for _ in range(20)]
    print(f"ls with 10000 ended jobs: {statistics.median(listed) * 1e3:.1f} ms median")


def main():
    end_by_sigterm()
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with Folder(os.path.abspath(sys.argv[1])) as folder, service(folder) as local:
        measure(local, jobs)


main()
