# exit 2
# torchrun's flags by their names; the rest is refused.
adaptdl submit --dry-run -o json --nproc-per-node 2:4 --restartable --max-restarts 5 --role trainer --tee 3 -- true |
  python3 -c '
import json, sys
spec = json.load(sys.stdin)
print(spec["min_replicas"], spec["max_replicas"], spec["restartable"], spec["retries"], spec["environment"]["ROLE_NAME"])'
archive train.pt
for flag in --restartable --role=trainer; do
  adaptdl submit "$flag" train.pt
  echo $?
done
adaptdl submit --tee 9 -- true
echo $?
adaptdl submit --nnodes 2 -- true
