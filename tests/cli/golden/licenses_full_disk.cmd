# exit 1
adaptdl licenses > /dev/full
