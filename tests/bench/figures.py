"""Figures as lines of JSON, programs that take turns, and observed runs of `adaptdl run`."""

import contextlib
import glob
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from support import Folder, Processes

HERE = os.path.dirname(os.path.abspath(__file__))

# name -> samples per replica and step, classes, shape of a sample: the peers' model.py.
MODELS = {"mlp": (128, 256, [256]), "conv": (128, 10, [1, 28, 28]), "large": (16, 2500, [2500])}


def significant(value):
    return float(f"{value:.4g}") if isinstance(value, float) else value


def interval(values):
    """The median, and its 95 % confidence interval from order statistics."""
    values = sorted(values)
    n, below, chance = len(values), 0, 0.0
    for k in range(n // 2):
        chance += math.comb(n, k) / 2 ** n
        if chance > 0.025:
            break
        below = k
    return statistics.median(values), values[below], values[n - 1 - below]


def emit(name, values, unit, target=None, at_most=None, at_least=None, **about):
    """Prints a figure: the median of `values` with its interval, and whether it meets its bound."""
    if not values:
        print(json.dumps({"name": name, **about, "n": 0, "note": "nothing was measured"}),
              flush=True)
        return None
    median, low, high = interval(values)
    line = {"name": name, **about, "unit": unit, "median": median, "low95": low, "high95": high,
            "min": min(values), "max": max(values), "n": len(values)}
    if at_most is not None:
        line |= {"target": f"<= {at_most:.4g}", "met": median <= at_most}
    if at_least is not None:
        line |= {"target": f">= {at_least:.4g}", "met": median >= at_least}
    if target is not None:
        line["target"] = target
    line["load"] = os.getloadavg()[0]
    print(json.dumps({key: significant(value) for key, value in line.items()}), flush=True)
    return median


def note(text):
    print("bench: " + text, file=sys.stderr, flush=True)


def cpu_s(pids):
    """CPU time of all threads of these processes so far."""
    total = 0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            try:
                with open(path) as file:
                    total += int(file.read().split()[0])
            except OSError:
                pass
    return total / 1e9


class Loop:
    """A program that reads a number of steps and prints the seconds they took. It may have several
    processes, which read the same number; the time of the first one counts."""

    def __init__(self, commands, words=("ready",), **environment):
        # Peers write no checkpoints or other output: their standard error is for people.
        env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} | environment
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as they run)
        self.started, self.children = time.monotonic(), Processes()
        self.processes = [
            self.children.start(command, env=env | {"ADAPTDL_REPLICA_RANK": str(rank)}, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
            for rank, command in enumerate(commands)]
        for process in self.processes:
            for word in words:
                self._expect(process, word)

    def _line(self, process):
        line = process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise SystemExit(f"{process.args} ended: {self.errors.read()[-2000:]}")
        return line.strip()

    def _expect(self, process, word):
        while self._line(process) != word:  # ignores other output
            pass

    def pids(self):
        return [process.pid for process in self.processes]

    def tell(self, text):
        for process in self.processes:
            process.stdin.write(f"{text}\n")
            process.stdin.flush()

    def steps(self, count):
        """(seconds, processor seconds) of `count` steps."""
        before = cpu_s(self.pids())
        self.tell(count)
        times = [float(self._line(process)) for process in self.processes]
        return times[0], cpu_s(self.pids()) - before

    def lines_until(self, word):
        """The output of the first process before `word`, which all print."""
        said = []
        while (line := self._line(self.processes[0])) != word:
            said.append(line)
        for process in self.processes[1:]:
            self._expect(process, word)
        return said

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        self.children.close()


class OurRun:
    """`adaptdl run` whose replicas are stopped (SIGSTOP) except during a block of steps."""

    SKIPPED = 3  # steps after each stop, which are measured as slow steps

    def __init__(self, folder, name, replicas=1):
        batch = MODELS[name][0]
        pinned = {"initial": batch * replicas, "max": batch * replicas, "atomic_min": batch,
                  "atomic_max": batch, "adaptive": "true"}
        settings = [f"--set=batch.{key}={value}" for key, value in pinned.items()]
        self.run = folder.run(folder.program(name), "--replicas", str(replicas), *settings,
                              "--set=checkpoint_interval_s=1000000", "--fresh")
        self.run.wait_step(10 + self.SKIPPED)
        self.pids = list(self.run.members().values())
        self._signal(signal.SIGSTOP)

    def _signal(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def steps(self, count):
        """(seconds, processor seconds) of `count` steps."""
        first = self.run.last_step() + self.SKIPPED
        self._signal(signal.SIGCONT)
        self.run.wait_step(first)
        before = cpu_s(self.pids)
        begun = self.run.last_step()
        self.run.wait_step(begun + count)
        used, ended = cpu_s(self.pids) - before, self.run.last_step()
        self._signal(signal.SIGSTOP)
        at = {event["step"]: event["time_s"] for event in self.run.of("step")[-2 * count - 20:]}
        span = ended - begun
        return (at[ended] - at[begun]) / span * count, used / span * count

    def close(self):
        self._signal(signal.SIGCONT)
        self.run.abandon()


def alternate(programs, rounds, block_s):
    """Each of the named programs runs a block in each round, in changing order. Returns {name:
    [(seconds, CPU seconds) per step]}."""
    counts, found = {}, {name: [] for name in programs}
    for name, program in programs.items():
        seconds, _ = program.steps(5)
        counts[name] = max(5, round(5 * block_s / seconds))
    for number in range(rounds):
        names = list(programs)
        for name in names if number % 2 else reversed(names):
            seconds, cpu = programs[name].steps(counts[name])
            found[name].append((seconds / counts[name], cpu / counts[name]))
    return found


def new_folder(options):
    """Creates a folder for runs, with the archives of MODELS and a copy of sleep_program."""
    archives = os.path.join(options.work, "archives")
    if not os.path.isdir(archives):
        os.mkdir(archives)
        subprocess.run([os.path.join(options.build, "cli/templates/make_archives"), archives,
                        os.path.join(HERE, "../../cli/templates"), *MODELS], check=True)
    return Folder(os.path.join(options.build, "adaptdl"), archives)
