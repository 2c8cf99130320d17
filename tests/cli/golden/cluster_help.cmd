# exit 0
adaptdl cluster
