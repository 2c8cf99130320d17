# exit 0
adaptdl wait --help
