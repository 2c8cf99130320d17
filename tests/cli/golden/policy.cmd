# exit 0
adaptdl policy show
adaptdl policy set pollux fairness=-2
adaptdl policy set fairness= -o json
mkdir -p "$HOME/.config/adaptdl"
printf '# mine\ncluster: local\nlocal:\n  slots: 2  # enough\n' > "$HOME/.config/adaptdl/config.yaml"
service adaptdl policy set sia
cat requests "$HOME/.config/adaptdl/config.yaml"
service adaptdl policy show -o json
