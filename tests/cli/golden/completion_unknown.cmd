# exit 2
adaptdl completion bsh
