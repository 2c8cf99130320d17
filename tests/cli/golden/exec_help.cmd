# exit 0
adaptdl exec --help
