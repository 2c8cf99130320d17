# exit 0
run_of 1 > one.jsonl
run_of 2 > two.jsonl
adaptdl profile one.jsonl two.jsonl
cat small.yaml
adaptdl profile one.jsonl --application other -o - | head -2
mkdir profiles
mv small.yaml profiles
printf 'name,time,application,num_replicas,batch_size\na,0,small,1,64\n' > workload.csv
adaptdl simulate --profiles profiles --workload workload.csv --rescale-cost measured --nodes 1 -o json | grep -o '"completed":1'
