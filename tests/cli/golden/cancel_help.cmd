# exit 0
adaptdl cancel --help
