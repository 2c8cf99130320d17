# exit 0
adaptdl install --help
