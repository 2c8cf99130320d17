# exit 2
archive train.pt
adaptdl run train.pt --replicas-at 3
