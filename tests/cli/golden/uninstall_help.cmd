# exit 0
adaptdl uninstall --help
