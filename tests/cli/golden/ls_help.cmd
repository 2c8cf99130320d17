# exit 0
adaptdl ls --help
