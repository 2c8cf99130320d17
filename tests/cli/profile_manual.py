#!/usr/bin/env python3
"""profile_manual.py ADAPTDL MANUAL: the example of adaptdl-profile(5) runs as it is printed there, and
a simulation of it that is interrupted prints what there is."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time


def check(condition, *what):
    if not condition:
        print(*what)
        sys.exit(1)


binary, manual = (os.path.abspath(path) for path in sys.argv[1:])
with open(manual, encoding='utf-8') as file:
    page = file.read().replace('\\-', '-').replace('\\e', '\\')
example = page[page.index('.SH EXAMPLE'):page.index('.SH RECORDING')]
blocks = re.findall(r'\.nf\n\.RS 4\n(.*?)\.RE', example, re.S)
names = re.findall(r'^The file (.*):$', example, re.M)
check(len(blocks) == len(names) + 1, 'a block for each file, and the command:', names, len(blocks))

with tempfile.TemporaryDirectory(prefix='adaptdl-manual') as folder:
    for name, text in zip(names, blocks):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
    command = blocks[-1].replace('adaptdl', f"'{binary}'", 1).strip()
    done = subprocess.run(command + ' --timeline timeline.jsonl --plot plot.svg', shell=True,
                          cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False)
    check(done.returncode == 0 and done.stderr == '', done.returncode, done.stderr)
    rows = [line.split() for line in done.stdout.splitlines()][1:]
    wanted = re.search(r'--policy (\S+)', command)[1].split(',')
    check([row[0] for row in rows] == wanted, 'other policies:', done.stdout)
    check(all(row[1] == '6/6' for row in rows), 'jobs that did not finish:', done.stdout)

    # Every allocation has its reason, and all are given back.
    with open(os.path.join(folder, 'timeline.jsonl'), encoding='utf-8') as file:
        records = [json.loads(line) for line in file]
    for policy in wanted:
        held = {}
        for record in (one for one in records if one['policy'] == policy):
            if record['event'] == 'allocate':
                check(record['why'], 'no reason:', record)
                held[record['job']] = set(record['gpus'])
            elif record['event'] == 'finish':
                held.pop(record['job'])
        check(not held, policy, 'jobs hold GPUs at the end:', held)
    events = {record['event'] for record in records}
    check({'submit', 'allocate', 'batch', 'finish'} <= events, 'events of the timeline:', events)
    with open(os.path.join(folder, 'plot.svg'), encoding='utf-8') as file:
        picture = file.read()
    check(picture.startswith('<svg') and all(name in picture for name in wanted), 'no picture')

    # More jobs than end within the second, and Ctrl-C.
    with open(os.path.join(folder, 'long.csv'), 'w', encoding='utf-8') as file:
        file.write('name,time,application,num_replicas,batch_size\n')
        file.writelines(f'j{i},{100 * i},vision,1,128\n' for i in range(50000))
    running = subprocess.Popen(
        [binary, 'simulate', '--profiles', 'profiles', '--workload', 'long.csv', '-o', 'json',
         '--timeline', 'long.jsonl', '--policy', 'proportional,fixed'],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 30
    timeline = os.path.join(folder, 'long.jsonl')
    while not os.path.exists(timeline) or os.path.getsize(timeline) == 0:  # it has begun
        check(time.monotonic() < limit and running.poll() is None, 'it did not begin')
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    check(running.returncode == 130, 'exit status', running.returncode, err)
    check('interrupted' in err, err)
    results = json.loads(out)['policies']  # also if one is all there is
    check([result['policy'] for result in results] == ['proportional'], results)
    result = results[0]
    check(result['interrupted'] and 0 < result['summary']['completed'] < 50000, result['summary'])
print('the example runs as printed')
