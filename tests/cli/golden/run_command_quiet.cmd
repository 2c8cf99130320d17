# exit 3
# Nothing but what the program prints, and why it failed.
adaptdl run -q -- true
adaptdl run -q --max-restarts 0 -- sh -c 'exit 3'
