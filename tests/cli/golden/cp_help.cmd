# exit 0
adaptdl cp --help
