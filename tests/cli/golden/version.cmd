# exit 0
adaptdl --version
