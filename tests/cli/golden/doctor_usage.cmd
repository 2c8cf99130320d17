# exit 2
adaptdl doctor --format yaml
