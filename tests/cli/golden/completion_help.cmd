# exit 0
adaptdl completion --help
