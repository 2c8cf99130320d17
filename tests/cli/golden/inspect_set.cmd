# exit 1
adaptdl init linear there -q > files
adaptdl inspect there/train.pt --set epoch=7
