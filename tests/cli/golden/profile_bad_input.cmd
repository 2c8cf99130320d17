# exit 1
adaptdl profile missing.jsonl
adaptdl profile .
: > empty.jsonl
adaptdl profile empty.jsonl
echo 'epoch 1' > text.jsonl
adaptdl profile text.jsonl
run_of 1 > run.jsonl
sed 1d run.jsonl > headless.jsonl
adaptdl profile headless.jsonl
sed '$d' run.jsonl | sed '$d' > cut.jsonl
adaptdl profile cut.jsonl
sed 's/"initial":64/"initial":32/' run.jsonl > other.jsonl
adaptdl profile run.jsonl other.jsonl
adaptdl profile run.jsonl -o nowhere/small.yaml
