# exit 0
service sh -c 'adaptdl submit -- true --flag
adaptdl submit -o json --name nightly --replicas 1:4 --tensorboard curves -- ./run.sh'
# What is missing is told before anything is asked.
echo '#!/bin/sh' > run.sh
chmod +x run.sh
service adaptdl submit -o json --name nightly --replicas 1:4 --tensorboard curves -- ./run.sh
python3 -c '
import json
for line in open("requests"):
    request = json.loads(line)
    spec = request["spec"]
    print(request["project"], spec["program"], spec["arguments"], spec["directory"], spec["name_prefix"],
          spec["min_replicas"], spec["max_replicas"], spec["tensorboard"], sorted(spec["environment"]))'
adaptdl tensorboard list
