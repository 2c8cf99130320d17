# exit 2
adaptdl init linear there --text x
