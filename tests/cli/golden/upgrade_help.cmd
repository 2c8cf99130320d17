# exit 0
adaptdl upgrade --help
