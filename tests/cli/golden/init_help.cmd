# exit 0
adaptdl init --help
