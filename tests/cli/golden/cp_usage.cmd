# exit 2
adaptdl cp here there
