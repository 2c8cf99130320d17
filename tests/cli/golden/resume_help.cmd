# exit 0
adaptdl resume --help
