# exit 0
adaptdl explain --help
