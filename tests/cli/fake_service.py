"""fake_service.py COMMAND...: answers as the local cluster's service, without jobs of its own, and
ends with the command's exit code. What it is asked goes to the file `requests`."""
import json
import os
import socket
import subprocess
import sys
import threading

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
    if request.get('name') == 'stubborn':
        return {'ok': False, 'error': 'job stubborn is not preemptible; it can be cancelled'}
    return {'ok': True, **ANSWERS[request['request']](request)}


def serve(listener):
    while True:
        client, _ = listener.accept()
        with client, client.makefile('rw') as stream:
            line = stream.readline()
            if not line:
                continue
            request = json.loads(line)
            if request['request'] != 'hello':
                with open('requests', 'a', encoding='utf-8') as log:
                    request.pop('until', None)  # another one each time
                    log.write(json.dumps(request, sort_keys=True) + '\n')
            stream.write(json.dumps(answer(request)) + '\n')


state = os.environ['ADAPTDL_LOCAL_STATE']
os.makedirs(state, 0o700, exist_ok=True)
path = os.path.join(state, 'service.sock')
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
threading.Thread(target=serve, args=(listener,), daemon=True).start()
code = subprocess.run(sys.argv[1:], check=False).returncode
os.unlink(path)
sys.exit(code)
