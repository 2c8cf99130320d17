# exit 2
adaptdl run
