# exit 0
simulation
adaptdl simulate --profiles profiles --workload workload.csv --policy fixed --timeline out.jsonl > /dev/null
cat out.jsonl
