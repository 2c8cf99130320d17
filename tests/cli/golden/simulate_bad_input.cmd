# exit 1
simulation
try() {
  adaptdl simulate --profiles profiles --workload workload.csv "$@"
}
echo 'three,-1,small,1,64' >> workload.csv
try
sed -i '$d' workload.csv
echo 'three,60,large,1,64' >> workload.csv
try
sed -i '$d' workload.csv
printf 'nodes:\n  - {name: a, gpus: 1}\n  - {name: a, gpus: 2}\n' > cluster.yaml
try --cluster cluster.yaml
printf 'nodes:\n  - {gpus: 0}\n' > cluster.yaml
try --cluster cluster.yaml
printf 'nodes:\n  - {gpus: 4, accelerator: t4}\n  - {gpus: 0}\n  - {gpus: 4, accelerator: a100}\n' > cluster.yaml
try --cluster cluster.yaml --policy pollux,tiresias
try --timeline nowhere/timeline.jsonl
try --plot nowhere/plot.svg
try --plot .
mkfifo pipe.svg
try --plot pipe.svg
printf 'name,time\none,0\n' > workload.csv
try
