# exit 1
adaptdl submit --no-start -- true
