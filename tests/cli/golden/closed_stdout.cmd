# exit 1
adaptdl --help >&-
