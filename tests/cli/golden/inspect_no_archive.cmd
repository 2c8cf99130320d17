# exit 1
echo hello > x.pt
adaptdl inspect x.pt
