# exit 2
adaptdl runn
