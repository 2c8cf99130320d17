"""`srun adaptdl run`, with Slurm's own servers: the tasks of a job step are a run's hosts."""

import contextlib
import json
import os
import time

from support import SLURM, Slurm, check, kill, main, read, skip_all, wait_until

NEVER = ("--set", "epochs=1000000")
JOB = """#!/bin/sh
exec srun --output {output} --open-mode=append {binary} run {program} --threads 1 -o json {flags}
"""


def step(slurm, *arguments, flags=(), program="slow"):
    """A run in a job step on two nodes."""
    folder = slurm.folder
    return folder.run(folder.program(program), *arguments, before=["srun", "-N2", *flags],
                      **slurm.environment)


class Batch:
    """A job whose script runs it on two nodes."""

    def __init__(self, slurm, *flags):
        folder = slurm.folder
        self.slurm, self.output = slurm, folder.file("events")
        self.errors = folder.file("job.log")
        script = folder.write("job.sh", JOB.format(
            output=self.output, binary=folder.binary, program=folder.program("slow"),
            flags=" ".join((*NEVER, *flags))))
        self.id = slurm.must("sbatch", "--parsable", "-N2", "--open-mode=append", "--output",
                             self.errors, script).strip()
        folder.tellers.append(lambda: ("the job", read(self.errors).splitlines()))

    def events(self, kind):
        found = []
        for line in read(self.output).splitlines() if os.path.exists(self.output) else ():
            with contextlib.suppress(ValueError):  # of standard error, or half a line
                event = json.loads(line)
                if event["event"] == kind:
                    found.append(event)
        return found

    def wait_steps_more(self, count):
        target = len(self.events("step")) + count
        wait_until(lambda: len(self.events("step")) >= target, f"{count} steps", tell=self.tell)

    def goes_on(self):
        """Slurm has requeued it: it continues from the last step that was finished."""
        wait_until(lambda: self.slurm.state(self.id) == "PENDING", "a requeued job", tell=self.tell)
        last, starts = self.events("step")[-1]["step"], len(self.events("resume"))
        # Slurm would wait for two minutes; it refuses a start in the second of the end.
        time.sleep(3)
        self.slurm.must("scontrol", "update", f"JobId={self.id}", "StartTime=now")
        wait_until(lambda: len(self.events("resume")) > starts, "a resume", tell=self.tell)
        check(self.events("resume")[-1]["step"] == last, "steps are lost", last,
              self.events("resume"))
        self.wait_steps_more(5)

    def tell(self):
        return f"{self.slurm.state(self.id)}\n{read(self.output)[-2000:]}\n{read(self.errors)}"


def slurm_trains(folder, draw):
    """Each task is a host with --replicas replicas; they find each other by the checkpoint folder
    alone. All end, also when there is nothing to do."""
    with Slurm(folder) as slurm:
        run = step(slurm, "--set", "epochs=5", "--replicas", "2")
        check(run.wait_event("generation")["to"] == 4, "not all replicas start together")
        run.expect_end(0)
        run.check_steps(last=200)
        again = step(slurm, "--set", "epochs=5", "--replicas", "2")
        check(again.end() == 0, "a run that has finished")
        again.says("this host's part of run slow has ended, with exit code 0")
        apart = step(slurm, *NEVER, "--nnodes", "1", "--name", "apart",
                     flags=("--kill-on-bad-exit=0",))
        apart.says("run apart is live")  # the other task's
        apart.wait_step(1)
        apart.request(request="cancel")
        apart.end()


def slurm_task_dies(folder, draw):
    """The others go on, and scancel ends them with a checkpoint."""
    with Slurm(folder) as slurm:
        run = step(slurm, *NEVER, flags=("--no-kill", "--kill-on-bad-exit=0"))
        run.wait_replicas(2)
        run.wait_steps_more(3)
        seen = run.count()
        leader = run.wait_event("start")["pid"]
        others = [pid for pid in folder.left()
                  if pid != leader and os.readlink(f"/proc/{pid}/exe").endswith("/adaptdl")]
        check(len(others) == 1, "not one process of adaptdl beside the leading one", others)
        kill(others[0])
        run.wait_replicas(1, after=seen)
        run.wait_steps_more(3)
        job = slurm.must("squeue", "--noheader", "--format=%i").strip()
        slurm.must("scancel", "--signal=TERM", job)
        run.end()
        ended = run.end_event()
        check(ended["exit_code"] == 143 and ended["checkpoint"], "no checkpoint", ended)
        run.check_steps()


def slurm_requeues(folder, draw):
    """The signals by which Slurm announces the end of a job's time, and a preemption, lose no step;
    the job comes back and goes on. The end of the job by scancel is its end."""
    with Slurm(folder) as slurm:
        job = Batch(slurm)
        job.wait_steps_more(5)
        slurm.must("scancel", "--signal=USR1", job.id)
        job.goes_on()
        slurm.must("sbatch", "--partition=high", "-N2", "--exclusive", "--output=/dev/null",
                   "--wrap=true")
        job.goes_on()
        slurm.must("scancel", job.id)
        wait_until(lambda: slurm.state(job.id) == "", "the end of the job", tell=job.tell)
        check(job.events("end")[-1]["exit_code"] == 143, "not a stop", job.events("end"))


if not SLURM:
    skip_all("ADAPTDL_TEST_SLURM names no folder with Slurm's servers")
main(slurm_trains, slurm_task_dies, slurm_requeues)
