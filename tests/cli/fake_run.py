"""fake_run.py NAME COMMAND...: answers on the control socket of the run NAME, keeps its record and
logs, and ends with the command's exit code."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ['HELPERS'], '..'))

from support import answer_at, write

name, command = sys.argv[1], sys.argv[2:]
work = os.getcwd()
logs = os.path.join(work, 'logs')
status = {'name': name, 'pid': 7, 'program': work + '/train.pt', 'state': 'training',
          'reason': '', 'generation': 2, 'replicas': 1, 'members': [{'member': 1, 'pid': 8,
                                                                     'state': 'active'}],
          'target': 1, 'min': 1, 'max': 3, 'step': 120, 'epoch': 1.5, 'loss': 0.25,
          'progress': 120, 'progress_total': 400, 'seconds_left': 62.5, 'batch': 96,
          'samples_per_s': 2000.0, 'goodput': 1500.0,
          'started': time.strftime('%Y-%m-%dT%H:%M:%S.123Z', time.gmtime(time.time() - 3700)),
          'log_dir': logs,
          'checkpoint_dir': work + '/checkpoints', 'output_dir': work}
if 'RESTARTABLE' in os.environ:  # only a command says so
    status['restartable'] = json.loads(os.environ['RESTARTABLE'])


def answer(request):
    if request.get('request') == 'status':
        return {'ok': True, **status}
    if request.get('request') == 'scale':
        if request['replicas'] > 8:
            return {'ok': False, 'error': f'invalid number of replicas {request["replicas"]}'}
        return {'ok': True, 'from': 1, 'to': request['replicas']}
    if request.get('request') == 'cancel':
        return {'ok': True}
    return {'ok': False, 'error': 'unknown request'}


sockets = os.path.join(os.environ['XDG_RUNTIME_DIR'], 'adaptdl', 'runs')
os.makedirs(sockets, 0o700, exist_ok=True)
os.chmod(os.path.dirname(sockets), 0o700)
path = os.path.join(sockets, name + '.sock')
records = os.path.join(os.environ['HOME'], '.local/state/adaptdl/runs')
write(os.path.join(records, name + '.json'), json.dumps({'format': 1, **status}))
for replica, lines in ((1, 3), (2, 2)):
    write(os.path.join(logs, f'replica-{replica}.log'),
          ''.join(f'line {line} of {replica}\n' for line in range(lines)))

answer_at(path, answer)
code = subprocess.run(command, check=False).returncode
os.unlink(path)
sys.exit(code)
