# exit 1
adaptdl cancel digits
