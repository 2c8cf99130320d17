# exit 0
adaptdl __complete jobs
live digits adaptdl __complete jobs
some_jobs
live digits adaptdl __complete jobs di
# What a killed run has left is not live.
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("'$XDG_RUNTIME_DIR'/adaptdl/runs/dead.sock")'
adaptdl __complete jobs d
