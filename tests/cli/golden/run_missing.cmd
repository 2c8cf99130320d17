# exit 1
adaptdl run nothing.pt
