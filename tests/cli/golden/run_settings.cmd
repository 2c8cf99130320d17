# exit 1
archive train.pt "bacth: 3"
adaptdl run train.pt
