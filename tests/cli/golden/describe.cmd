# exit 0
some_jobs
adaptdl describe digits-x7k2p
adaptdl describe broken-99999 -o json | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["phase"], d["exit_code"], d["spec"]["program"], len(d["events"]))'
