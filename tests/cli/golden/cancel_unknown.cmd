# exit 102
adaptdl cancel digits
