# exit 0
adaptdl describe --help
