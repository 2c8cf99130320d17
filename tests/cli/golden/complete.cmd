# exit 0
adaptdl __complete names
live digits adaptdl __complete names
some_jobs
live digits adaptdl __complete names di
# Commands for jobs alone refuse a run.
live digits adaptdl __complete jobs di
# What a killed run has left is not live.
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("'$XDG_RUNTIME_DIR'/adaptdl/runs/dead.sock")'
adaptdl __complete names d
