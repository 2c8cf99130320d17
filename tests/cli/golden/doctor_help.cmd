# exit 0
adaptdl doctor --help
