# exit 1
live digits adaptdl scale digits 9
