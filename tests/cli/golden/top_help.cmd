# exit 0
adaptdl top --help
