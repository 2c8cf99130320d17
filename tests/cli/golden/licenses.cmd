# exit 0
adaptdl licenses | head -1
