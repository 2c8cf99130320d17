# exit 1
adaptdl logs digits
