# exit 1
adaptdl inspect nothing.pt
