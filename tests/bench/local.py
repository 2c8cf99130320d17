"""Figures of the local service: local.py ADAPTDL [JOBS]. Prints one line each; passes nothing, fails nothing.

How long `submit -- /bin/true` takes when slots are idle, `ls` with many ended jobs, the service's
memory after a hundred jobs and after all, and what an idle service uses.
"""

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time


def proc_status(pid, key):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    return 0


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    adaptdl, jobs = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory(prefix="adaptdl-bench-") as folder:
        environment = os.environ | {"ADAPTDL_LOCAL_STATE": os.path.join(folder, "local"),
                                    "HOME": folder, "XDG_CONFIG_HOME": folder}
        with open(os.path.join(folder, "log"), "wb") as log:
            service = subprocess.Popen([adaptdl, "serve"], env=environment, stderr=log)

        def command(*words):
            begun = time.perf_counter()
            subprocess.run([adaptdl, *words], env=environment, check=True, cwd=folder,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            return time.perf_counter() - begun

        def unfinished():
            path = f"file:{folder}/local/state.db?mode=ro"
            database = sqlite3.connect(path, uri=True)
            count, = database.execute("SELECT count(*) FROM jobs WHERE ended_s IS NULL").fetchone()
            database.close()
            return count

        def settle():
            while unfinished():
                time.sleep(0.02)

        while not os.path.exists(f"{folder}/local/service.sock"):
            time.sleep(0.01)
        times, memory = [], {}
        for i in range(jobs):
            times.append(command("submit", "--no-start", "--", "/bin/true"))
            if i < 100:
                settle()  # slots idle
            if i == 99:
                memory[100] = proc_status(service.pid, "VmRSS")
        first, rest = times[:100], times[100:]
        print(f"submit -- /bin/true, slots idle: {statistics.median(first) * 1e3:.1f} ms median, "
              f"{max(first) * 1e3:.1f} highest of {len(first)}")
        if rest:
            print(f"submit in a loop: {statistics.median(rest) * 1e3:.1f} ms median, "
                  f"{max(rest) * 1e3:.1f} highest of {len(rest)}")
        begun = time.monotonic()
        settle()
        print(f"all had ended {time.monotonic() - begun:.1f} s after the last")
        memory[jobs] = proc_status(service.pid, "VmRSS")
        print(f"memory after 100 jobs {memory[100]} kB, after {jobs} {memory[jobs]} kB: "
              f"{memory[jobs] / memory[100]:.2f} times")
        before = cpu_s(service.pid)
        time.sleep(60)
        print(f"idle for 60 s: {(cpu_s(service.pid) - before) / 60 * 100:.3f} % of a core")
        database = sqlite3.connect(f"{folder}/local/state.db")
        columns = [row[1] for row in database.execute("PRAGMA table_info(jobs)")
                   if row[1] not in ("id", "name")]
        names = ", ".join(columns)
        have, = database.execute("SELECT count(*) FROM jobs").fetchone()
        for i in range(10_000 - have):
            database.execute(f"INSERT INTO jobs (name, {names}) SELECT 'more-{i}', {names} FROM jobs "
                             "ORDER BY id LIMIT 1")
        database.commit()
        database.close()
        listed = [command("ls") for _ in range(20)]
        print(f"ls with 10000 ended jobs: {statistics.median(listed) * 1e3:.1f} ms median")
        service.terminate()
        service.wait()


main()
