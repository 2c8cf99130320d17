# exit 1
live digits adaptdl logs digits --replica 5
