#!/usr/bin/env python3
"""golden.py ADAPTDL FAKE_WORKER MAKE_JOBS FAKE_NVML [NAME...]: runs the commands in golden/*.cmd
and compares.

A .cmd file is a shell script whose first line is "# exit N", and whose second may be
"# without worker": only for a build without Torch. It runs in an empty folder, with an
environment of its own, `adaptdl` in PATH, and the helpers of helpers.sh. What it prints must be
that in NAME.out and NAME.err, but for what differs between machines and runs (see normalise).
ADAPTDL_ACCEPT=1 writes these files instead.
"""
import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import sys
import tempfile

from support import Failed, run_command

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT = 60  # seconds for one script


def normalise(text, folder):
    text = text.replace(folder, 'TMP')
    text = re.sub(r'adaptdl \d+\.\d+\.\d+\S* \([0-9a-f]+\+?|adaptdl \d+\.\d+\.\d+\S* \(unknown',
                  'adaptdl VERSION (COMMIT', text)
    text = re.sub(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', 'TIME', text)
    text = re.sub(r'^ +\d+\.\d s  ', 'T s  ', text, flags=re.M)         # of log lines
    text = re.sub(r'\d+\.\d{3} s\b', 'N s', text)                       # pauses
    text = re.sub(r'after \d+ ms: ', 'after N ms: ', text)              # of curl
    return re.sub(r'in \d+(\.\d+)? m?s$', 'in N s', text, flags=re.M)


def run(binary, worker, make_jobs, nvml, script):
    with tempfile.TemporaryDirectory(prefix='adaptdl-golden') as folder:
        folder = os.path.realpath(folder)
        for name in ('bin', 'home', 'run', 'tmp', 'work'):
            os.mkdir(os.path.join(folder, name), 0o700)
        os.symlink(binary, os.path.join(folder, 'bin', 'adaptdl'))
        environment = {
            'PATH': os.path.join(folder, 'bin') + ':/usr/bin:/bin', 'HOME': folder + '/home',
            'XDG_RUNTIME_DIR': folder + '/run', 'TMPDIR': folder + '/tmp', 'LC_ALL': 'C',
            'HELPERS': str(HERE), 'FAKE_WORKER': worker, 'MAKE_JOBS': make_jobs,
            'FAKE_NVML': os.path.dirname(nvml),
            'ADAPTDL_LOCAL_STATE': folder + '/state',
            # For builds with sanitizers.
            **{k: v for k, v in os.environ.items() if k.endswith('SAN_OPTIONS')}}
        result = run_command(['sh', '-c', '. "$HELPERS/helpers.sh"; . "$0"', str(script)],
                             timeout=TIMEOUT, text=False, cwd=folder + '/work', env=environment)
        return (result.returncode, normalise(result.stdout.decode(), folder),
                normalise(result.stderr.decode(), folder))


def has_worker(binary):
    result = run_command([binary, 'doctor', '-o', 'json'])
    facts = {check['name']: check['facts'] for check in json.loads(result.stdout)['checks']}
    return facts['worker']['source'] is not None


def expected(script, stream):
    path = script.with_suffix('.' + stream)
    return path.read_text(encoding='utf-8') if path.exists() else ''


def check(script, *programs):
    """The differences, as text; empty if there are none."""
    first = script.read_text(encoding='utf-8').split('\n')[0]
    wanted = int(first.removeprefix('# exit '))
    try:
        code, out, err = run(*programs, script)
    except Failed as late:
        return f'{late}\n'
    problem = '' if code == wanted else f'exit code {code}, expected {wanted}\n'
    for stream, text in (('out', out), ('err', err)):
        if os.environ.get('ADAPTDL_ACCEPT') == '1':
            path = script.with_suffix('.' + stream)
            if text:
                path.write_text(text, encoding='utf-8')
            else:
                path.unlink(missing_ok=True)
            continue
        problem += ''.join(line if line.endswith('\n') else line + '\n' for line in
                           difflib.unified_diff(expected(script, stream).splitlines(True),
                                                text.splitlines(True), f'{stream} expected',
                                                f'{stream} found'))
    return problem


def main():
    programs = [os.path.abspath(path) for path in sys.argv[1:5]]
    scripts = sorted((HERE / 'golden').glob('*.cmd'))
    if sys.argv[5:]:
        scripts = [script for script in scripts if script.stem in sys.argv[5:]]
    stray = {path.stem for path in (HERE / 'golden').iterdir()} - {s.stem for s in scripts}
    if has_worker(programs[0]):
        scripts = [s for s in scripts if '# without worker' not in s.read_text(encoding='utf-8')]
    failed = 0
    if stray and not sys.argv[5:]:
        print('without a .cmd file:', ', '.join(sorted(stray)))
        failed += 1
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for script, problem in zip(scripts,
                                   pool.map(lambda s: check(s, *programs), scripts)):
            if problem:
                failed += 1
                print(f'--- {script.name}\n{problem}')
    print(f'{len(scripts)} scripts, {failed} failed')
    return 1 if failed else 0


sys.exit(main())
