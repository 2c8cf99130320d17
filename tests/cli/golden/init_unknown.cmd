# exit 2
adaptdl init digit there
