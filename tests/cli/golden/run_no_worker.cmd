# exit 1
# without worker
archive train.pt
adaptdl run train.pt
