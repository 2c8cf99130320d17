# exit 0
adaptdl __complete runs
live digits adaptdl __complete runs
