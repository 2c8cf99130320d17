# exit 102
adaptdl logs digits
