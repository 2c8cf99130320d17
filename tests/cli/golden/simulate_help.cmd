# exit 0
adaptdl simulate --help
