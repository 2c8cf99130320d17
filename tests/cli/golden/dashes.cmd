# exit 1
adaptdl init linear there -q > files
mv there/train.pt ./-w.pt
adaptdl inspect -- -w.pt | head -1
adaptdl inspect -w.pt
adaptdl inspect -- --missing
