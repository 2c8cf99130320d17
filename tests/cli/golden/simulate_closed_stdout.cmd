# exit 1
simulation
adaptdl simulate --profiles profiles --workload workload.csv --policy fixed >&-
