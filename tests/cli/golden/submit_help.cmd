# exit 0
adaptdl submit --help
