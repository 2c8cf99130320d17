# exit 0
adaptdl run --help
