# exit 0
# The last two columns are times of this machine.
simulation
adaptdl simulate --profiles profiles --workload workload.csv --nodes 1 --policy fixed,tiresias,optimus |
  sed -E 's/ +[0-9.]+ +[0-9.]+$//'
