# exit 0
adaptdl inspect --help
