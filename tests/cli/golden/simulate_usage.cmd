# exit 2
simulation
adaptdl simulate
adaptdl simulate --profiles profiles
adaptdl simulate --policy poluxx 2>&1 | sed 's/the policies are [^.]*/the policies are .../' >&2
adaptdl simulate --policy pollux,pollux
adaptdl simulate --policy pollux --policy-option fairnes=1
adaptdl simulate --policy pollux --policy-option fairness
adaptdl simulate --policy pollux --policy-option fairness=one
adaptdl simulate --policy pollux --policy-option fairness=99
adaptdl simulate --policy fixed --policy-option pollux.fairness=1
adaptdl simulate --profiles profiles --workload workload.csv --interval 0
adaptdl simulate --profiles profiles --workload workload.csv --rescale-cost measure
adaptdl simulate --profiles profiles --workload workload.csv --cluster c.yaml --nodes 3
