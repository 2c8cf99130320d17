# exit 0
adaptdl events --help
