# exit 0
adaptdl export --help
