# exit 0
some_jobs
live digits adaptdl ls
adaptdl ls -o wide
adaptdl ls -o name
adaptdl ls -o json | python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)["jobs"][2].items()), sep="\n")'
