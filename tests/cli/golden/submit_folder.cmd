# exit 0
mkdir -p project/data
printf 'command: [python3, train.py]\nargs: [--lr, "0.1"]\nreplicas: 1:2\n' > project/adaptdljob.yaml
echo 'print()' > project/train.py
echo '*.tmp' > project/.adaptdlignore
touch project/scratch.tmp project/data/words
adaptdl submit project --dry-run
service adaptdl submit project
service adaptdl submit project -- --lr 0.2
service adaptdl submit project/data -- ls -l
python3 -c '
import json
for line in open("requests"):
    spec = json.loads(line)["spec"]
    print(spec["kind"], spec["program"], spec["arguments"], spec["min_replicas"], spec["max_replicas"])'
for copy in "$ADAPTDL_LOCAL_STATE"/jobs/.incoming-*; do (cd "$copy" && find . -type f | sort | tr '\n' ' '; echo); done | sort
