# exit 2
adaptdl run train.pt --evaluate --fresh
