# exit 0
adaptdl policy
