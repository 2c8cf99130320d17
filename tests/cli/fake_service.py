"""fake_service.py COMMAND...: answers as the local cluster's service, without jobs of its own, and
ends with the command's exit code. What it is asked goes to the file `requests`."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ['HELPERS'], '..'))

from support import answer_at

HELLO = {'version': '0.1.0', 'protocol': 1, 'pid': 7, 'started': '2026-01-31T08:05:09.123Z',
         'policy': 'proportional', 'options': {'preference': 4}, 'slot_kind': 'core', 'slots': 8,
         'slots_free': 5, 'jobs': 2, 'url': 'http://127.0.0.1:7', 'problem': ''}
ANSWERS = {'hello': lambda r: HELLO, 'submit': lambda r: {'name': 'true-abcde'},
           'scale': lambda r: {'name': r['name'], 'min': r['min'], 'max': r['max']},
           'suspend': lambda r: {'name': r['name'], 'phase': 'Stopping'},
           'resume': lambda r: {'name': r['name'], 'phase': 'Pending'},
           'cancel': lambda r: {'name': r['name'], 'phase': 'Stopping'},
           'delete': lambda r: {'name': r['name']}, 'reload': lambda r: {}}


def answer(request):
    if request['request'] != 'hello':
        with open('requests', 'a', encoding='utf-8') as log:
            request.pop('until', None)  # another one each time
            log.write(json.dumps(request, sort_keys=True) + '\n')
    if request.get('name') == 'stubborn':
        return {'ok': False, 'error': 'job stubborn is not preemptible; it can be cancelled'}
    return {'ok': True, **ANSWERS[request['request']](request)}


state = os.environ['ADAPTDL_LOCAL_STATE']
os.makedirs(state, 0o700, exist_ok=True)
path = os.path.join(state, 'service.sock')
answer_at(path, answer)
code = subprocess.run(sys.argv[1:], check=False).returncode
os.unlink(path)
sys.exit(code)
