# exit 0
adaptdl delete --help
