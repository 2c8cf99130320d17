# exit 0
# A TensorBoard of the active virtual environment, which only says what it was asked.
mkdir -p env/bin
cat > env/bin/tensorboard <<'PYTHON'
#!/usr/bin/env python3
import socket, sys, time
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print('not shown')
open('asked', 'w').write(arguments['--logdir'] + ' ' + arguments['--host'])
listener = socket.create_server(('127.0.0.1', int(arguments['--port'])))
time.sleep(60)
PYTHON
chmod +x env/bin/tensorboard
adaptdl tensorboard create curves -q
VIRTUAL_ENV=$PWD/env adaptdl tensorboard proxy curves > said &
for i in $(seq 300); do [ -s said ] && break; sleep 0.1; done
adaptdl tensorboard list
kill -INT $!
wait $!
echo $?
sed 's/:[0-9]*$/:PORT/' said
cat asked
