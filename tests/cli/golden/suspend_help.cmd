# exit 0
adaptdl suspend --help
