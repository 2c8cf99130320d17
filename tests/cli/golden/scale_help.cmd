# exit 0
adaptdl scale --help
