# exit 1
mkdir empty
adaptdl inspect empty
