# exit 2
adaptdl delete
