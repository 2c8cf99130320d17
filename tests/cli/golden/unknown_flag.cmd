# exit 2
adaptdl run train.pt --replica 3
