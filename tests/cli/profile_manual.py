"""The example of adaptdl-profile(5) runs as it is printed there, and a simulation of it that is
interrupted prints what there is.

Usage: profile_manual.py ADAPTDL MANUAL
"""

import json
import os
import re
import signal
import subprocess

from support import check, json_lines, main, read, run_command, wait_until


def write_example(folder):
    """Its files; the command."""
    page = read(folder.material).replace("\\-", "-").replace("\\e", "\\")
    example = page[page.index(".SH EXAMPLE"):page.index(".SH RECORDING")]
    blocks = re.findall(r"\.nf\n\.RS 4\n(.*?)\.RE", example, re.S)
    names = re.findall(r"^The file (.*):$", example, re.M)
    check(len(blocks) == len(names) + 1, "a block for each file, and the command", names,
          len(blocks))
    for name, text in zip(names, blocks):
        folder.write(name, text)
    return blocks[-1].replace("adaptdl", f"'{folder.binary}'", 1).strip()


def runs_as_printed(folder, draw):
    command = write_example(folder)
    done = run_command(["sh", "-c", command + " --timeline timeline.jsonl --plot plot.svg"], 0,
                       cwd=folder.path, env=folder.environment)
    check(done.stderr == "", "something is wrong with it", done.stderr)
    rows = [line.split() for line in done.stdout.splitlines()][1:]
    wanted = re.search(r"--policy (\S+)", command)[1].split(",")
    check([row[0] for row in rows] == wanted, "other policies", done.stdout)
    check(all(row[1] == "6/6" for row in rows), "jobs that did not finish", done.stdout)
    readme = read(os.path.join(os.path.dirname(folder.material), "..", "README.md"))
    shown = {line.split()[0]: line.split()[1:-2] for line in readme.splitlines() if " 6/6 " in line}
    told = {row[0]: row[1:-2] for row in rows}  # but for the times of calls
    check(shown == told, "README.md has another result", shown, told)

    # Every allocation has its reason, and all are given back.
    records = json_lines(folder.file("timeline.jsonl"))
    for policy in wanted:
        held = {}
        for record in (one for one in records if one["policy"] == policy):
            if record["event"] == "allocate":
                check(record["why"], "no reason", record)
                held[record["job"]] = set(record["gpus"])
            elif record["event"] == "finish":
                held.pop(record["job"])
        check(not held, f"{policy}: jobs hold GPUs at the end", held)
    events = {record["event"] for record in records}
    check({"submit", "allocate", "batch", "finish"} <= events, "events of the timeline", events)
    picture = read(folder.file("plot.svg"))
    check(picture.startswith("<svg") and all(name in picture for name in wanted), "no picture")


def interrupted(folder, draw):
    """More jobs than end within the second, and Ctrl-C."""
    write_example(folder)
    folder.write("long.csv", "name,time,application,num_replicas,batch_size\n" + "".join(
        f"j{i},{100 * i},vision,1,128\n" for i in range(50000)))
    running = folder.start(
        [folder.binary, "simulate", "--profiles", "profiles", "--workload", "long.csv", "-o",
         "json",
         "--timeline", "long.jsonl", "--policy", "proportional,fixed"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    timeline = folder.file("long.jsonl")
    wait_until(lambda: os.path.exists(timeline) and os.path.getsize(timeline), "it has begun", 30)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    check(running.returncode == 130, "exit status", running.returncode, err)
    check("interrupted" in err, "it does not say so", err)
    results = json.loads(out)["policies"]  # also if one is all there is
    check([result["policy"] for result in results] == ["proportional"], "other policies", results)
    result = results[0]
    check(result["interrupted"] and 0 < result["summary"]["completed"] < 50000, "what there is",
          result["summary"])


main(runs_as_printed, interrupted)
