# exit 0
adaptdl logs --help
