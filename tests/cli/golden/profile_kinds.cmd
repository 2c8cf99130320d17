# exit 0
on() { sed '1a {"event":"generation","accelerator":"'$1'"}'; }
run_of 1 | on T4 > one.jsonl
run_of 2 | on T4 > two.jsonl
run_of 2 | on A100 > fast.jsonl
adaptdl profile one.jsonl two.jsonl -o - | head -1
adaptdl profile one.jsonl fast.jsonl -o - | sed '/validation/,$d'
