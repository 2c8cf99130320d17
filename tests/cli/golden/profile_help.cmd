# exit 0
adaptdl profile --help
