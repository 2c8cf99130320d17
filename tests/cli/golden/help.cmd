# exit 0
adaptdl
adaptdl --help | head -3
adaptdl help scale | head -4
