# exit 2
adaptdl ls digits
