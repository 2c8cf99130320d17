# exit 0
adaptdl licenses --help
