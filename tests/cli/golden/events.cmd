# exit 0
adaptdl events
some_jobs
adaptdl events
adaptdl events digits-x7k2p --tail 1
adaptdl events broken-99999 --follow -o json
